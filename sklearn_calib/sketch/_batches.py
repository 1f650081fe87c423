"""Sketches of batches: of an iterable, and of files."""

from collections.abc import Iterable, Sequence
from typing import Any

from sklearn_calib._docs import shared_docs
from sklearn_calib.sketch._files import Columns, FilePath, table_files
from sklearn_calib.sketch._sketch import CalibrationSketch


@shared_docs
def sketch_batches(
    batches: Iterable[Any], *, pos_label: Any = None, precision: int = 17
) -> CalibrationSketch:
    """Return the sketch of an iterable of batches, with one batch in memory at a time.

    Parameters
    ----------
    batches : iterable
        Tuples ``(y_true, y_proba)`` or ``(y_true, y_proba, sample_weight)`` as in
        :meth:`CalibrationSketch.update`, or sketches. A batch may be empty, or contain only one label.
    %(sketched)s

    Returns
    -------
    CalibrationSketch
        The sketch of all samples; an empty one if there are none.

    Raises
    ------
    ValueError
        If a batch is malformed; the message says which, counted from 0.
    TypeError
        If ``batches`` is not iterable, or a batch is neither a tuple nor a sketch.

    See Also
    --------
    sketch_file : The sketch of files.
    sketch_dask : The sketch of distributed data.

    Notes
    -----
    Time is proportional to the samples; memory is that of a sketch and of a batch. For a progress bar pass
    ``tqdm(batches)``. Of Arrow record batches pass columns: ``((b["died"], b["risk"]) for b in batches)``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_calib.sketch import sketch_batches
    >>> def scored():
    ...     rng = np.random.default_rng(0)
    ...     for _ in range(10):
    ...         p = rng.uniform(size=1000)
    ...         yield rng.uniform(size=1000) < p**2, p
    >>> sketch = sketch_batches(scored())
    >>> sketch.n_samples
    10000
    >>> print(f"observed {sketch.event_rate:.2f}, expected {sketch.mean_prediction:.2f}")
    observed 0.34, expected 0.50
    """
    if not isinstance(batches, Iterable):
        raise TypeError(f"batches must be an iterable of batches, got {type(batches).__name__}.")
    sketch = CalibrationSketch(precision=precision, pos_label=pos_label)
    for number, batch in enumerate(batches):
        add_batch(sketch, batch, f"batch {number}")
    return sketch


def add_batch(sketch: CalibrationSketch, batch: Any, where: str) -> None:
    """Add a batch, or another sketch, to a sketch; errors name it."""
    alike = isinstance(batch, CalibrationSketch)
    if not alike and not isinstance(batch, tuple | list):
        raise TypeError(
            f"{where} is a {type(batch).__name__}. Pass tuples (y_true, y_proba) or (y_true, y_proba, "
            "sample_weight), or sketches."
        )
    if not alike and len(batch) not in (2, 3):
        raise ValueError(
            f"{where} has {len(batch)} elements. Pass (y_true, y_proba) or (y_true, y_proba, sample_weight)."
        )
    try:
        if alike:
            sketch.merge(batch)
        else:
            sketch.update(batch[0], batch[1], sample_weight=batch[2] if len(batch) == 3 else None)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


