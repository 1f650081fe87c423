"""Sketches of batches: of an iterable, and of Arrow record batches."""

from collections.abc import Iterable
from typing import Any

from sklearn_calib.sketch._read import arrow_columns, check_columns
from sklearn_calib.sketch._sketch import CalibrationSketch


def sketch_batches(
    batches: Iterable[Any], *, pos_label: Any = None, precision: int = 17
) -> CalibrationSketch:
    """Return the sketch of an iterable of batches, with one batch in memory at a time.

    Parameters
    ----------
    batches : iterable
        Tuples ``(y_true, y_proba)`` or ``(y_true, y_proba, sample_weight)`` as in
        :meth:`CalibrationSketch.update`, or sketches. A batch may be empty, or contain only one label.
    pos_label : label, default=None
        The positive class. Needed for other labels than 0 and 1, -1 and 1, or booleans, because a batch may
        hold one of the two labels only.
    precision : int, default=17
        Precision of the sketch.

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
    sketch_arrow : The sketch of Arrow record batches.
    sketch_dask : The sketch of distributed data.

    Notes
    -----
    Time is proportional to the samples; memory is that of a sketch and of a batch. For a progress bar pass
    ``tqdm(batches)``.

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
    sketch = CalibrationSketch(precision=precision, pos_label=pos_label)
    for number, batch in enumerate(_each(batches)):
        add_batch(sketch, batch, f"batch {number}")
    return sketch


def _each(batches: Any) -> Iterable[Any]:
    """Return ``batches`` if they are iterable."""
    if not isinstance(batches, Iterable):
        raise TypeError(f"batches must be an iterable of batches, got {type(batches).__name__}.")
    return batches


def add_batch(sketch: CalibrationSketch, batch: Any, where: str) -> None:
    """Add a batch, or another sketch, to a sketch; errors name it."""
    if isinstance(batch, CalibrationSketch):
        try:
            sketch.merge(batch)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        return
    if not isinstance(batch, tuple | list):
        raise TypeError(
            f"{where} is a {type(batch).__name__}. Pass tuples (y_true, y_proba) or (y_true, y_proba, "
            "sample_weight), or sketches."
        )
    if len(batch) not in (2, 3):
        raise ValueError(
            f"{where} has {len(batch)} elements. Pass (y_true, y_proba) or (y_true, y_proba, sample_weight)."
        )
    try:
        sketch.update(batch[0], batch[1], sample_weight=batch[2] if len(batch) == 3 else None)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def sketch_arrow(
    batches: Iterable[Any],
    *,
    y: str,
    p: str,
    sample_weight: str | None = None,
    pos_label: Any = None,
    precision: int = 17,
) -> CalibrationSketch:
    """Return the sketch of Arrow record batches, e.g. from Spark, DuckDB or a pyarrow dataset.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        The samples; empty batches are allowed.
    y : str
        Column of outcomes: booleans, numbers or texts.
    p : str
        Column of the predicted probability of the positive class.
    sample_weight : str, default=None
        Column of non-negative weights.
    pos_label : label, default=None
        The positive class. Needed for other labels than 0 and 1, -1 and 1, or booleans, because a batch may
        hold one of the two labels only.
    precision : int, default=17
        Precision of the sketch.

    Returns
    -------
    CalibrationSketch
        The sketch of all samples; an empty one if there are none.

    Raises
    ------
    ValueError
        If a column is missing or malformed; the message names it, and the row, counted from 1 over all
        batches.
    TypeError
        If ``batches`` is not an iterable of record batches.

    See Also
    --------
    sketch_batches : The sketch of tuples of arrays.

    Notes
    -----
    Time is proportional to the samples; memory is that of a sketch and of a batch. Columns of numbers are not
    copied.

    Examples
    --------
    >>> import pyarrow
    >>> from sklearn_calib.sketch import sketch_arrow
    >>> table = pyarrow.table({"died": [True, False, False], "risk": [0.75, 0.25, 0.5]})
    >>> sketch_arrow(table.to_batches(max_chunksize=2), y="died", p="risk").n_samples
    3
    """
    check_columns(y, [p], sample_weight)
    sketch = CalibrationSketch(precision=precision, pos_label=pos_label)
    names = [y, p, *([] if sample_weight is None else [sample_weight])]
    row = 1
    for batch in _each(batches):
        if not hasattr(batch, "schema"):
            raise TypeError(f"batches must contain pyarrow record batches, got {type(batch).__name__}.")
        columns = arrow_columns(batch, names, "record batches", row)
        row += batch.num_rows
        w = None if sample_weight is None else columns[sample_weight].weights()
        sketch.update(columns[y].labels(), columns[p].probabilities(), sample_weight=w)
    return sketch
