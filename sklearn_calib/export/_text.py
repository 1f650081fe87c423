"""Maps as text: SQL queries and expressions, and Python source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from sklearn_calib._core._links import EPS
from sklearn_calib._typing import Array
from sklearn_calib._validation import check_flag
from sklearn_calib.export import _maps as maps
from sklearn_calib.export._document import ExportedCalibrator, exported

# Exponents beyond this one overflow.
_MOST = 700.0
_FAR_OUT = 1e9


class _Text:
    """Expressions, one for a scalar and K for a vector, with the arithmetic of arrays."""

    def __init__(self, printer: _Printer, parts: list[str]) -> None:
        self.printer, self.parts = printer, parts

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
        theirs = other.parts if isinstance(other, _Text) else [self.printer.number(other)]
        size = max(len(self.parts), len(theirs))
        pairs = zip(*(parts * (size // len(parts)) for parts in (self.parts, theirs)), strict=True)
        return _Text(self.printer, [f"({form.format(*pair)})" for pair in pairs])


class _Printer(ABC):
    """The operations of maps as text; ``let`` names expressions that are used several times."""

    @abstractmethod
    def number(self, value: float) -> str:
        """Return a number as text."""

    @abstractmethod
    def if_else(self, condition: str, then: str, other: str) -> str:
        """Return a condition as text."""

    @abstractmethod
    def log(self, x: _Text) -> _Text:
        """Return the natural logarithm."""

    def let(self, x: _Text) -> _Text:
        return x

    def each(self, x: _Text, form: Callable[[str], str]) -> _Text:
        return _Text(self, [form(part) for part in x.parts])

    def exp(self, x: _Text) -> _Text:
        return self.each(x, "exp({})".format)

    def maximum(self, x: _Text, least: float) -> _Text:
        limit = self.number(least)
        return self.each(x, lambda part: self.if_else(f"{part} > {limit}", part, limit))

    def clip(self, x: _Text, least: float, most: float) -> _Text:
        low, high = self.number(least), self.number(most)
        return self.each(
            x,
            lambda part: self.if_else(f"{part} < {low}", low, self.if_else(f"{part} > {high}", high, part)),
        )

    def inside(self, x: _Text) -> _Text:
        return self.clip(x, EPS, 1.0 - EPS)

    def expit(self, x: _Text) -> _Text:
        one = self.number(1.0)
        return self.each(x, lambda part: f"({one} / ({one} + exp(-{part})))")

    def sigmoid(self, x: _Text) -> _Text:
        far, low, high = map(self.number, (maps.FAR, EPS, 1.0 - EPS))

        def form(part: str, value: str) -> str:
            return self.if_else(f"{part} < -{far}", low, self.if_else(f"{part} > {far}", high, value))

        return _Text(self, [form(*pair) for pair in zip(x.parts, self.expit(x).parts, strict=True)])

    def logit(self, x: _Text) -> _Text:
        # only used between knots, which are inside (0, 1)
        return self.log(x / (1.0 - x))

    def asinh(self, x: _Text) -> _Text:
        zero, far, one = map(self.number, (0.0, _FAR_OUT, 1.0))
        u = self.let(x)
        a = self.let(self.each(u, lambda part: self.if_else(f"{part} < {zero}", f"(-{part})", part)))
        near = self.log(a + self.each(a, lambda part: f"sqrt({part} * {part} + {one})"))
        sizes = self.let(
            _Text(self, [self.if_else(f"{a.parts[0]} < {far}", near.parts[0], self.log(a * 2.0).parts[0])])
        )
        sign = f"{u.parts[0]} < {zero}"
        return self.let(self.each(sizes, lambda part: self.if_else(sign, f"(-{part})", part)))

    def constant(self, values: Array) -> _Text:
        return _Text(self, [self.number(value) for value in values.tolist()])

    def stack(self, parts: Sequence[_Text]) -> _Text:
        return _Text(self, [part for one in parts for part in one.parts])

    def column(self, x: _Text, k: int) -> _Text:
        return _Text(self, [x.parts[k]])

    def sum(self, x: _Text) -> _Text:
        return _Text(self, [_total(x.parts)])

    def product(self, matrix: Array, x: _Text) -> _Text:
        return _Text(self, [_total((x * self.constant(row)).parts) for row in matrix])

    def log_softmax(self, x: _Text) -> _Text:
        most, one = self.number(_MOST), self.number(1.0)

        def form(k: int) -> str:
            gaps = [f"({part} - {x.parts[k]})" for j, part in enumerate(x.parts) if j != k]
            return _total([one, *(f"exp({self.if_else(f'{gap} > {most}', most, gap)})" for gap in gaps)])

        sums = _Text(self, [form(k) for k in range(len(x.parts))])
        return self.each(self.log(sums), lambda part: f"(-{part})")

    def largest(self, x: _Text) -> _Text:
        one, zero = self.number(1.0), self.number(0.0)

        def form(k: int) -> str:
            own = x.parts[k]
            beaten = [f"{own} {'>' if j < k else '>='} {x.parts[j]}" for j in range(len(x.parts)) if j != k]
            return self.if_else(" AND ".join(beaten) if self.upper else " and ".join(beaten), one, zero)

        return _Text(self, [form(k) for k in range(len(x.parts))])

    upper = True

    def if_positive(self, condition: _Text, then: _Text, other: Any) -> _Text:
        test = f"{condition.parts[0]} > {self.number(0.0)}"
        others = other.parts if isinstance(other, _Text) else [self.number(other)] * len(then.parts)
        return _Text(self, [self.if_else(test, *pair) for pair in zip(then.parts, others, strict=True)])

    def piecewise(
        self, score: _Text, x: _Text, edges: Array, start: Array | None, value: Array, slope: Array | None
    ) -> _Text:
        limits = [self.number(edge) for edge in edges.tolist()]

        def leaf(k: int) -> str:
            number = self.number(value[k])
            if start is None or slope is None or slope[k] == 0.0:
                return number
            return f"({number} + ({x.parts[0]} - {self.number(start[k])}) * {self.number(slope[k])})"

        def tree(low: int, high: int) -> str:
            if low == high:
                return leaf(low)
            middle = (low + high) // 2
            below, above = tree(low, middle), tree(middle + 1, high)
            return self.if_else(f"{score.parts[0]} < {limits[middle]}", below, above)

        return _Text(self, [tree(0, len(limits))])


def _total(parts: list[str]) -> str:
    """Return a sum with balanced parentheses, which limits their depth."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return f"({_total(parts[:middle])} + {_total(parts[middle:])})"


