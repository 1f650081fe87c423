"""Maps as SQL: queries and expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sklearn_calib._core import _maps as maps
from sklearn_calib._core._links import EPS
from sklearn_calib._typing import Array
from sklearn_calib._validation import check_flag
from sklearn_calib.export._document import ExportedCalibrator, exported

# Exponents beyond this one overflow.
_MOST = 700.0
_FAR_OUT = 1e9


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

    def __add__(self, other: Any) -> _Text:
        return self._joined(other, "{} + {}")

    def __sub__(self, other: Any) -> _Text:
        return self._joined(other, "{} - {}")

    def __mul__(self, other: Any) -> _Text:
        return self._joined(other, "{} * {}")

    def __truediv__(self, other: Any) -> _Text:
        return self._joined(other, "{} / {}")

    def __rsub__(self, other: float) -> _Text:
        return self._joined(other, "{1} - {0}")

    def _joined(self, other: Any, form: str) -> _Text:
        theirs = other.parts if isinstance(other, _Text) else [_number(other)]
        size = max(len(self.parts), len(theirs))
        pairs = zip(*(parts * (size // len(parts)) for parts in (self.parts, theirs)), strict=True)
        return _Text([f"({form.format(*pair)})" for pair in pairs])

    def each(self, form: Callable[[str], str]) -> _Text:
        texts = map(form, self.parts)
        return _Text([f"({text})" if text.startswith("CASE") else text for text in texts])


class _Sql:
    """The operations of maps as text; with a table ``let`` names expressions as columns of subqueries."""

    def __init__(self, table: str | None = None) -> None:
        self.layers: list[str] = []
        self.table, self.n_names = table, 0

    def let(self, x: _Text) -> _Text:
        if self.table is None:
            return x
        names = [f"calib_{self.n_names + k}" for k in range(len(x.parts))]
        self.n_names += len(names)
        columns = ", ".join(f"{part} AS {name}" for part, name in zip(x.parts, names, strict=True))
        self.layers.append(f"SELECT *, {columns} FROM {self.source}")
        return _Text(names)

    @property
    def source(self) -> str:
        """Name of the last query, or of the table."""
        return f"calib_layer_{len(self.layers) - 1}" if self.layers else str(self.table)

    def exp(self, x: _Text) -> _Text:
        return x.each("exp({})".format)

    def log(self, x: _Text) -> _Text:
        return x.each("ln({})".format)

    def maximum(self, x: _Text, least: float) -> _Text:
        limit = _number(least)
        return x.each(lambda part: _case(f"{part} > {limit}", part, limit))

    def clip(self, x: _Text, least: float, most: float) -> _Text:
        low, high = _number(least), _number(most)
        return x.each(
            lambda part: _case(f"{part} < {low}", low, _case(f"{part} > {high}", high, part)),
        )

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

        def leaf(k: int) -> str:
            number = _number(value[k])
            if start is None or slope is None or slope[k] == 0.0:
                return number
            return f"({number} + ({x.parts[0]} - {_number(start[k])}) * {_number(slope[k])})"

        def tree(low: int, high: int) -> str:
            if low == high:
                return leaf(low)
            middle = (low + high) // 2
            return _case(f"{score.parts[0]} < {limits[middle]}", tree(low, middle), tree(middle + 1, high))

        return _Text([tree(0, len(limits))])


def to_sql(
    calibrator: Any,
    score: str | Sequence[str] = "p",
    *,
    table: str | None = None,
    keep: Sequence[str] = (),
    group: str | None = None,
    name: str = "calibrated",
    tolerance: float = 1e-6,
    quote: str = '"',
    materialized: bool = True,
) -> str:
    """Return SQL that maps scores to calibrated probabilities.

    It uses only comparisons, arithmetic, ``ln``, ``exp`` and, for scores that are not probabilities,
    ``sqrt``. NULL, NaN and scores out of range, for which the calibrator raises an error, give NULL.

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
        Column of the groups of a :class:`~sklearn_calib.calibrators.GroupCalibrator`.
    name : str, default="calibrated"
        Column of the result; with three or more classes followed by ``_0``, ``_1``, and so on.
    tolerance : float, default=1e-6
        As for :func:`to_json`.
    quote : str, default='"'
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
        If the columns do not match the calibrator, and as for :func:`to_json`.

    Examples
    --------
    >>> from sklearn_calib.calibrators import HistogramBinningCalibrator
    >>> from sklearn_calib.export import to_sql
    >>> binning = HistogramBinningCalibrator(n_bins=2).fit([0.1, 0.3, 0.5, 0.9], [0, 0, 1, 1])
    >>> to_sql(binning, "score").split("THEN ")[1]
    'CASE WHEN "score" < 0.4e0 '
    """
    columns, kept = _names(score, "score"), _names(keep, "keep")
    for argument, value in (("table", table), ("group", group), ("name", name), ("quote", quote)):
        if not isinstance(value, str) and (value is not None or argument in ("name", "quote")):
            raise TypeError(f"{argument} must be a string, got {value!r}.")
    check_flag(materialized, "materialized")
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
        return quote + text.replace(quote, 2 * quote) + quote

    ops = _Sql(None if table is None else ".".join(map(named, table.split("."))))
    low, high = map(_number, found._range)
    scores = _Text([named(column) for column in columns])
    guard = f"{scores.parts[0]} BETWEEN {low} AND {high}"
    if table is not None:
        # cast first, because arithmetic of decimal numbers differs
        form = f"CASE WHEN {{0}} BETWEEN {low} AND {high} THEN CAST({{0}} AS DOUBLE PRECISION) END"
        scores = ops.let(scores.each(form.format))
        guard = f"{_total(scores.parts)} IS NOT NULL"
        if found._kind == "probability" and n_classes > 2:
            guard = f"{_total(scores.parts)} BETWEEN {_number(0.999)} AND {_number(1.001)}"
    if not isinstance(node, maps.Groups):
        parts = _outputs(ops, found, node, scores)
    else:
        label = named(str(group))
        guard = f"{guard} AND {label} IS NOT NULL"
        parts = _outputs(ops, found, node.others[0], scores)
        for key, one in zip(node.labels, node.maps, strict=True):
            text = key.replace("'", "''") if isinstance(key, str) else ""
            literal = f"'{text}'" if isinstance(key, str) else repr(key).upper()
            own = _outputs(ops, found, one, scores)
            parts = [_case(f"{label} = {literal}", *pair) for pair in zip(own, parts, strict=True)]
    guarded = [f"CASE WHEN {guard} THEN {part} END" for part in parts]
    if table is None:
        return guarded[0]
    names = [name] if n_classes == 2 else [f"{name}_{k}" for k in range(n_classes)]
    result = [named(column) for column in kept]
    result += [f"{part} AS {named(column)}" for part, column in zip(guarded, names, strict=True)]
    hint = "MATERIALIZED " if materialized and n_classes > 2 else ""
    layers = ",\n".join(f"calib_layer_{k} AS {hint}({layer})" for k, layer in enumerate(ops.layers))
    return f"WITH {layers}\nSELECT {', '.join(result)} FROM {ops.source}"


def _names(value: Any, argument: str) -> list[str]:
    """Return names of columns."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(one, str) for one in names):
        raise TypeError(f"{argument} must be a column name or a list of them, got {value!r}.")
    return list(names)


def _outputs(ops: _Sql, found: ExportedCalibrator, node: maps.Node, scores: _Text) -> list[str]:
    """Return the expressions of the probabilities of a map."""
    proba = node.evaluate(ops, scores)
    if found.classes_.shape[0] > 2 and not found.document["certain"]:
        proba = ops.inside(ops.let(proba))
    parts: list[str] = proba.parts
    return parts
