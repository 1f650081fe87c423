"""Streaming sketches: mergeable summaries of constant size of any number of samples."""

from sklearn_calib.sketch._batches import sketch_batches, sketch_file
from sklearn_calib.sketch._dask import sketch_dask
from sklearn_calib.sketch._sketch import CalibrationSketch
from sklearn_calib.sketch._windowed import WindowedSketch

__all__ = [
    "CalibrationSketch",
    "WindowedSketch",
    "sketch_batches",
    "sketch_dask",
    "sketch_file",
]
