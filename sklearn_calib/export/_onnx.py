"""Maps as nodes of ONNX, by converters that are registered with skl2onnx."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partialmethod, reduce
from operator import add
from traceback import walk_tb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.frozen import FrozenEstimator

from sklearn_calib import _validation
from sklearn_calib import calibrators as known
from sklearn_calib._core import _maps as maps
from sklearn_calib._core._links import EPS
from sklearn_calib._typing import Array
from sklearn_calib.calibrators._base import BaseCalibrator, may_be_certain
from sklearn_calib.export._document import TOLERANCE, ExportedCalibrator, exported
from sklearn_calib.meta import CalibratedClassifier, CrossFitScorer
from sklearn_calib.meta._joint import MeanClassifier

_FAR_OUT = 1e9
_TOLERANCE = "tolerance"


class _Tensor:
    """A result of a node, with the arithmetic of arrays."""

    def __init__(self, ops: _Onnx, name: str) -> None:
        self.ops, self.name = ops, name

    def _joined(self, kind: str, other: Any) -> _Tensor:
        return self.ops.node(kind, self, other)

    __add__ = partialmethod(_joined, "Add")
    __sub__ = partialmethod(_joined, "Sub")
    __mul__ = partialmethod(_joined, "Mul")
    __truediv__ = partialmethod(_joined, "Div")

    def __rsub__(self, other: float) -> _Tensor:
        return self.ops.node("Sub", other, self)


class _Onnx:
    """The operations of maps as nodes in double precision; scalars have shape (n, 1), vectors (n, K)."""

    def __init__(self, scope: Any, container: Any, n_classes: int) -> None:
        self.scope, self.container, self.n_classes = scope, container, n_classes

    def node(self, kind: str, *inputs: Any, **attributes: Any) -> _Tensor:
        """Add a node; numbers and arrays among its inputs are constants."""
        names = [(one if isinstance(one, _Tensor) else self.constant(one)).name for one in inputs]
        found = self.scope.get_unique_variable_name(f"calib_{kind.lower()}")
        self.container.add_node(
            kind,
            names,
            [found],
            op_version=self.container.target_opset_any_domain(""),
            name=self.scope.get_unique_operator_name(f"calib_{kind}"),
            **attributes,
        )
        return _Tensor(self, found)

    def constant(self, values: Any) -> _Tensor:
        from onnx import TensorProto

        array = np.asarray(values)
        kind = {"i": TensorProto.INT64, "U": TensorProto.STRING, "O": TensorProto.STRING}.get(
            array.dtype.kind, TensorProto.DOUBLE
        )
        name = self.scope.get_unique_variable_name("calib_constant")
        flat = [text.encode() for text in array.ravel()] if kind == TensorProto.STRING else array.ravel()
        self.container.add_initializer(name, kind, list(array.shape), list(flat))
        return _Tensor(self, name)

    def let(self, x: _Tensor) -> _Tensor:
        return x

    exp, log = partialmethod(node, "Exp"), partialmethod(node, "Log")
    maximum = partialmethod(node, "Max")

    def clip(self, x: _Tensor, least: float, most: float) -> _Tensor:
        return self.node("Min", self.maximum(x, least), most)

    def inside(self, x: _Tensor) -> _Tensor:
        return self.clip(x, EPS, 1.0 - EPS)

    def expit(self, x: _Tensor) -> _Tensor:
        return self.node("Div", 1.0, self.exp(self.node("Neg", x)) + 1.0)

    def sigmoid(self, x: _Tensor) -> _Tensor:
        return self.inside(self.expit(x))

    def logit(self, x: _Tensor) -> _Tensor:
        x = self.inside(x)
        return self.log(x / (1.0 - x))

    def asinh(self, x: _Tensor) -> _Tensor:
        size = self.node("Abs", x)
        # the square of large numbers would overflow
        near = self.node("Min", size, _FAR_OUT)
        far = self.log(self.maximum(size, _FAR_OUT) * (1.0 / _FAR_OUT))
        return self.node("Sign", x) * (self.log(near + self.node("Sqrt", near * near + 1.0)) + far)

    def stack(self, parts: Sequence[_Tensor]) -> _Tensor:
        return self.node("Concat", *parts, axis=1)

    def column(self, x: _Tensor, k: int) -> _Tensor:
        return self.node("Gather", x, np.array([k]), axis=1)

    def sum(self, x: _Tensor) -> _Tensor:
        return self.node("ReduceSum", x, np.array([1]), keepdims=1)

    def product(self, matrix: Array, x: _Tensor) -> _Tensor:
        return self.node("MatMul", x, matrix.T)

    def log_softmax(self, x: _Tensor) -> _Tensor:
        return self.node("LogSoftmax", x, axis=1)

    def double(self, x: _Tensor) -> _Tensor:
        from onnx import TensorProto

        return self.node("Cast", x, to=TensorProto.DOUBLE)

    def if_positive(self, condition: _Tensor, then: _Tensor, other: Any) -> _Tensor:
        return self.node("Where", self.node("Greater", condition, 0.0), then, other)

    def piecewise(
        self, score: _Tensor, x: _Tensor, edges: Array, start: Array | None, value: Array, slope: Array | None
    ) -> _Tensor:
        # a binary search, with one step for each bit of the number of edges that are not above the score
        n_bits = int(edges.shape[0]).bit_length()
        padded = np.concatenate([edges, np.full(2**n_bits - 1 - edges.shape[0], np.inf)])
        part: Any = np.array([[0]])
        for bit in reversed(range(n_bits)):
            tried = self.node("Add", part, np.array([[2**bit]]))
            edge = self.node("Gather", padded, self.node("Sub", tried, np.array([[1]])))
            part = self.node("Where", self.node("Less", score, edge), part, tried)
        last = value.shape[0] - 1
        part = self.node("Min", part, np.array([[last]]))

        def of_part(table: Array) -> _Tensor:
            # has the shape of the scores even without edges
            return self.node("Gather", table, part) + score * 0.0

        if start is None or slope is None:
            return of_part(value)
        return of_part(value) + (x - of_part(start)) * of_part(slope)


def _proba(ops: _Onnx, found: ExportedCalibrator, scores: _Tensor, groups: _Tensor | None) -> _Tensor:
    """Return the probabilities of all classes; NaN where ``transform`` raises an error."""
    low, high = found._range
    n_classes = found.classes_.shape[0]
    edge = _validation.ROUNDING if found._kind == "probability" else 0.0
    known = ops.node(
        "And", ops.node("GreaterOrEqual", scores, low - edge), ops.node("LessOrEqual", scores, high + edge)
    )
    valid = ops.sum(ops.double(known)) - (0.5 if n_classes == 2 else n_classes - 0.5)
    scores = ops.clip(scores, low, high)
    if found._kind == "probability" and n_classes > 2:
        gap = ops.node("Abs", ops.sum(scores) - 1.0)
        valid = ops.node("Where", ops.node("LessOrEqual", gap, _validation.ROW_SUM_TOLERANCE), valid, -1.0)

    def mapped(node: maps.Node) -> Any:
        proba = node.evaluate(ops, scores)
        return proba if n_classes == 2 or found.document["certain"] else ops.inside(proba)

    node = found._node
    if isinstance(node, maps.Groups):
        proba = mapped(node.others[0])
        for label, one in zip(node.labels, node.maps, strict=True):
            key = np.array([[label]]) if isinstance(label, str) else np.array([[int(label)]])
            proba = ops.node("Where", ops.node("Equal", groups, key), mapped(one), proba)
    else:
        proba = mapped(node)
    if n_classes == 2:
        proba = ops.stack([1.0 - proba, proba])
    return ops.if_positive(valid, proba, float("nan"))


def _put(ops: _Onnx, operator: Any, proba: _Tensor, classes: NDArray[Any]) -> None:
    """Connect probabilities with the outputs of an operator: labels and probabilities."""
    from skl2onnx.common.data_types import guess_proto_type

    number = ops.node("ArgMax", proba, axis=1, keepdims=0)
    texts = classes.dtype.kind in "UO"
    labels = ops.node("Gather", classes.astype(str if texts else np.int64), number)
    _connect(ops, labels, operator.outputs[0])
    kind = guess_proto_type(operator.outputs[1].type)
    _connect(ops, ops.node("Cast", proba, to=kind), operator.outputs[1])


def _connect(ops: _Onnx, found: _Tensor, output: Any) -> None:
    ops.container.add_node(
        "Identity", [found.name], [output.full_name], name=ops.scope.get_unique_operator_name("calib_out")
    )


def _shapes(operator: Any) -> None:
    """Set the types of the outputs of a classifier."""
    from skl2onnx.common import data_types as types

    classes = np.asarray(operator.raw_operator.classes_)
    n = operator.inputs[0].get_first_dimension()
    texts = classes.dtype.kind in "UO"
    operator.outputs[0].type = (types.StringTensorType if texts else types.Int64TensorType)([n])
    operator.outputs[1].type = _floats(operator)([n, classes.shape[0]])


def _floats(operator: Any) -> Any:
    from skl2onnx.common import data_types as types

    double = isinstance(operator.inputs[0].type, types.DoubleTensorType)
    return types.DoubleTensorType if double else types.FloatTensorType


def _tolerance(container: Any, model: Any) -> float:
    return float(container.get_options(model, {_TOLERANCE: TOLERANCE}, fail=False)[_TOLERANCE])


def _convert_calibrator(scope: Any, operator: Any, container: Any) -> None:
    calibrator = operator.raw_operator
    found = exported(calibrator, _tolerance(container, calibrator))
    ops = _Onnx(scope, container, found.classes_.shape[0])
    scores = ops.double(_Tensor(ops, operator.inputs[0].full_name))
    groups = _Tensor(ops, operator.inputs[1].full_name) if len(operator.inputs) > 1 else None
    if found.classes_.shape[0] == 2 and operator.inputs[0].type.shape[-1] == 2:
        last = ops.column(scores, 1)
        scores = last - ops.column(scores, 0) if found._kind == "logit" else last
    _put(ops, operator, _proba(ops, found, scores, groups), found.classes_)


def _convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    model = operator.raw_operator
    tolerance, classes = _tolerance(container, model), model.classes_
    ops = _Onnx(scope, container, classes.shape[0])
    tables = []
    for pair in model.calibrated_classifiers_:
        scores = _scores(ops, operator, pair.estimator, pair.response_method, classes)
        if isinstance(pair.calibrator, str):
            tables.append(ops.stack([1.0 - scores, scores]) if classes.shape[0] == 2 else scores)
            continue
        if not isinstance(pair.calibrator, BaseCalibrator | ExportedCalibrator):
            raise TypeError(f"calibrator={pair.calibrator!r} cannot be converted to ONNX.")
        # log-odds of the parts of a geometric mean are approximated, relative to both probabilities
        found = exported(pair.calibrator, tolerance, relative=model.average == "log")
        tables.append(_proba(ops, found, scores, None))
    if len(tables) == 1:
        return _put(ops, operator, tables[0], classes)
    scale = "log" if model.average == "log" else "probability"
    weights = np.full(len(tables), 1.0 / len(tables))
    proba = maps.Average(scale, weights, ()).mean(ops, tables)
    certain = any(may_be_certain(pair.calibrator) for pair in model.calibrated_classifiers_)
    return _put(ops, operator, proba if certain and scale != "log" else ops.inside(proba), classes)


def _scores(ops: _Onnx, operator: Any, estimator: Any, method: str, classes: NDArray[Any]) -> _Tensor:
    """Return the scores of a classifier, converted by the converter of its class."""
    from skl2onnx import get_model_alias
    from skl2onnx.common import data_types as types

    while isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    if isinstance(estimator, MeanClassifier):
        members = estimator.estimators
        tables = [_scores(ops, operator, member, method, classes) for member in members]
        return reduce(add, tables) * (1.0 / len(members))
    if not np.array_equal(getattr(estimator, "classes_", classes), classes):
        raise ValueError(f"The classes of {type(estimator).__name__} are not sorted. Sort them.")
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    if method == "decision_function":
        ops.scope.add_options(id(last), {"raw_scores": True})
        ops.container.add_options(id(last), {"raw_scores": True})
    inner = ops.scope.declare_local_operator(get_model_alias(type(estimator)), estimator)
    inner.inputs = operator.inputs
    texts = classes.dtype.kind in "UO"
    label = types.StringTensorType() if texts else types.Int64TensorType()
    inner.outputs.append(ops.scope.declare_local_variable("calib_label", label))
    inner.outputs.append(ops.scope.declare_local_variable("calib_scores", _floats(operator)()))
    scores = ops.double(_Tensor(ops, inner.outputs[1].full_name))
    if classes.shape[0] > 2:
        return scores
    # for two classes some converters return two decision scores
    return ops.node("Gather", scores, np.array([-1]), axis=1)


def _scorer_shapes(operator: Any) -> None:
    scorer = operator.raw_operator
    n_classes = np.asarray(scorer.classes_).shape[0]
    n = operator.inputs[0].get_first_dimension()
    operator.outputs[0].type = _floats(operator)([n, 1 if n_classes == 2 else n_classes])


def _convert_scorer(scope: Any, operator: Any, container: Any) -> None:
    from skl2onnx.common.data_types import guess_proto_type

    scorer = operator.raw_operator
    ops = _Onnx(scope, container, np.asarray(scorer.classes_).shape[0])
    scores = _scores(ops, operator, scorer.estimator_, scorer.response_method_, np.asarray(scorer.classes_))
    kind = guess_proto_type(operator.outputs[0].type)
    _connect(ops, ops.node("Cast", scores, to=kind), operator.outputs[0])


def register_onnx_converters() -> None:
    """Register converters of all calibrators and meta-estimators with skl2onnx.

    :func:`to_onnx` calls it automatically. Call it before ``skl2onnx.convert_sklearn`` of a model that
    contains objects of sklearn_calib. The option ``tolerance`` of a calibrator is that of :func:`to_json`.

    Raises
    ------
    ImportError
        If skl2onnx is not installed.

    Examples
    --------
    >>> from sklearn_calib.export import register_onnx_converters
    >>> register_onnx_converters()  # doctest: +SKIP
    """
    try:
        from skl2onnx import update_registered_converter
    except ImportError:
        raise ImportError("ONNX needs skl2onnx: pip install 'sklearn-calib[onnx]'.") from None
    options = {"zipmap": [True, False, "columns"], "nocl": [True, False], _TOLERANCE: None}
    kinds = [getattr(known, name) for name in known.__all__ if name.endswith("Calibrator")]
    for cls in (*kinds, ExportedCalibrator):
        update_registered_converter(
            cls, f"SklearnCalib{cls.__name__}", _shapes, _convert_calibrator, options=options
        )
    update_registered_converter(
        CalibratedClassifier, "SklearnCalibClassifier", _shapes, _convert_classifier, options=options
    )
    update_registered_converter(CrossFitScorer, "SklearnCalibScorer", _scorer_shapes, _convert_scorer)


def to_onnx(
    estimator: Any, X: ArrayLike | None = None, *, dtype: str = "float32", tolerance: float = TOLERANCE
) -> Any:
    """Return a calibrator, a calibrated classifier or a pipeline that contains them as an ONNX model.

    The inputs are the scores of a calibrator (``scores``, shape (n, 1) for two classes, else (n, K), and
    ``groups`` of shape (n, 1) if it has groups), or the features of a classifier (``X``). The outputs are the
    most probable labels and the probabilities of all classes. Scores out of range give NaN.

    Parameters
    ----------
    estimator : calibrator, ExportedCalibrator, CalibratedClassifier or Pipeline
        A fitted estimator. skl2onnx must be able to convert the classifiers in it.
    X : array-like of shape (n_samples, n_features), default=None
        Samples that determine the number of columns. Only needed if the estimator has no ``n_features_in_``.
    dtype : {"float32", "float64"}, default="float32"
        Type of inputs and probabilities. The maps of calibrators are always evaluated in double precision.
    tolerance : float, default=1e-4
        As for :func:`to_json`.

    Returns
    -------
    onnx.ModelProto
        The model.

    Raises
    ------
    ImportError
        If skl2onnx is not installed.
    ValueError, TypeError
        If the number of columns is unknown, and as for :func:`to_json`.

    Examples
    --------
    >>> from sklearn_calib.calibrators import PlattCalibrator
    >>> from sklearn_calib.export import to_onnx
    >>> calibrator = PlattCalibrator().fit([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    >>> model = to_onnx(calibrator)  # doctest: +SKIP
    """
    _validation.check_option(dtype, "dtype", ("float32", "float64"))
    register_onnx_converters()
    from skl2onnx import convert_sklearn
    from skl2onnx.common import data_types as types

    floats = types.FloatTensorType if dtype == "float32" else types.DoubleTensorType
    given = types.StringTensorType, types.Int64TensorType
    options: dict[Any, Any] = {}
    columns: int | None
    if isinstance(estimator, BaseCalibrator | ExportedCalibrator):
        estimator = exported(estimator, tolerance)
        columns = 1 if len(estimator.classes_) == 2 else len(estimator.classes_)
        inputs = [("scores", floats([None, columns]))]
        if isinstance(estimator._node, maps.Groups):
            labels = estimator._node.labels
            texts = any(isinstance(label, str) for label in labels)
            if not texts and any(label != int(label) for label in labels):
                raise ValueError(f"The groups must be strings or integers in ONNX, got {labels[:5]}.")
            inputs.append(("groups", given[0 if texts else 1]([None, 1])))
    else:
        columns = getattr(estimator, "n_features_in_", None) if X is None else np.shape(X)[1]
        if columns is None:
            raise ValueError("X is missing: the estimator has no n_features_in_. Pass samples.")
        inputs = [("X", floats([None, columns]))]
    parts = [part for _, part in getattr(estimator, "steps", [("", estimator)])]
    for part in parts:
        if isinstance(part, BaseCalibrator | ExportedCalibrator | CalibratedClassifier):
            options[id(part)] = {_TOLERANCE: tolerance}
    options.setdefault(id(parts[-1]), {})["zipmap"] = False
    options[id(estimator)] = options[id(parts[-1])]
    # operators of linear models support only single precision
    black = {"LinearClassifier", "Normalizer"} if dtype == "float64" else None
    try:
        return convert_sklearn(estimator, initial_types=inputs, options=options, black_op=black)
    except Exception as error:
        raise _explained(error, parts) from None


def _explained(error: BaseException, parts: list[Any]) -> BaseException:
    """Return an error of this package as it is, and that of a converter of skl2onnx in a sentence."""
    from skl2onnx import __version__

    trace = list(walk_tb(error.__traceback__))
    if trace[-1][0].f_globals["__name__"].startswith("sklearn_calib"):
        return error
    while error.__cause__ is not None:
        error = error.__cause__
    inner = [getattr(part, "estimator", part) for part in parts]
    names = [
        type(part).__name__ for part in inner if not isinstance(part, BaseCalibrator | ExportedCalibrator)
    ]
    reason = str(error).strip().partition("\n")[0][:200].rstrip(".")
    return ValueError(
        f"skl2onnx {__version__} cannot convert {' or '.join(names)} ({type(error).__name__}: {reason}). Use "
        "another converter for the classifier and to_onnx(calibrator) for its calibrators, or a classifier "
        "that skl2onnx converts, such as GradientBoostingClassifier."
    )
