"""Maps as SQL: queries and expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partialmethod
from typing import Any

import numpy as np

from sklearn_calib import _validation
from sklearn_calib._core import _maps as maps
from sklearn_calib._core._links import EPS
from sklearn_calib._typing import Array
from sklearn_calib.export._document import TOLERANCE, exported

# Exponents beyond this one overflow.
_MOST = 700.0
_FAR_OUT = 1e9
# Expressions of more characters are not repeated in all pieces of a function.
_LONG = 200


def _number(value: float) -> str:
    text = repr(float(value))
    # without an exponent some databases use decimal arithmetic
    text = text if "e" in text else f"{text}e0"
    return f"({text})" if text.startswith("-") else text


def _case(condition: str, then: str, other: str) -> str:
    return f"CASE WHEN {condition} THEN {then} ELSE {other} END"


def _total(parts: list[str]) -> str:
    """Return a sum with balanced parentheses, which limits their depth."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return f"({_total(parts[:middle])} + {_total(parts[middle:])})"


class _Text:
    """Expressions, one for a scalar and K for a vector, with the arithmetic of arrays."""

    def __init__(self, parts: list[str]) -> None:
        self.parts = parts

    def _joined(self, form: str, other: Any) -> _Text:
        theirs = other.parts if isinstance(other, _Text) else [_number(other)]
        size = max(len(self.parts), len(theirs))
        pairs = zip(*(parts * (size // len(parts)) for parts in (self.parts, theirs)), strict=True)
        return _Text([f"({form.format(*pair)})" for pair in pairs])

    __add__ = partialmethod(_joined, "{} + {}")
    __sub__ = partialmethod(_joined, "{} - {}")
    __mul__ = partialmethod(_joined, "{} * {}")
    __truediv__ = partialmethod(_joined, "{} / {}")
    __rsub__ = partialmethod(_joined, "{1} - {0}")

    def each(self, form: Callable[[str], str]) -> _Text:
        texts = map(form, self.parts)
        return _Text([f"({text})" if text.startswith("CASE") else text for text in texts])


class _Sql:
    """The operations of maps as text; with a table ``let`` names expressions as columns of subqueries.

    The first subquery selects only columns that it names, so that no name can be one of the table.
    """

    def __init__(self, table: str | None = None) -> None:
        self.layers: list[str] = []
        self.table, self.n_names = table, 0
        self.layer_name = "calib_layer"
        while self.layer_name in str(table).lower():
            self.layer_name += "_"

    def let(self, x: _Text) -> _Text:
        if self.table is None:
            return x
        names = [f"calib_{self.n_names + k}" for k in range(len(x.parts))]
        self.n_names += len(names)
        columns = ", ".join(f"{part} AS {name}" for part, name in zip(x.parts, names, strict=True))
        former = "*, " if self.layers else ""
        self.layers.append(f"SELECT {former}{columns} FROM {self.source}")
        return _Text(names)

    @property
    def source(self) -> str:
        """Name of the last query, or of the table."""
        return f"{self.layer_name}_{len(self.layers) - 1}" if self.layers else str(self.table)

    def exp(self, x: _Text) -> _Text:
        return x.each("exp({})".format)

    def log(self, x: _Text) -> _Text:
        return x.each("ln({})".format)

    def maximum(self, x: _Text, least: float) -> _Text:
        limit = _number(least)
        return x.each(lambda part: _case(f"{part} > {limit}", part, limit))

    def clip(self, x: _Text, least: float, most: float) -> _Text:
        low, high = _number(least), _number(most)
        return x.each(lambda part: _case(f"{part} < {low}", low, _case(f"{part} > {high}", high, part)))

    def inside(self, x: _Text) -> _Text:
        return self.clip(x, EPS, 1.0 - EPS)

    def expit(self, x: _Text) -> _Text:
        return x.each("(1.0e0 / (1.0e0 + exp(-{})))".format)

    def sigmoid(self, x: _Text) -> _Text:
        far, low, high = map(_number, (maps.FAR, EPS, 1.0 - EPS))

        def form(part: str, value: str) -> str:
            return _case(f"{part} < -{far}", low, _case(f"{part} > {far}", high, value))

        return _Text([form(*pair) for pair in zip(x.parts, self.expit(x).parts, strict=True)])

    def logit(self, x: _Text) -> _Text:
        # only used between knots, which are inside (0, 1)
        return self.log(x / (1.0 - x))

    def asinh(self, x: _Text) -> _Text:
        u = self.let(x)
        sign = f"{u.parts[0]} < 0.0e0"
        a = self.let(u.each(lambda part: _case(sign, f"(-{part})", part)))
        near = self.log(a + a.each("sqrt({0} * {0} + 1.0e0)".format)).parts[0]
        far = self.log(a * 2.0).parts[0]
        size = self.let(_Text([_case(f"{a.parts[0]} < {_number(_FAR_OUT)}", near, far)]))
        return self.let(size.each(lambda part: _case(sign, f"(-{part})", part)))

    def constant(self, values: Array) -> _Text:
        return _Text([_number(value) for value in values.tolist()])

    def stack(self, parts: Sequence[_Text]) -> _Text:
        return _Text([part for one in parts for part in one.parts])

    def column(self, x: _Text, k: int) -> _Text:
        return _Text([x.parts[k]])

    def sum(self, x: _Text) -> _Text:
        return _Text([_total(x.parts)])

    def product(self, matrix: Array, x: _Text) -> _Text:
        return _Text([_total((x * self.constant(row)).parts) for row in matrix])

    def log_softmax(self, x: _Text) -> _Text:
        most = _number(_MOST)

        def form(k: int) -> str:
            gaps = [f"({part} - {x.parts[k]})" for j, part in enumerate(x.parts) if j != k]
            return _total(["1.0e0", *(f"exp({_case(f'{gap} > {most}', most, gap)})" for gap in gaps)])

        sums = _Text([form(k) for k in range(len(x.parts))])
        return self.log(sums).each("(-{})".format)

    def if_positive(self, condition: _Text, then: _Text, other: Any) -> _Text:
        test = f"{condition.parts[0]} > 0.0e0"
        others = other.parts if isinstance(other, _Text) else [_number(other)] * len(then.parts)
        return _Text([_case(test, *pair) for pair in zip(then.parts, others, strict=True)])

    def piecewise(
        self, score: _Text, x: _Text, edges: Array, start: Array | None, value: Array, slope: Array | None
    ) -> _Text:
        limits = [_number(edge) for edge in edges.tolist()]

        def tree(leaves: list[str], low: int = 0, high: int = len(limits)) -> str:
            if low == high:
                return leaves[low]
            middle = (low + high) // 2
            parts = tree(leaves, low, middle), tree(leaves, middle + 1, high)
            return _case(f"{score.parts[0]} < {limits[middle]}", *parts)

        values = [_number(one) for one in value.tolist()]
        if start is None or slope is None:
            return _Text([tree(values)])
        starts, slopes = ([_number(one) for one in part.tolist()] for part in (start, slope))
        if len(x.parts[0]) > _LONG:
            return _Text([f"({tree(values)} + ({x.parts[0]} - {tree(starts)}) * {tree(slopes)})"])
        lines = zip(values, starts, slopes, slope.tolist(), strict=True)
        leaves = [f"({v} + ({x.parts[0]} - {a}) * {b})" if rise else v for v, a, b, rise in lines]
        return _Text([tree(leaves)])


def to_sql(
    calibrator: Any,
    score: str | Sequence[str] = "p",
    *,
    table: str | None = None,
    keep: Sequence[str] = (),
    group: str | None = None,
    name: str = "calibrated",
    tolerance: float = TOLERANCE,
    quote: str = '"',
    materialized: bool = True,
) -> str:
    """Return SQL that maps scores to calibrated probabilities.

    It uses only comparisons, arithmetic, ``ln``, ``exp`` and, for scores that are not probabilities,
    ``sqrt``. NULL, NaN and scores out of range, for which the calibrator raises an error, give NULL.
    Probabilities that exceed 0 or 1 by rounding, at most 1e-6, are clipped, as in the calibrator.

    Parameters
    ----------
    calibrator : calibrator, CalibratedClassifier or ExportedCalibrator
        As for :func:`to_json`.
    score : str or list of str, default="p"
        Column of scores of ``classes_[1]``, or one column per class.
    table : str, default=None
        The table. None returns an expression instead of a query, for two classes only.
    keep : list of str, default=()
        Further columns of the table to include in the result of the query.
    group : str, default=None
        Column of the groups of a :class:`~sklearn_calib.calibrators.GroupCalibrator`, of the type of the
        groups in ``fit``. The database compares them: some ignore case and spaces at the end.
    name : str, default="calibrated"
        Column of the result; with three or more classes followed by ``_0``, ``_1``, and so on.
    tolerance : float, default=1e-4
        As for :func:`to_json`. The length of the SQL of a spline is proportional to 1 / sqrt(tolerance).
    quote : {'"', '`'}, default='"'
        Quotation mark of names; some databases use a backtick.
    materialized : bool, default=True
        Whether the subqueries for three or more classes have the hint ``AS MATERIALIZED``, which SQLite,
        DuckDB and PostgreSQL support. SQLite takes much longer without it; other databases may not accept it.

    Returns
    -------
    str
        The expression or query, without a semicolon.

    Raises
    ------
    ValueError, TypeError
        If the columns do not match the calibrator, if a name contains a backslash or the quotation mark, if a
        group contains a backslash or two quotation marks in a row, which databases read differently, and as
        for :func:`to_json`.

    Examples
    --------
    >>> from sklearn_calib.calibrators import HistogramBinningCalibrator
    >>> from sklearn_calib.export import to_sql
    >>> binning = HistogramBinningCalibrator(n_bins=2).fit([0.1, 0.3, 0.5, 0.9], [0, 0, 1, 1])
    >>> to_sql(binning, "score").split(" THEN ")[1]
    'CASE WHEN "score" < 0.4e0'
    """
    columns, kept = _names(score, "score"), _names(keep, "keep")
    for argument, value in (("table", table), ("group", group), ("name", name)):
        if not isinstance(value, str) and (value is not None or argument == "name"):
            raise TypeError(f"{argument} must be a string, got {value!r}.")
    _validation.check_option(quote, "quote", ('"', "`"))
    _validation.check_flag(materialized, "materialized")
    found = exported(calibrator, tolerance)
    node, n_classes = found._node, found.classes_.shape[0]
    wanted = 1 if n_classes == 2 else n_classes
    if len(columns) != wanted:
        raise ValueError(
            f"score names {len(columns)} columns, but the calibrator has {n_classes} classes. Name {wanted}: "
            f"{'that of classes_[1]' if wanted == 1 else 'one per class'}."
        )
    grouped = isinstance(node, maps.Groups)
    if grouped != (group is not None):
        advice = "Name the column of groups" if grouped else "Omit group"
        raise ValueError(
            f"group={group!r}, but the calibrator has {'' if grouped else 'no '}groups. {advice}."
        )
    if table is None and n_classes > 2:
        raise ValueError("table is missing, which a query of three or more classes needs. Name the table.")

    def named(text: str) -> str:
        if quote in text or "\\" in text:
            raise ValueError(
                f"The name {text!r} contains {quote} or a backslash. Rename the column or table."
            )
        return quote + text + quote

    ops = _Sql(None if table is None else ".".join(map(named, table.split("."))))
    low, high = found._range
    edge = _validation.ROUNDING if found._kind == "probability" else 0.0
    known = f"BETWEEN {_number(low - edge)} AND {_number(high + edge)}"

    def clipped(score: str, below: float, inside: str, above: float) -> str:
        """Return a CASE with values of their own for scores that exceed the range by rounding."""
        rest = _case(f"{score} > {_number(high)}", _number(above), inside)
        return _case(f"{score} < {_number(low)}", _number(below), rest) if edge else inside

    scores = _Text([named(column) for column in columns])
    label, kept = named(group or ""), [named(column) for column in kept]
    guard = f"{scores.parts[0]} {known}"
    if table is not None:
        # cast first, because arithmetic of decimal numbers differs
        given = [
            f"CASE WHEN {part} {known} THEN "
            f"{clipped(part, low, f'CAST({part} AS DOUBLE PRECISION)', high)} END"
            for part in scores.parts
        ]
        inner = ops.let(_Text([*given, *kept, label][: wanted + len(kept) + grouped])).parts
        scores, results, label = _Text(inner[:wanted]), inner[wanted : wanted + len(kept)], inner[-1]
        guard = f"{_total(scores.parts)} IS NOT NULL"
        if edge and n_classes > 2:
            sums = map(_number, (1.0 - _validation.ROW_SUM_TOLERANCE, 1.0 + _validation.ROW_SUM_TOLERANCE))
            guard = f"{_total(scores.parts)} BETWEEN {' AND '.join(sums)}"

    def outputs(one: maps.Node) -> list[str]:
        proba = one.evaluate(ops, scores)
        if n_classes > 2 and not found.document["certain"]:
            proba = ops.inside(ops.let(proba))
        if table is not None:
            return list(proba.parts)
        ends = found._evaluate(one, np.array([low, high])).tolist()
        return [clipped(scores.parts[0], ends[0], proba.parts[0], ends[1])]

    if not isinstance(node, maps.Groups):
        parts = outputs(node)
    else:
        guard = f"{guard} AND {label} IS NOT NULL"
        parts = outputs(node.others[0])
        for key, one in zip(node.labels, node.maps, strict=True):
            test = f"{label} = {_literal(key)}"
            parts = [_case(test, *pair) for pair in zip(outputs(one), parts, strict=True)]
    guarded = [f"CASE WHEN {guard} THEN {part} END" for part in parts]
    if table is None:
        return guarded[0]
    names = [name] if n_classes == 2 else [f"{name}_{k}" for k in range(n_classes)]
    results += guarded
    columns = [*kept, *map(named, names)]
    selected = ", ".join(f"{part} AS {column}" for part, column in zip(results, columns, strict=True))
    hint = "MATERIALIZED " if materialized and n_classes > 2 else ""
    layers = ",\n".join(f"{ops.layer_name}_{k} AS {hint}({layer})" for k, layer in enumerate(ops.layers))
    return f"WITH {layers}\nSELECT {selected} FROM {ops.source}"


def _literal(label: Any) -> str:
    """Return a group as SQL."""
    if not isinstance(label, str):
        return repr(label).upper()
    # some databases read a backslash as an escape, and three quotation marks as the start of a long text
    if "\\" in label or "''" in f"'{label}":
        raise ValueError(
            f"The group {label!r} contains a backslash, or quotation marks at its start or in a row, which "
            "databases read differently. Rename the group."
        )
    return "'" + label.replace("'", "''") + "'"


def _names(value: Any, argument: str) -> list[str]:
    """Return names of columns."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(one, str) for one in names):
        raise TypeError(f"{argument} must be a column name or a list of them, got {value!r}.")
    return list(names)
