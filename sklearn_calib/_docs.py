"""Paragraphs of docstrings that several public functions and classes share."""

import re
from collections.abc import Callable
from textwrap import indent
from typing import Any, TypeVar

Documented = TypeVar("Documented", bound=Callable[..., Any])

_PARAGRAPHS = {
    "outcomes": """\
y_true : array-like of shape (n,) or (n, n_labels)
    Labels of two or more classes; or an indicator matrix of zeros and ones for multilabel targets, over
    whose columns the error is averaged. Binary outcomes may lie between 0 and 1 (docs/inputs.md).
y_proba : array-like of shape (n,), (n, 1), (n, n_classes) or (n, n_labels)
    Predicted probabilities in [0, 1]: of the positive class (of two columns the last is used), of three
    or more classes in sorted order, or of each label. Values up to 1e-6 outside [0, 1] are clipped.""",
    "sample": """\
%(outcomes)s
%(weight)s""",
    "binary_sample": """\
y_true : array-like of shape (n,)
    Binary labels.
y_proba : array-like of shape (n,), (n, 1) or (n, 2)
    Predicted probabilities of the positive class in [0, 1]; of two columns the last is used.
    Values up to 1e-6 outside [0, 1] are clipped.""",
    "inference_sample": """\
y_true : array-like of shape (n,) or (n, n_labels)
    Labels of two or more classes; or an indicator matrix of zeros and ones for multilabel targets.
y_proba : array-like of shape (n,), (n, 1), (n, n_classes) or (n, n_labels)
    Predicted probabilities in [0, 1]: of the positive class (of two columns the last is used), of three
    or more classes in sorted order, or of each label. Values up to 1e-6 outside [0, 1] are clipped.""",
    "inference_reduction": """\
reduction : {"classwise", "confidence", "top-label"} or None, default=None
    How multiclass predictions are evaluated, by a metric of binary outcomes, as in the metrics:
    "classwise", the mean over classes or labels; "confidence", the largest probability; "top-label", the
    same for each predicted class. None: ``metric(y_true, y_proba)``, that is "classwise" for most
    metrics of this package, and the whole vector of probabilities for the log loss, the Brier score and
    functions without a parameter ``reduction``.
%(labels)s""",
    "pos_label": """\
pos_label : label, default=None
    The positive class. By default 1 for labels in {0, 1} or {-1, 1}, else the greater of two numbers;
    required for text labels with a single column of probabilities.""",
    "weight": """\
sample_weight : array-like of shape (n,), default=None
    Non-negative weights; a weight of k is equivalent to k repetitions of the sample.
%(pos_label)s""",
    "reduction": """\
reduction : {"classwise", "confidence", "top-label"}, default="classwise"
    How multiclass predictions are evaluated. "classwise": each class against the rest, the mean over
    classes; "confidence": the largest probability as a forecast that its class is the right one;
    "top-label": the same within the samples of each predicted class, the mean weighted by their
    frequency. The latter two also apply to binary predictions.
%(labels)s""",
    "labels": """\
labels : array-like of shape (n_classes,), default=None
    Class labels of three or more columns; they, and the columns, must be in sorted order. Required if a
    class does not occur in ``y_true``, unless labels are 0, ..., n_classes - 1, or the names of the columns
    of a data frame. Of two classes, the negative and the positive one, instead of ``pos_label``.""",
    "pos_label_or_labels": """\
%(pos_label)s
labels : array-like of shape (2,), default=None
    The negative and the positive class, instead of ``pos_label``.""",
    "trained_fit": """\
training_cutoff_error_ : float
    Cutoff calibration error of the fitted map on the training samples; of monotone maps and binning.
training_event_rate_ : float
    Weighted frequency of ``classes_[1]`` in the training samples.
training_size_ : float
    Number of training samples; with non-integer weights, the effective sample size.
%(binary_fit)s""",
    "score_link": """\
link : {"logit", "identity"}, default="logit"
    Type of the scores. "logit": probabilities, of which the log-odds are used; see Notes for those near 0 and
    1. "identity": any real scores, such as margins of a support vector machine; ``method="sigmoid"``
    of scikit-learn 1.9 uses this for probabilities, too.""",
    "shrink_temperature": """\
shrink_temperature : bool, default=False
    Whether the inverse temperature is shrunk to 1: its posterior mode, averaged with 1. With few samples
    this keeps the temperature finite under perfect separation; see :class:`MatrixScalingCalibrator`.""",
    "progress": """\
progress : bool or callable, default=False
    Whether to show a progress bar over the fits. Needs tqdm (extra ``report``). A function is called as
    ``progress(done, total, what)``.""",
    "affine_fit": """\
penalty_ : float
    The penalty that was used.
n_iter_ : int
    Number of Newton steps.
%(clipped_fit)s""",
    "clipped_fit": """\
%(min_proba)s
%(multiclass_fit)s""",
    "min_proba": """\
min_proba_ : float
    The limit at which probabilities are clipped before the logarithm; see Notes. Not set for other
    scores.""",
    "clipped": """\
Probabilities p of two classes are clipped to [d, 1 - d], with d = ``min_proba_`` the smallest positive
value of p and 1 - p in the calibration sample, but at most :math:`1/(2\\sqrt n)` and at least 2**-53.
Here n is the sum of integer weights, for others :math:`(\\sum w)^2 / \\sum w^2`. Forests, trees and
nearest neighbors predict 0 or 1 where no tree or neighbor disagrees, which means less than the smallest
frequency, not certainty: at log-odds of -37 and 37 a few contradicted predictions would flatten the whole
map. The upper bound is for trees that predict nothing but 0 and 1. New scores are clipped at the same
limit.""",
    "clipped_there": """\
Probabilities are clipped as by :class:`TemperatureCalibrator`, because zeros of forests, trees and
nearest neighbors are contradicted.""",
    "score_and_features": """\
X : data frame or array-like of shape (n, 1 + n_features)
    The score, and the features of the fit.""",
    "probabilities_of_transform": """\
X : array-like of shape (n,), (n, 1), (n, 2) or (n, K)
    Predicted probabilities.""",
    "binary_fit": """\
classes_ : ndarray of shape (2,)
    The sorted class labels.
%(columns)s""",
    "multiclass_fit": """\
classes_ : ndarray of shape (n_classes,)
    The sorted class labels.
%(columns)s""",
    "link": """\
link : {"logit", "identity"}, default="logit"
    Type of the scores. "logit": probabilities, in one, two or K columns, clipped at ``min_proba_``.
    "identity": logits, that is the log-odds of ``classes_[1]`` in one
    column, or one logit per class in two or more.""",
    "tested_fit": """\
statistic_, pvalue_ : float
    Its statistic and p-value.
classes_ : ndarray
    The sorted labels seen during ``fit``.
n_features_in_ : int
    Number of columns of ``X``.""",
    "passed_on": """\
ax : matplotlib Axes, default=None
    Axes for the plot; by default those of a new figure.
**plot_params : dict
    Passed to :meth:`plot`.""",
    "held_out": """\
X : array-like of shape (n, n_features)
    Held-out data, not the training data.
y : array-like of shape (n,)
    Labels of the held-out data.
pos_label : label, default=None
    The positive class of a binary target; ``classes_[1]`` by default.""",
    "metric_axes": """\
ax : matplotlib Axes or list of these, default=None
    Where to draw, one for each metric; a new figure by default.
**plot_params : dict
    Passed to :meth:`plot`.

%(display_returned)s""",
    "no_matplotlib": """\
ImportError
    If matplotlib is not installed.""",
    "error": """\
Returns
-------
float
    Error in [0, 1]; 0 is best.

%(raised)s""",
    "distance_paper": """\
References
----------
.. [1] J. Blasiok et al. (2023). A Unifying Theory of Distance from Calibration. STOC. arXiv:2211.16886""",
    "recalibration": """\
recalibration : {"monotone", "either", "any"}, default="monotone"
    Permitted maps: non-decreasing ones, monotone ones of either direction, or any. "any" replaces each
    distinct prediction by its event frequency. It measures noise only if all predictions differ: intervals
    and comparisons need ten samples for each distinct prediction.""",
    "cutoff_paper": """\
References
----------
.. [1] Rossellini, Soloff, Barber, Ren, Willett (2025). Can a calibration metric be both testable and
   actionable? COLT. arXiv:2502.19851.""",
    "not_proper": """\
Like every calibration error it is not a proper score: a constant prediction of the event frequency has
error 0.""",
    "clusters": """\
clusters : array-like of shape (n,) or None, default=None
    Label of the cluster of each sample. Samples of different clusters are independent, those of a cluster
    need not be.""",
    "metric": """\
metric : str or callable, default="smooth_ece"
    Name of a function of :mod:`sklearn_calib.metrics` that returns a number, "brier_score", "log_loss" or
    "roc_auc", or ``metric(y_true, y_proba, *, sample_weight=None) -> float``, with parameters fixed by
    :func:`functools.partial`.""",
    "random_state": """\
random_state : int, Generator, RandomState or None, default=0
    Source of the simulations. The default makes the result reproducible.""",
    "simulated": """\
n_resamples : int, default=999
    Number of simulated samples, N; the p-value is (1 + #{T* >= T}) / (1 + N), never 0.
%(tested_classes)s
%(random_state)s""",
    "simulated_canonical": """\
n_resamples : int, default=999
    Number of simulated samples, N; the p-value is (1 + #{T* >= T}) / (1 + N), never 0.
%(canonical)s
%(random_state)s""",
    "tested_classes": """\
reduction : {"joint", "classwise", "confidence", "top-label"}, default="joint"
    What is tested with three or more classes; see :class:`CalibrationTest`. "classwise": each class against
    the rest; "confidence": the largest probability as a forecast that its class is the right one; "joint":
    both of these and the mean over classes; "top-label": the confidence for each predicted class. The
    second and the last one also apply to binary predictions.""",
    "canonical": """\
reduction : {"canonical", "joint", "classwise", "confidence", "top-label"}, default="canonical"
    What is tested with three or more classes. "canonical": the whole vector of probabilities; the others
    test binary problems, see :class:`CalibrationTest`. "confidence" and "top-label" also apply to binary
    predictions; multilabel targets are tested as by "joint".""",
    "scores": """\
X : array-like of shape (n,), (n, 1), (n, 2) or (n, n_classes)
    Scores, with as many columns as those of the fit.""",
    "fitted_scores": """\
X : array-like of shape (n,), (n, 1), (n, 2) or (n, n_classes)
    Scores; see the class.
y : array-like of shape (n,)
    Class labels; for some calibrators also outcomes between 0 and 1 (docs/inputs.md).""",
    "fitted_classes": """\
classes : array-like of shape (n_classes,) or None, default=None
    The labels of the columns; they, and the columns, must be in sorted order. Required if some of them do
    not occur in ``y``. One-vs-rest, temperature, vector, matrix, structured matrix and Dirichlet calibration,
    and averages and choices of these, can be fitted to three or more classes without samples of each. A class
    without a sample keeps the model's probability if fewer than three samples of it were expected from the
    predictions, the sum of its probabilities; a warning names it. None: the labels that occur in ``y``, or
    the names of the columns of a data frame if ``y`` has only some of them.""",
    "new_scores": """\
%(scores)s
groups : array-like of shape (n,) or None, default=None
    Group of each sample, if groups were passed to ``fit``.""",
    "mapped": """\
Returns
-------
ndarray of the shape of ``X``
    One column: the probability of ``classes_[1]``; otherwise one column per class.""",
    "raised": """\
Raises
------
%(malformed)s""",
    "shrunk_to": """\
temperature_ : float
    :math:`1/\\beta`, of the temperature scaling to which the map is shrunk.""",
    "malformed": """\
ValueError
    If an argument is malformed; the message names it.""",
    "invalid": """\
%(malformed)s
TypeError
    If a parameter is of the wrong type.""",
    "inference_weight": """\
sample_weight : array-like of shape (n,) or None, default=None
    Non-negative weights.
weights : {"sampling", "frequency"}, default="sampling"
    What the weights mean. "sampling": each sample stands for others that were not drawn (surveys, exposures,
    inverse probabilities); only ratios of weights matter, and weights that depend on the outcome alone, or
    nearly so (case-control samples), are recognized. "frequency": a weight of k, a whole number, stands for
    k samples, as in summaries and tables of counts.""",
    "counted_weight": """\
weights : "frequency" or None, default=None
    What weights mean. "frequency": a weight of k, a whole number, stands for k samples. None: only weights of
    0 and 1. Sampling weights are not supported here, where samples are counted.""",
    "dependence": """\
n_clusters : int or None
    Number of clusters; None if samples were taken to be independent.
design_effect : float or None
    Estimated variance of the number of events, given the predictions, divided by what it would be for
    independent samples; at least 1. None without clusters.
n_effective : float or None
    Effective number of samples: (sum w)^2 / sum w^2 for sampling weights, divided by the design effect;
    None without sampling weights and clusters.
%(meaning)s""",
    "weighting": """\
n_effective : float or None
    Effective number of samples, (sum w)^2 / sum w^2, of sampling weights; else None.
%(meaning)s""",
    "meaning": """\
weights : {"sampling", "frequency", "case-control"} or None
    What weights were taken to mean; "case-control" if they depend on the outcome alone, or nearly so. None
    without weights, and for sampling weights that are all equal.
weight_spread : float or None
    Standard deviation of the logarithms of weights within the classes, if they depend nearly on the outcome
    alone; else None.""",
    "simulated_or_limit": """\
method : {"auto", "asymptotic", "monte_carlo"}, default="auto"
    How the p-value is obtained. "monte_carlo": from simulated outcomes, Y* ~ Bernoulli(p), exact given the
    predictions for any n. "asymptotic": from the asymptotic distribution. "auto": simulated outcomes for up
    to 10000 observations, else asymptotic.""",
    "tested_rows": """\
X : array-like of shape (n,), (n, 1), (n, 2) or (n, K)
    Predicted probabilities, as ``y_proba`` of :meth:`test`.
y : array-like of shape (n,)
    Outcomes; for :meth:`score` of a fitted object labels among ``classes_``.
sample_weight : array-like of shape (n,) or None, default=None
    Non-negative weights.
weights : {"sampling", "frequency"}, default="sampling"
    What the weights mean, as in :meth:`test`.
clusters : array-like of shape (n,) or None, default=None
    Label of the cluster of each sample, as in :meth:`test`.""",
    "two_labels": """\
classes : array-like of shape (2,) or None, default=None
    Both labels, sorted, for a first call that does not contain both. None means the labels of the first
    ``y``; a single 0, 1 or bool implies the labels 0 and 1, a single -1 the labels -1 and 1. The greater
    label is the positive one.""",
    "axes": """\
ax_ : matplotlib Axes
    Axes with the plot, after :meth:`plot`.
figure_ : matplotlib Figure
    Figure containing it.""",
    "panels": """\
axes_ : list of matplotlib Axes
    Axes of each panel, after :meth:`plot`.
ax_ : matplotlib Axes
    The first of them.
figure_ : matplotlib Figure
    Figure containing them.""",
    "display_returned": """\
Returns
-------
display
    The display.

Raises
------
%(invalid)s
%(no_matplotlib)s""",
    "named_picture": """\
name : str, default=None
    Name of a single model in the legend.
%(passed_on)s

%(display_returned)s""",
    "named_legend": """\
name : str, default=None
    Name in the legend; the display's own by default.
show_legend : bool, default=True
    Whether to draw the legend.""",
    "self_returned": """\
Returns
-------
display
    The display itself.

Raises
------
ValueError
    If a parameter is invalid.
%(no_matplotlib)s""",
    "drawn_into": """\
ax : matplotlib Axes, default=None
    Axes for the plot; by default those of a new figure. Size and style of given axes are not changed.""",
    "seeded_picture": """\
random_state : int, Generator, RandomState or None, default=0
    Source of randomness; by default the same data give the same plot.""",
    "plain_weight": """\
sample_weight : array-like of shape (n,), default=None
    Non-negative weights.""",
    "models": """\
y_true : array-like of shape (n,)
    Labels of two or more classes.
predictions : array-like of shape (n,), (n, 1) or (n, n_classes), or mapping of str to these
    Predicted probabilities; or the name of each model and its predictions for the same samples.""",
    "display_thresholds": """\
thresholds : array-like of shape (m,), default=None
    Thresholds, at least 0 and less than 1, whose range is shown. By default 99 at equal distances, between 0
    and the largest prediction if all are below 1/2, between the smallest and 1 if all are above, else
    between 0 and 1. One in 200 predictions at each end does not count.""",
    "threshold_display": """\
Parameters
----------
curves : mapping of str to ThresholdCurve
    Curve of each model; the key None stands for a single model.
reference : str, default=None
    Name of the model to which the curves are differences.
name : str, default=None
    Name of a single model in the legend.

Attributes
----------
%(axes)s
lines_ : list of matplotlib Line2D
    The curves.
bands_ : list of matplotlib Collection
    Their bands; none with more than three curves on the axes.""",
    "batch": """\
y_true : array-like of shape (n,), or a label
    Outcomes; one label only, or no sample at all, is allowed.
y_proba : array-like of shape (n,), (n, 1) or (n, 2), or a number
    Predicted probabilities of the positive class in [0, 1]; of two columns the last is used.
sample_weight : array-like of shape (n,), or a number, default=None
    Numbers of samples: weight k counts as k repetitions of the sample, and weight 0 as none.""",
    "sketched": """\
pos_label : label, default=None
    The positive class. Needed for other labels than 0 and 1, -1 and 1, or booleans, because a batch may
    hold one of the two labels only.
precision : int, default=17
    Precision of the sketch.""",
    "scored": """\
pos_label : label, default=None
    The class whose probability is evaluated, against all others. None means ``estimator.classes_[1]`` for
    binary and ``reduction`` for multiclass classifiers.
response_method : str or sequence of str, default="predict_proba"
    Method of the estimator that returns probabilities; in a sequence, the first that exists is used. Use
    ``"predict"`` for a regressor of 0/1 outcomes whose prediction is a probability.""",
    "features": """\
X : array-like, sparse matrix, dataframe or list of length n
    As accepted by the estimator.""",
    "labeled": """\
%(features)s
y : array-like of shape (n,)
    Class labels.""",
    "weighted": """\
%(labeled)s
sample_weight : array-like of shape (n,), default=None
    Weights of the samples.
**params : dict
    Further metadata; see the Notes of the class.""",
    "features_in": """\
n_features_in_ : int
    Number of features, if the classifier has this attribute.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Names of the features, if the classifier has this attribute.""",
    "columns": """\
n_features_in_ : int
    Number of columns of ``X``.
feature_names_in_ : ndarray of shape (n_features_in_,)
    Column names of ``X``, if it has string names.""",
}


def shared_docs(documented: Documented) -> Documented:
    """Replace lines ``%(name)s`` in the docstring of a function, or of a class and its methods."""
    parts = vars(documented).values() if isinstance(documented, type) else ()
    for part in (documented, *(getattr(part, "__func__", part) for part in parts)):
        text = getattr(part, "__doc__", None)
        if isinstance(text, str) and "%(" in text:
            part.__doc__ = _filled(text)
    return documented


def _filled(text: str) -> str:
    return re.sub(r"^( *)%\((\w+)\)s$", _paragraph, text, flags=re.MULTILINE)


def _paragraph(found: re.Match[str]) -> str:
    known = _PARAGRAPHS.get(found[2])
    return found[0] if known is None else indent(_filled(known), found[1])