class _Sql(_Printer):
    """Named expressions are columns of subqueries; without a table there are none."""

    def __init__(self, table: str | None = None) -> None:
        self.layers: list[str] = []
        self.table, self.n_names = table, 0

    def number(self, value: float) -> str:
        text = repr(float(value))
        # without an exponent some databases use decimal arithmetic
        text = text if "e" in text else f"{text}e0"
        return f"({text})" if text.startswith("-") else text

    def if_else(self, condition: str, then: str, other: str) -> str:
        return f"CASE WHEN {condition} THEN {then} ELSE {other} END"

    def log(self, x: _Text) -> _Text:
        return self.each(x, "ln({})".format)

    def each(self, x: _Text, form: Callable[[str], str]) -> _Text:
        return _Text(self, [f"({text})" if text.startswith("CASE") else text for text in map(form, x.parts)])

    def let(self, x: _Text) -> _Text:
        if self.table is None:
            return x
        names = [f"calib_{self.n_names + k}" for k in range(len(x.parts))]
        self.n_names += len(names)
        columns = ", ".join(f"{part} AS {name}" for part, name in zip(x.parts, names, strict=True))
        self.layers.append(f"SELECT *, {columns} FROM {self.source}")
        return _Text(self, names)

    @property
    def source(self) -> str:
        """Name of the last query, or of the table."""
        return f"calib_layer_{len(self.layers) - 1}" if self.layers else str(self.table)


class _Python(_Printer):
    """Named expressions are variables of a function."""

    upper = False

    def __init__(self) -> None:
        self.lines: list[str] = []

    def number(self, value: float) -> str:
        text = repr(float(value))
        return f"({text})" if text.startswith("-") else text

    def if_else(self, condition: str, then: str, other: str) -> str:
        return f"({then} if {condition} else {other})"

    def log(self, x: _Text) -> _Text:
        return self.each(x, "log({})".format)

    def let(self, x: _Text) -> _Text:
        names = [f"v{len(self.lines) + k}" for k in range(len(x.parts))]
        self.lines += [f"{name} = {part}" for name, part in zip(names, x.parts, strict=True)]
        return _Text(self, names)


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
    ValueError
        If the columns do not match the calibrator, and as for :func:`to_json`.
    TypeError
        As for :func:`to_json`.

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

    printer = _Sql(None if table is None else ".".join(map(named, table.split("."))))
    low, high = map(printer.number, found._range)
    scores = _Text(printer, [named(column) for column in columns])
    guard = f"{scores.parts[0]} BETWEEN {low} AND {high}"
    if table is not None:
        # cast first, because arithmetic of decimal numbers differs
        scores = printer.let(
            printer.each(
                scores,
                lambda part: (
                    f"CASE WHEN {part} BETWEEN {low} AND {high} THEN CAST({part} AS DOUBLE PRECISION) END"
                ),
            )
        )
        guard = f"{_total(scores.parts)} IS NOT NULL"
        if found._kind == "probability" and n_classes > 2:
            guard = f"{_total(scores.parts)} BETWEEN {printer.number(0.999)} AND {printer.number(1.001)}"
    if not isinstance(node, maps.Groups):
        parts = _outputs(printer, found, node, scores)
    else:
        label = named(str(group))
        guard = f"{guard} AND {label} IS NOT NULL"
        parts = _outputs(printer, found, node.others[0], scores)
        for key, one in zip(node.labels, node.maps, strict=True):
            own = _outputs(printer, found, one, scores)
            test = f"{label} = {_literal(key)}"
            parts = [printer.if_else(test, *pair) for pair in zip(own, parts, strict=True)]
    guarded = [f"CASE WHEN {guard} THEN {part} END" for part in parts]
    if table is None:
        return guarded[0]
    names = [name] if n_classes == 2 else [f"{name}_{k}" for k in range(n_classes)]
    result = [named(column) for column in kept]
    result += [f"{part} AS {named(column)}" for part, column in zip(guarded, names, strict=True)]
    hint = "MATERIALIZED " if materialized and n_classes > 2 else ""
    layers = ",\n".join(f"calib_layer_{k} AS {hint}({layer})" for k, layer in enumerate(printer.layers))
    return f"WITH {layers}\nSELECT {', '.join(result)} FROM {printer.source}"


