"""Names with control characters are printed, drawn and written as escapes, by whatever shows them."""

import io
import re
import warnings
from xml.etree import ElementTree

import numpy as np
import pytest

from sklearn_calib import calibrators, inference, plot, report
from sklearn_calib.monitor import CalibrationMonitor
from tests._optional import Missing
from tests._optional import pyplot as plt
from tests._tiers import thorough

EVIL, SHOWN = "a\x1b\0\x9b\u202e\ud800\uffff$", r"a\x1b\x00\x9b\u202e\ud800\uffff"
HIDDEN = re.compile("[\0-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
RNG = np.random.default_rng(0)
P = RNG.uniform(0.1, 0.5, 400)
GROUP = np.where(np.arange(400) % 2, EVIL, "b\nc")
Y = (RNG.random(400) < P + 0.3 * (GROUP == EVIL)).astype(int)
LABELS, PROBA = np.array(["A", EVIL, "z"])[np.arange(60) % 3], RNG.dirichlet([1.0, 1.0, 1.0], 60)
MODELS, CLASSES = {EVIL: P, "b": np.full(400, 0.3)}, np.array(["", EVIL])[Y]
FEW = {"n_resamples": 39, "random_state": 0}


def evil_metric(y, p, sample_weight=None):
    return float(np.average(y - p, weights=sample_weight))


evil_metric.__name__ = EVIL


def _monitor():
    monitor = CalibrationMonitor(metrics=[evil_metric])
    monitor.update(Y, P)
    return monitor


RESULTS = {
    "segments": lambda: inference.find_segments({EVIL: GROUP}, Y, P, segments=[EVIL], **FEW),
    "segment": lambda: inference.find_segments({EVIL: GROUP}, Y, P, **FEW).segments[0],
    "left out": lambda: inference.find_segments({EVIL: np.ones(400), "g": GROUP}, Y, P, **FEW),
    "multicalibration": lambda: inference.multicalibration_error({"g": GROUP}, Y, P, n_resamples=39),
    "classes": lambda: inference.CutoffTest(n_resamples=39).test(LABELS, PROBA),
    "part": lambda: inference.CutoffTest(n_resamples=39).test(LABELS, PROBA).scales[2],
    "comparison": lambda: inference.compare_models(Y, MODELS, intervals=False, **FEW),
    "dominance": lambda: inference.dominance_test(Y, MODELS, thresholds=[0.2], **FEW),
    "selection": lambda: (
        calibrators.AutoCalibrator(candidates={EVIL: calibrators.PlattCalibrator()}).fit(P, Y).selection_
    ),
    "requirements": lambda: report.CalibrationRequirements({"segment_difference": 0.1}).check(
        Y, P, groups=GROUP, n_resamples=20
    ),
    "monitor": _monitor,
    "alert": lambda: CalibrationMonitor(metrics=[evil_metric]).update(np.ones(400), P)[0],
}


@pytest.mark.parametrize("kind", RESULTS)
def test_results_show_escapes(kind):
    result = RESULTS[kind]()
    texts = [str(result)]
    texts += [getattr(result, name)() for name in ("_repr_html_", "to_junit") if hasattr(result, name)]
    for text in texts:
        assert not HIDDEN.search(text)
        assert SHOWN in text


DISPLAYS = {
    "reliability": lambda: plot.ReliabilityDisplay.from_predictions(CLASSES, P, pos_label=EVIL, name=EVIL),
    "grid": lambda: plot.reliability_grid(Y, P, groups=GROUP)[0],
    "segments": lambda: plot.SegmentsDisplay.from_predictions({EVIL: GROUP}, Y, P, **FEW),
    "comparison": lambda: plot.ComparisonDisplay.from_predictions(Y, MODELS, n_resamples=39),
    "decision curves": lambda: plot.DecisionCurveDisplay.from_predictions(Y, MODELS, reference=EVIL, **FEW),
    "scores": lambda: plot.ScoreDecompositionDisplay.from_predictions(Y, MODELS),
    "test": lambda: plot.TestDisplay.from_result(inference.CutoffTest().test(Y, P), name=EVIL),
    "monitor": lambda: plot.MonitorDisplay.from_monitor(_monitor(), name=EVIL),
}


@pytest.mark.skipif(isinstance(plt, Missing), reason="needs matplotlib")
@pytest.mark.parametrize(
    "kind", [kind if kind in ("reliability", "test", "monitor") else thorough(kind) for kind in DISPLAYS]
)
def test_drawings_are_well_formed(kind):
    file = io.BytesIO()
    with warnings.catch_warnings(), plt.rc_context({"svg.fonttype": "none"}):
        warnings.simplefilter("error")
        DISPLAYS[kind]().ax_.figure.savefig(file, format="svg")
    assert SHOWN in " ".join(ElementTree.fromstring(file.getvalue()).itertext())
