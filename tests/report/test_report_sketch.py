"""Reports on sketches: those of the rows, with a line for each group, and they say so."""

import numpy as np
import pytest

from sklearn_calib.report import calibration_report
from sklearn_calib.sketch import CalibrationSketch


@pytest.fixture(scope="module")
def forecast():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=600)
    return (rng.uniform(size=600) < p**1.5).astype(int), p


@pytest.mark.thorough
def test_a_sketch_for_each_group_is_as_good_as_rows(forecast):
    """Predictions at the edges of cells are kept exactly."""
    y, p = forecast
    p, groups = np.round(p * 64) / 64, np.array(["u", "v", "w"])[np.arange(p.shape[0]) % 3]
    sketches = {g: CalibrationSketch().update(y[groups == g], p[groups == g]) for g in ("u", "v", "w")}
    options = {"n_resamples": 20, "name": "T"}
    found, rows = calibration_report(sketches, **options), calibration_report(y, p, groups=groups, **options)
    assert (found.sketched, rows.sketched) == (True, False)
    assert [line.name for line in found.groups] == ["u", "v", "w"]
    assert [line.pvalue for line in found.groups] == pytest.approx([line.pvalue for line in rows.groups])
    assert found.pvalue == pytest.approx(rows.pvalue)
    assert found.metric("smooth_ece").value == pytest.approx(rows.metric("smooth_ece").value)
    assert "computed from a sketch" in str(found)
    assert "computed from a sketch" in found.to_html()
    assert "sketch" not in str(rows)
    one = calibration_report(sum(sketches.values()), **options)
    assert one.sketched
    assert one.pvalue == found.pvalue


def test_bad_sketches_of_groups_are_refused(forecast):
    y, p = forecast
    good = CalibrationSketch().update(y, p)
    other = CalibrationSketch(pos_label="b").update(["a", "b"], [0.5, 0.5])
    for arguments, error, message in (
        (({},), ValueError, "y_true is an empty dict"),
        (({"u": y},), TypeError, r"y_true\['u'\] is a ndarray"),
        (({"u": good}, p), ValueError, r"y_true\['u'\]: y_proba was passed together with a"),
        (({"u": good, "v": other},), ValueError, "different positive classes"),
        (({"u": good, "v": CalibrationSketch()},), ValueError, r"y_true\['v'\]: The sketch is empty"),
    ):
        with pytest.raises(error, match=message):
            calibration_report(*arguments, n_resamples=20)