def _names(value: Any, argument: str) -> list[str]:
    """Return names of columns."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(one, str) for one in names):
        raise TypeError(f"{argument} must be a column name or a list of them, got {value!r}.")
    return list(names)


def _outputs(printer: _Printer, found: ExportedCalibrator, node: maps.Node, scores: _Text) -> list[str]:
    """Return the expressions of the probabilities of a map."""
    proba = node.evaluate(printer, scores)
    if found.classes_.shape[0] > 2 and not found.document["certain"]:
        proba = printer.inside(printer.let(proba))
    parts: list[str] = proba.parts
    return parts


def _literal(label: Any) -> str:
    if isinstance(label, str):
        return "'" + label.replace("'", "''") + "'"
    return str(label).upper() if isinstance(label, bool) else repr(label)


def to_python(calibrator: Any, *, name: str = "calibrate", tolerance: float = 1e-6) -> str:
    """Return Python source of a function that maps scores to calibrated probabilities.

    The function depends only on :mod:`math`. It maps the score of ``classes_[1]`` to its probability, or a
    list with one score per class to a list of probabilities; with groups, the second argument is the group.
    Scores out of range raise a ValueError.

    Parameters
    ----------
    calibrator : calibrator, CalibratedClassifier or ExportedCalibrator
        As for :func:`to_json`.
    name : str, default="calibrate"
        Name of the function.
    tolerance : float, default=1e-6
        As for :func:`to_json`.

    Returns
    -------
    str
        The source.

    Raises
    ------
    ValueError
        If ``name`` is not a valid name, and as for :func:`to_json`.

    TypeError
        As for :func:`to_json`.

    Examples
    --------
    >>> from sklearn_calib.calibrators import TemperatureCalibrator
    >>> from sklearn_calib.export import to_python
    >>> calibrator = TemperatureCalibrator().fit([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    >>> namespace = {}
    >>> exec(to_python(calibrator), namespace)
    >>> round(namespace["calibrate"](0.5), 6)
    0.5
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"name must be the name of a function, got {name!r}.")
    found = exported(calibrator, tolerance)
    node, n_classes = found._node, found.classes_.shape[0]
    grouped = isinstance(node, maps.Groups)
    parts = [node] if not isinstance(node, maps.Groups) else [*node.others, *node.maps]
    functions = [_function(f"_map_{k}", found, part) for k, part in enumerate(parts)]
    low, high = found._range
    lines = [
        f'"""Calibrated probabilities; exported by sklearn_calib, fingerprint {found.fingerprint_}."""',
        "",
        "from math import exp, log, sqrt",
        "",
        f"CLASSES = {found.classes_.tolist()!r}",
        "",
        *functions,
    ]
    call = "_map_0"
    if isinstance(node, maps.Groups):
        entries = ", ".join(f"{label!r}: _map_{k + 1}" for k, label in enumerate(node.labels))
        lines += ["", f"_MAPS = {{{entries}}}", ""]
        call = "_MAPS.get(group, _map_0)"
    values = "[score]" if n_classes == 2 else "scores"
    given = values.strip("[]")
    lines += [
        "",
        f"def {name}({given}{', group' if grouped else ''}):",
        "    score = float(score)" if n_classes == 2 else "    scores = [float(one) for one in scores]",
    ]
    if n_classes > 2:
        lines += [f"    if len(scores) != {n_classes}:"]
        lines += [f"        raise ValueError(f'scores must have length {n_classes}, got {{len(scores)}}')"]
    lines += [
        f"    for one in {values}:",
        f"        if not {low!r} <= one <= {high!r}:",
        f"            raise ValueError(f'a score must lie in [{low:g}, {high:g}], got {{one!r}}')",
    ]
    if n_classes > 2 and found._kind == "probability":
        lines += ["    if abs(sum(scores) - 1.0) > 0.001:"]
        lines += ["        raise ValueError(f'scores sum to {sum(scores)!r}, not 1')"]
    return "\n".join([*lines, f"    return {call}({'score' if n_classes == 2 else '*scores'})", ""])


def _function(name: str, found: ExportedCalibrator, node: maps.Node) -> str:
    """Return the source of a function of checked scores."""
    printer = _Python()
    names = [f"s{k}" for k in range(1 if node.scalar else found.classes_.shape[0])]
    parts = _outputs(printer, found, node, _Text(printer, names))
    result = parts[0] if node.scalar else f"[{', '.join(parts)}]"
    body = "".join(f"    {line}\n" for line in [*printer.lines, f"return {result}"])
    return f"\ndef {name}({', '.join(names)}):\n{body}"