@shared_docs
def sketch_file(
    path: FilePath | Sequence[FilePath],
    *,
    y: str,
    p: str,
    sample_weight: str | None = None,
    pos_label: Any = None,
    precision: int = 17,
) -> CalibrationSketch:
    """Return the sketch of the predictions in files of any size, read in batches of rows.

    Parameters
    ----------
    path : str, Path or sequence of these
        CSV files (also gzipped) with a line of column names, Parquet files (``.parquet``, ``.pq``) and
        Feather files (``.feather``, ``.arrow``); or folders of these, at any depth.
    y : str
        Column of outcomes: booleans, numbers or texts, with two labels.
    p : str
        Column of the predicted probability of the positive class.
    sample_weight : str, default=None
        Column of non-negative weights.
    pos_label : label, default=None
        The positive class, as a label or as it is written. By default 1 for labels in {0, 1} or {-1, 1}, the
        greater of two other integers; required for text labels.
    precision : int, default=17
        Precision of the sketch.

    Returns
    -------
    CalibrationSketch
        The sketch of all samples.

    Raises
    ------
    ValueError
        If a file is malformed; the message names the file, the column and the row.
    OSError
        If a file cannot be read.
    ImportError
        If pyarrow is not installed.

    See Also
    --------
    sketch_batches : The sketch of an iterable of batches.
    sketch_dask : The sketch of distributed data.

    Notes
    -----
    Time is proportional to the rows; memory is that of a sketch and of a batch of rows. A CSV is in UTF-8, or
    in UTF-16 with a byte order mark, and its delimiter is a comma, semicolon, tab or bar. In messages the
    line of column names of a CSV is row 1, as in a spreadsheet, and the first row of other files is row 1.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn_calib.sketch import sketch_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part, row in enumerate(["yes,0.75", "no,0.25", "no,0.5"]):
    ...         with Path(folder, f"part-{part}.csv").open("w") as file:
    ...             print("died,risk", row, sep=chr(10), file=file)
    ...     sketch = sketch_file(folder, y="died", p="risk", pos_label="yes")
    >>> print(sketch)
    sketch of 3 samples
      total weight     3
      event rate       0.333333
      mean prediction  0.5
      bins             3 of precision 17
    """
    weights = [] if sample_weight is None else [sample_weight]
    for name, value in (("y", y), ("p", p), *(("sample_weight", weight) for weight in weights)):
        if not isinstance(value, str):
            raise TypeError(f"{name} must be the name of a column, got {value!r}.")
    columns, files = Columns([y], [p], weights), table_files(path)
    where = str(files[0]) + (f" and {len(files) - 1} more" if len(files) > 1 else "") + f": column {y!r}"
    given = (y, p, sample_weight), pos_label, where, precision
    return sketch_columns(columns, columns.batches(files), *given)


def sketch_columns(
    columns: Columns, batches: Iterable[Any], names: Any, pos_label: Any, where: str, precision: int = 17
) -> CalibrationSketch:
    """Return the sketch of batches that were read; ``where`` is the column of outcomes in messages."""
    y, p, sample_weight = names
    # a later batch decides which of two labels is positive: until then it is the one that was read last
    sketch = CalibrationSketch(precision=precision)
    for batch in batches:
        known = columns.labels(y).tolist()
        if len(known) > 2:
            raise ValueError(
                f"{where} has {len(known)} or more distinct outcomes ({str(known[:5])[1:-1]}), but a sketch "
                "is for a binary target. Name the column of outcomes, or reduce the problem to one class "
                "against the rest."
            )
        w = None if sample_weight is None else batch[sample_weight]
        sketch.update(batch[y], batch[p], sample_weight=w)
    known = columns.labels(y).tolist()
    positive = _greater(known, where) if pos_label is None else columns.find(y, pos_label)
    if positive is None and pos_label is not None and len(known) == 2:
        raise ValueError(f"pos_label={pos_label!r} is not among the labels {known} of {where}.")
    contents = sketch._contents()
    if known[0] == positive:
        contents = contents.swapped()
    usual = pos_label is None and (positive is None or (positive == 1 and min(known) in (-1, 0, 1)))
    return sketch._like(contents, None if usual else pos_label if positive is None else positive)


def _greater(known: list[Any], where: str) -> Any:
    """Return the positive one of two labels, or of one that may be positive; None if it is negative."""
    if any(isinstance(label, str) for label in known) or (len(known) == 1 and known[0] not in (-1, 0, 1)):
        raise ValueError(
            f"{where} has the labels {known}, of which none is positive by itself. Name the positive class "
            "by pos_label."
        )
    return max(known) if len(known) == 2 or known == [1] else None
