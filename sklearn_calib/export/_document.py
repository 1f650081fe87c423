"""The JSON document of a map, and the estimator that is loaded from it."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags

from sklearn_calib import _validation
from sklearn_calib._compat import available_if
from sklearn_calib._core import _maps as maps
from sklearn_calib._core._blocks import blocks
from sklearn_calib._core._links import clip_probability
from sklearn_calib._core._maps import NUMPY
from sklearn_calib._docs import shared_docs
from sklearn_calib._persistence import VersionStamped
from sklearn_calib._typing import Array
from sklearn_calib._version import __version__
from sklearn_calib._writing import read_whole, write_whole
from sklearn_calib.calibrators import CutoffCertificate, SegmentCalibrator
from sklearn_calib.calibrators._base import BaseCalibrator, both_classes, inverse, may_be_certain
from sklearn_calib.calibrators._group import GroupPrediction
from sklearn_calib.export._build import MapBuilder

FORMAT, VERSION = "sklearn_calib.map", 1
#: Largest deviation of an approximated map, unless another one is given.
TOLERANCE = 1e-4
_KINDS = ("probability", "logit", "score")
_LABELS = (bool, int, float, str)
# Most characters of the texts that describe a map.
_LONGEST = 1000
# Largest number of a map: its product with a score is finite.
_LARGEST = 1e200
# Greatest values of the numbers of a certificate.
_CERTIFICATE = {"bound": 1.0, "confidence": 1.0, "n_samples": np.inf}
# Scores are mapped in blocks of this size, so that temporary arrays stay in cache.
_CHUNK = 1 << 14


def _is_monotone(calibrator: Any) -> bool:
    if not getattr(calibrator._node, "monotone", False):
        raise AttributeError(
            "inverse_transform needs a monotone map of two classes. Export a monotone calibrator, such as "
            "IsotonicCalibrator or SplineCalibrator(monotone=True)."
        )
    return True


@shared_docs
class ExportedCalibrator(
    GroupPrediction,
    VersionStamped,
    OneToOneFeatureMixin,
    ClassifierMixin,
    TransformerMixin,
    BaseEstimator,
    auto_wrap_output_keys=None,  # type: ignore[call-arg]
):
    """A fitted calibrator as plain data: the estimator that :func:`from_json` returns.

    Its map is that of the exported calibrator. It cannot be fitted: ``fit`` returns it unchanged. It contains
    only numbers, labels and strings.

    Parameters
    ----------
    document : dict
        The content of a JSON document of :func:`to_json`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    n_features_in_ : int
        Number of columns of scores in ``fit`` of the calibrator. Scores of two classes may have one or two
        columns here.
    n_knots_ : int
        Number of knots and steps of the map.
    fingerprint_ : str
        SHA-256 hash of the document: of the map, the summary of the training data and the certificate.

    See Also
    --------
    to_json : Write a calibrator.

    Examples
    --------
    >>> from sklearn_calib.calibrators import PlattCalibrator
    >>> from sklearn_calib.export import from_json, to_json
    >>> calibrator = PlattCalibrator().fit([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    >>> loaded = from_json(to_json(calibrator))
    >>> loaded.transform([0.2, 0.7]).round(6) == calibrator.transform([0.2, 0.7]).round(6)
    array([ True,  True])
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    @property
    def document(self) -> dict[str, Any]:
        """The document, which is validated when it is set."""
        return self._document

    @document.setter
    def document(self, document: dict[str, Any]) -> None:
        self._node, self._kind = _read(document), document["input"]
        self._document = document
        classes = document["classes"]
        # an array of texts has the width of the longest one, and cuts off NULs at their ends
        self.classes_ = np.array(classes, dtype=object if isinstance(classes[0], str) else None)
        self.n_features_in_ = int(document["columns"])
        self.fingerprint_ = str(document["fingerprint"])
        self.n_knots_ = _knots(self._node)
        self._range = (
            (0.0, 1.0)
            if self._kind == "probability"
            else (-_validation.LARGEST_SCORE, _validation.LARGEST_SCORE)
        )
        node = self._node
        grouped = isinstance(node, maps.Groups)
        self._by_group = dict(zip(node.labels, node.maps, strict=True)) if grouped else {}

    def fit(self, X: Any = None, y: Any = None, **params: Any) -> Self:
        """Return the calibrator unchanged.

        Parameters
        ----------
        X, y, **params : object
            Ignored.
        """
        return self

    def transform(self, X: ArrayLike, groups: ArrayLike | None = None) -> Array:
        """Return calibrated probabilities in the shape of the input.

        Parameters
        ----------
        %(new_scores)s

        %(mapped)s

        %(raised)s
        """
        proba = self._calibrated(X, groups)
        shape = np.shape(X)
        if proba.ndim == 1 and shape[1:] != (2,):
            return proba.reshape(shape)
        return both_classes(proba)

    @available_if(_is_monotone)
    def inverse_transform(self, X: ArrayLike, *, side: str = "left") -> Array:
        """Return the scores that are mapped to given probabilities; for monotone binary maps only.

        Parameters
        ----------
        X : array-like of shape (n,) or (n, 1)
            Probabilities of ``classes_[1]``.
        side : {"left", "right"}, default="left"
            End of the interval in which the map is constant; see
            :meth:`~sklearn_calib.calibrators.IsotonicCalibrator.inverse_transform`.

        Returns
        -------
        ndarray of the shape of ``X``
            Scores; NaN where there is none.
        """
        return inverse(lambda scores: self._evaluate(self._node, scores), self._kind, X, side)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.requires_fit = False
        return tags

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"<ExportedCalibrator {self.fingerprint_[:12]}>"

    def __str__(self) -> str:
        found = self._document
        size = f"{self.n_knots_} knots" if self.n_knots_ else "closed form"
        exact = f"within {found['tolerance']:g}" if found["tolerance"] else "exact"
        lines = [
            f"{found['calibrator']} for {len(self.classes_)} classes ({size}, {exact})",
            f"  written by   {found['written_by']}",
            f"  fingerprint  {self.fingerprint_[:12]}",
        ]
        known = [f"{name} = {value}" for name, value in found["training"].items() if value is not None]
        if known:
            lines.append(f"  training     {', '.join(known)}")
        if found["certificate"] is not None:
            bound, confidence = found["certificate"]["bound"], found["certificate"]["confidence"]
            lines.append(
                f"  certificate  cutoff calibration error at most {bound:.4f} ({100 * confidence:g}%)"
            )
        return "\n".join(lines)

    def _calibrated(self, X: Any, groups: Any) -> Array:
        n_classes, scores = self.classes_.shape[0], _validation.check_scores(X, kind=self._kind)
        columns = 2 if scores.ndim == 1 else np.size(scores, 1)
        if columns != n_classes:
            raise ValueError(
                f"X has {columns} columns, but the calibrator was fitted to {n_classes} classes. Pass one "
                "column per class; for two classes the score of the second is enough."
            )
        if not isinstance(self._node, maps.Groups):
            if groups is not None:
                raise ValueError("groups were passed, but the calibrator has no groups. Omit groups.")
            return self._evaluate(self._node, scores)
        if groups is None:
            raise ValueError("groups are missing: the calibrator has a map for each group. Pass groups.")
        proba = np.empty(scores.shape)
        labels = list(self._by_group)
        found, index = _validation.check_groups(groups, scores.shape[0], fitted=labels)
        rows = np.split(np.argsort(index, kind="stable"), np.cumsum(np.bincount(index))[:-1])
        for label, part in zip(found, rows, strict=True):
            proba[part] = self._evaluate(self._by_group.get(label, self._node.others[0]), scores[part])
        return proba

    def _evaluate(self, node: maps.Node, scores: Array) -> Array:
        """Return the map of checked scores, computed in blocks."""
        if scores.shape[0] > _CHUNK:
            proba = np.empty(scores.shape)
            for rows in blocks(scores.shape[0], _CHUNK):
                proba[rows] = self._evaluate(node, scores[rows])
            return proba
        if scores.ndim == 1:
            return np.asarray(node.evaluate(NUMPY, scores))
        proba = node.evaluate(NUMPY, np.ascontiguousarray(scores.T)).T
        return np.asarray(proba if self._document["certain"] else clip_probability(proba))


def _knots(node: maps.Node | maps.Groups) -> int:
    """Return the number of knots of a node and of its parts."""
    if isinstance(node, maps.Step | maps.Linear):
        return int((node.edges if isinstance(node, maps.Step) else node.x).shape[0])
    parts = (*getattr(node, "maps", ()), *getattr(node, "others", ()))
    return sum(map(_knots, parts))


def exported(
    calibrator: Any,
    tolerance: float = TOLERANCE,
    *,
    relative: bool = False,
    certificate: Any = None,
    date: str | None = None,
) -> ExportedCalibrator:
    """Return a fitted calibrator, or the calibrator of a calibrated classifier, as plain data."""
    if isinstance(calibrator, ExportedCalibrator):
        return calibrator
    _validation.check_positive(tolerance, "tolerance")
    parts = getattr(calibrator, "calibrators_", None) if hasattr(calibrator, "response_method") else None
    if parts is not None:
        if len(parts) != 1:
            raise ValueError(
                f"calibrator is a {type(calibrator).__name__} with {len(parts)} pairs of a classifier and a "
                "calibrator. Fit it with ensemble=False, or use to_onnx."
            )
        calibrator = parts[0]
    if isinstance(calibrator, SegmentCalibrator):
        raise TypeError(
            "A SegmentCalibrator depends on features, and is not exported. Pass its calibrator_ for the map "
            "of the score alone."
        )
    if not isinstance(calibrator, BaseCalibrator):
        raise TypeError(f"calibrator must be a fitted calibrator of sklearn_calib, got {calibrator!r}.")
    if not hasattr(calibrator, "classes_"):
        raise ValueError(f"calibrator={type(calibrator).__name__} is not fitted. Call fit first.")
    classes = calibrator.classes_.tolist()
    if len({type(label) for label in classes}) > 1 or type(classes[0]) not in _LABELS:
        raise TypeError(f"calibrator has the classes {classes}. Encode them as strings or numbers.")
    if date is not None and not _is_text(date):
        raise ValueError(f"date must be a printable text of at most {_LONGEST} characters, got {date!r:.80}.")
    if not isinstance(certificate, CutoffCertificate | None):
        raise TypeError(
            f"certificate must be the result of cutoff_certificate, got {certificate!r}. Omit it, or "
            "pass calibrator.cutoff_certificate()."
        )
    build = MapBuilder(tolerance, relative)
    node = build.part(calibrator)
    n_samples, event_rate = (
        getattr(calibrator, name, None) for name in ("training_size_", "training_event_rate_")
    )
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": f"sklearn_calib {__version__}",
        "calibrator": type(calibrator).__name__,
        "classes": classes,
        "columns": int(calibrator.n_features_in_),
        "input": calibrator._score_kind(),
        "certain": bool(may_be_certain(calibrator)),
        "tolerance": float(tolerance) if build.approximated else 0.0,
        "training": {
            "n_samples": None if n_samples is None else float(n_samples),
            "event_rate": None if event_rate is None else float(event_rate),
            "date": date,
        },
        "certificate": None
        if certificate is None
        else {
            "bound": certificate.upper,
            "confidence": certificate.confidence,
            "method": certificate.method,
            "n_samples": float(certificate.n_samples),
            "note": certificate.note,
        },
        "map": to_dict(node),
    }
    return ExportedCalibrator({**document, "fingerprint": _fingerprint(document)})


def to_json(
    calibrator: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    tolerance: float = TOLERANCE,
    certificate: CutoffCertificate | None = None,
    date: str | None = None,
) -> str:
    """Return a fitted calibrator as JSON, and write it to a file if a path is given.

    The document holds the map, the labels and a summary of the training data; see the deployment guide for
    its schema. Parametric, isotonic and binning maps are exact up to rounding. All others are approximated by
    functions that are linear in log-odds between knots.

    Parameters
    ----------
    calibrator : calibrator, CalibratedClassifier or ExportedCalibrator
        The calibrator. Of a :class:`~sklearn_calib.CalibratedClassifier` with one pair, only the calibrator
        is written, which maps the scores of the classifier.
    path : str or path-like, default=None
        File to write.
    tolerance : float, default=1e-4
        Maximum deviation of an approximated map from the calibrator, on a grid that is ten times finer than
        the knots and around all possible jumps of the map.
    certificate : CutoffCertificate, default=None
        A certificate to record: the result of ``calibrator.cutoff_certificate()``.
    date : str, default=None
        Date of the training data, in any format.

    Returns
    -------
    str
        The JSON text.

    Raises
    ------
    ValueError
        If the calibrator is not fitted, its map is random, or it needs too many knots.
    TypeError
        If the calibrator cannot be exported, or its labels are neither strings nor numbers.

    See Also
    --------
    from_json : Load a calibrator.

    Examples
    --------
    >>> import json
    >>> from sklearn_calib.calibrators import TemperatureCalibrator
    >>> from sklearn_calib.export import to_json
    >>> calibrator = TemperatureCalibrator().fit([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    >>> json.loads(to_json(calibrator, date="2026-01-31"))["training"]
    {'n_samples': 4.0, 'event_rate': 0.5, 'date': '2026-01-31'}
    """
    found = exported(calibrator, tolerance, certificate=certificate, date=date)
    text = json.dumps(found.document, allow_nan=False)
    if path is not None:
        write_whole(os.fspath(path), f"{text}\n".encode())
    return text


def from_json(source: str | os.PathLike[str]) -> ExportedCalibrator:
    """Return the calibrator of a JSON document.

    The document is validated, and no part of it is executed.

    Parameters
    ----------
    source : str or path-like
        The JSON text, or a file written by :func:`to_json` as a :class:`pathlib.Path`: a str is not opened.

    Returns
    -------
    ExportedCalibrator
        The calibrator.

    Raises
    ------
    ValueError
        If the document is damaged, is not an exported calibrator, or has a newer version of the format.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> from sklearn_calib.calibrators import IsotonicCalibrator
    >>> from sklearn_calib.export import from_json, to_json
    >>> text = to_json(IsotonicCalibrator().fit([0.1, 0.4, 0.6, 0.8], ["no", "no", "yes", "yes"]))
    >>> print(from_json(text).predict([0.2, 0.7]))
    ['no' 'yes']
    """
    if not isinstance(source, str | os.PathLike):
        raise TypeError(f"source must be JSON text or a pathlib.Path, got {type(source).__name__}.")
    text = source.removeprefix("\ufeff") if isinstance(source, str) else read_whole(source)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        found = f"{type(error).__name__}: {error}"
        advice = " Pass a pathlib.Path to read a file." if isinstance(source, str) else ""
        raise ValueError(f"source is damaged or not JSON ({found}).{advice}") from None
    return ExportedCalibrator(document)


def _fingerprint(document: dict[str, Any]) -> str:
    rest = {name: value for name, value in document.items() if name != "fingerprint"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _read(document: Any) -> Any:
    """Return the map of a document; raise ValueError unless the document is valid."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError("document is not an exported calibrator. Pass the output of to_json.")
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        newer = type(version) is int and version > VERSION
        advice = "Read it with a newer release of sklearn_calib" if newer else "It is damaged"
        shown = repr(version)[:40]
        raise ValueError(f"The document has format version {shown}, supported is {VERSION}. {advice}.")
    try:
        return _sound(document)
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError, AttributeError) as error:
        raise ValueError(
            f"The exported calibrator is damaged: {str(error)[:200]}. Export it again."
        ) from None


def _is_number(value: Any, most: float) -> bool:
    return type(value) in (int, float) and 0.0 <= value <= most


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST and value.isprintable()


def _sound(document: dict[str, Any]) -> Any:
    """Return the map, after checks of all that its evaluation depends on."""
    require = maps.require
    require(document["fingerprint"] == _fingerprint(document), "its fingerprint is that of another document")
    classes, columns = document["classes"], document["columns"]
    require(isinstance(classes, list) and len(classes) >= 2, "classes are no labels")
    require({type(label) for label in classes} < set(_LABELS), "classes are neither strings nor numbers")
    require(len({type(label) for label in classes}) == 1, "classes are of several types")
    require(classes == sorted(set(classes)), "classes are not sorted, or one occurs twice")
    require(type(classes[0]) is not int or max(-classes[0], classes[-1]) < 1 << 63, "a class is too large")
    require(document["input"] in _KINDS and type(document["certain"]) is bool, "input or certain is unknown")
    found = (1, 2) if len(classes) == 2 else (len(classes),)
    require(type(columns) is int and columns in found, "columns do not match the classes")
    require(_is_number(document["tolerance"], 1.0), "tolerance is out of range")
    require(all(map(_is_text, (document["calibrator"], document["written_by"]))), "its origin is no text")
    training, certificate = document["training"], document["certificate"]
    require(training.keys() == {"n_samples", "event_rate", "date"}, "training has unknown keys")
    for name, most in (("n_samples", np.inf), ("event_rate", 1.0)):
        require(training[name] is None or _is_number(training[name], most), f"{name} is out of range")
    require(training["date"] is None or _is_text(training["date"]), "date is no text")
    if certificate is not None:
        require(certificate.keys() == {*_CERTIFICATE, "method", "note"}, "certificate has unknown keys")
        for name, most in _CERTIFICATE.items():
            require(_is_number(certificate[name], most), f"{name} of the certificate is out of range")
        require(_is_text(certificate["method"]) and _is_text(certificate["note"]), "a text is missing")
    node = from_dict(document["map"])
    require(isinstance(node, maps.Groups) or node.scalar is (len(classes) == 2), "the map is of another kind")
    node.check(len(classes))
    return node


_KINDS_OF_MAPS: tuple[Any, ...] = (*maps.Node.__subclasses__(), maps.Groups)
_NODES = {kind.kind: kind for kind in _KINDS_OF_MAPS}
_PARTS = ("maps", "others")


def to_dict(node: maps.Node | maps.Groups) -> dict[str, Any]:
    """Return a node as a dict of numbers, strings and lists."""
    found: dict[str, Any] = {"kind": node.kind}
    for field in fields(node):  # type: ignore[arg-type]
        value = getattr(node, field.name)
        if field.name in _PARTS:
            value = [to_dict(part) for part in value]
        found[field.name] = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    return found


def from_dict(found: dict[str, Any]) -> maps.Node | maps.Groups:
    """Return the node of a dict, with any error if it is not one. Call ``check`` on the result."""
    cls = _NODES[found["kind"]]
    given: dict[str, Any] = {}
    for field in fields(cls):
        value = found[field.name]
        if field.name in _PARTS:
            value = tuple(from_dict(one) for one in value)
        elif field.type in ("Array", "float"):
            maps.require(_numeric(value, field.type == "Array"), f"{field.name} is not numeric")
            value = np.array(value, dtype=np.float64) if field.type == "Array" else float(value)
            maps.require(bool((np.abs(value) <= _LARGEST).all()), f"{field.name} is out of range")
        elif field.type == "bool":
            maps.require(type(value) is bool, f"{field.name} is neither true nor false")
        given[field.name] = value
    maps.require(len(found) == 1 + len(given), f"a map of kind {found['kind']} has unknown keys")
    return cls(**given)


def _numeric(value: Any, several: bool) -> bool:
    """Tell whether a value is a number, or with ``several`` a list of numbers or of such lists."""
    if isinstance(value, list):
        return several and all(_numeric(part, several) for part in value)
    return type(value) in (int, float)
