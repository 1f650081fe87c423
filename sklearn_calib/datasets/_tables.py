"""Tables to train classifiers on, forecasts of solar flares, and answers of a language model."""

from __future__ import annotations

import lzma
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class LabeledTable:
    """Features and a binary outcome.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features. A category is its position in `categories`.
    y : ndarray of shape (n_samples,)
        Outcomes 0 or 1, int64.
    feature_names : tuple of str
        Names of the columns of `X`.
    categories : dict
        For each categorical feature, its values in alphabetical order.
    date : ndarray of shape (n_samples,) or None
        The day of each sample, if it is known; datetime64.
    description : str
        Description of the samples and of the positive outcome.
    """

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    feature_names: tuple[str, ...]
    categories: dict[str, tuple[str, ...]]
    date: NDArray[np.datetime64] | None
    description: str

    @property
    def is_categorical(self) -> NDArray[np.bool_]:
        """Which columns of `X` are categorical, as scikit-learn's gradient boosting accepts it."""
        return np.array([name in self.categories for name in self.feature_names])

    def column(self, name: str) -> NDArray[np.generic]:
        """Return one feature by its name, shape (n_samples,): numbers, or the names of categories."""
        if not isinstance(name, str) or name not in self.feature_names:
            raise ValueError(f"name must be one of {', '.join(self.feature_names)}, got {name!r}.")
        values = self.X[:, self.feature_names.index(name)]
        if name in self.categories:
            return np.array(self.categories[name])[values.astype(int)]
        return values

    def __str__(self) -> str:
        return (
            f"{self.X.shape[0]} {self.description}, {self.X.shape[1]} features\n"
            f"event rate  {self.y.mean():.4f}"
        )


@dataclass(frozen=True, eq=False)
class ModelAnswers:
    """Answers of a language model, with its confidence.

    Attributes
    ----------
    y_true : ndarray of shape (n_samples,)
        1 if the answer is correct, else 0; int64.
    y_proba : ndarray of shape (n_samples,)
        Confidence of the model in its answer.
    larger_correct : ndarray of shape (n_samples,)
        1 if the answer of a larger model to the same question is correct, else 0; int64.
    """

    y_true: NDArray[np.int64]
    y_proba: NDArray[np.float64]
    larger_correct: NDArray[np.int64]

    def __str__(self) -> str:
        return (
            f"{self.y_true.shape[0]} answers of a language model\n"
            f"accuracy         {self.y_true.mean():.4f}\n"
            f"mean confidence  {self.y_proba.mean():.4f}\n"
            f"larger model     {self.larger_correct.mean():.4f}"
        )


@dataclass(frozen=True, eq=False)
class SolarFlares:
    """Forecasts and outcomes of solar flares.

    Attributes
    ----------
    y_true : ndarray of shape (731,)
        1 on days with a flare of class C1.0 or stronger, else 0; int64.
    y_proba : ndarray of shape (731,)
        Probability issued for such a day.
    date : ndarray of shape (731,)
        The day; datetime64.
    """

    y_true: NDArray[np.int64]
    y_proba: NDArray[np.float64]
    date: NDArray[np.datetime64]

    def __str__(self) -> str:
        return (
            f"{self.y_true.shape[0]} daily forecasts of solar flares, {self.date[0]} to {self.date[-1]}\n"
            f"days with a flare  {self.y_true.mean():.4f}\n"
            f"mean forecast      {self.y_proba.mean():.4f}"
        )


def load_german_credit() -> LabeledTable:
    """Load the German credit data: 1000 applicants for a loan, 300 of them bad risks.

    Returns
    -------
    LabeledTable
        20 features of the applicants, 13 of them categorical; the outcome is 1 for a bad risk.

    Notes
    -----
    Categories have the codes of the source, such as ``"A11"``, which its documentation explains. Bad
    risks are more frequent than in a portfolio of loans.
    License: CC BY 4.0.

    References
    ----------
    H. Hofmann (1994). Statlog (German Credit Data). UCI Machine Learning Repository,
    doi:10.24432/C5NC77.

    Examples
    --------
    >>> from sklearn_calib.datasets import load_german_credit
    >>> print(load_german_credit())
    1000 applicants for a loan (event: bad risk), 20 features
    event rate  0.3000
    """
    columns = _read("german_credit")
    return _table(columns, "bad", "applicants for a loan (event: bad risk)")


def load_bank_marketing() -> LabeledTable:
    """Load the bank marketing data: 7536 telephone calls that offered a term deposit, in the order of time.

    Returns
    -------
    LabeledTable
        6 features known before the call, 5 of them categorical, and the day of the call, from May 2008 to
        November 2010; the outcome is 1 if the client subscribed.

    Notes
    -----
    These are columns of every sixth call of ``bank-full.csv``. Years are not in the source; they follow from
    the order of the calls. Within a day, calls are sorted by their features. The duration of the call is left
    out because it is known only after the outcome. The event rate rises from 4% in the first month to more
    than 40% in the last year. License: CC BY 4.0.

    References
    ----------
    S. Moro, P. Cortez, P. Rita (2014). A data-driven approach to predict the success of bank telemarketing.
    *Decision Support Systems* 62, 22-31. Data: UCI Machine Learning Repository, doi:10.24432/C5K306.

    Examples
    --------
    >>> from sklearn_calib.datasets import load_bank_marketing
    >>> print(load_bank_marketing())
    7536 telephone calls (event: subscription), 6 features
    event rate  0.1169
    """
    columns = _read("bank_marketing")
    return _table(columns, "subscribed", "telephone calls (event: subscription)")


def load_mmlu_answers() -> ModelAnswers:
    """Load 6000 answers of a language model to multiple-choice questions, with its confidence.

    The model is gpt-3.5-turbo, the questions are a random part of the benchmark MMLU, and the confidence is
    the probability of the letter that the model chose. The larger model is gpt-4-turbo.

    Returns
    -------
    ModelAnswers
        Outcomes, confidences, and the outcomes of the larger model.

    Notes
    -----
    Plaut et al. published grades and confidences, without the questions, under the MIT license. Confidences
    are rounded to six decimals, and the order is random. One answer of the larger model that could not be
    parsed counts as wrong.

    References
    ----------
    B. Plaut, N. X. Khanh, T. Trinh (2024). Probabilities of Chat LLMs Are Miscalibrated but Still Predict
    Correctness on Multiple-Choice Q&A. arXiv:2402.13213.

    Examples
    --------
    >>> from sklearn_calib.datasets import load_mmlu_answers
    >>> print(load_mmlu_answers())
    6000 answers of a language model
    accuracy         0.6460
    mean confidence  0.8754
    larger model     0.8095
    """
    columns = _read("mmlu_answers")
    # the file is sorted, which halves its size; the numbers of RandomState never change
    order = np.random.RandomState(0).permutation(len(columns["correct"]))
    return ModelAnswers(
        np.array(columns["correct"], dtype=np.int64)[order],
        np.array(columns["confidence"], dtype=np.float64)[order],
        np.array(columns["larger_correct"], dtype=np.int64)[order],
    )


def load_solar_flares() -> SolarFlares:
    """Load two years of daily probability forecasts of solar flares.

    The operational system DAFFS (Discriminant Analysis Flare Forecasting System) gave, for every day of
    2016 and 2017, the probability of at least one flare of class C1.0 or stronger. The sample is small and
    clearly miscalibrated: forecasts between 0.2 and 0.7 overpredict by up to 0.25.

    Returns
    -------
    SolarFlares
        Outcomes, forecasts and days.

    Notes
    -----
    The data are in the public domain (CC0 1.0), doi:10.7910/DVN/HYP74O. Of the systems that Leka et al.
    (2019) compared only this one is shipped. Its reliability diagram is Figure 2(b) of Blasiok and Nakkiran
    (2024).

    References
    ----------
    K. D. Leka, S.-H. Park, K. Kusano, et al. (2019). A Comparison of Flare Forecasting Methods. II.
    Benchmarks, Metrics, and Performance Results for Operational Solar Flare Forecasting Systems. *The
    Astrophysical Journal Supplement Series* 243(2), 36.

    J. Blasiok, P. Nakkiran (2024). Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing. *ICLR*.

    Examples
    --------
    >>> from sklearn_calib.datasets import load_solar_flares
    >>> from sklearn_calib.metrics import smooth_ece
    >>> flares = load_solar_flares()
    >>> print(flares)
    731 daily forecasts of solar flares, 2016-01-01 to 2017-12-31
    days with a flare  0.2572
    mean forecast      0.3071
    >>> round(smooth_ece(flares.y_true, flares.y_proba), 4)
    0.0674
    """
    columns = _read("solar_flares")
    return SolarFlares(
        np.array(columns["rlz.C1"], dtype=np.int64),
        np.array(columns["DAFFS"], dtype=np.float64),
        np.array(columns["VALID_DATE"], dtype="datetime64[D]"),
    )


def _read(name: str) -> dict[str, list[str]]:
    # two lines for each column: its name and levels, and a character for each value, "#" for the first level
    content = files("sklearn_calib.datasets").joinpath("data", f"{name}.xz").read_bytes()
    lines = iter(lzma.decompress(content).decode("utf-8").splitlines())
    columns = ((*first.split(","), codes) for first, codes in zip(lines, lines, strict=True))
    # without codes, the levels are the values
    return {column: [levels[ord(k) - 35] for k in codes] or levels for column, *levels, codes in columns}


def _table(columns: dict[str, list[str]], target: str, description: str) -> LabeledTable:
    y = np.array(columns.pop(target), dtype=np.int64)
    date = np.array(columns.pop("date"), dtype="datetime64[D]") if "date" in columns else None
    X = np.empty((y.shape[0], len(columns)))
    categories = {}
    for j, (name, values) in enumerate(columns.items()):
        try:
            X[:, j] = np.array(values, dtype=np.float64)
        except ValueError:
            levels, X[:, j] = np.unique(values, return_inverse=True)
            categories[name] = tuple(levels.tolist())
    return LabeledTable(X, y, tuple(columns), categories, date, description)
