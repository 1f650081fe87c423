"""The reruns of the papers: closed forms, exact moments, verdicts, table, files, and public names only."""

import re
from math import comb
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from scipy.io import savemat
from scipy.special import expit

from benchmarks.papers import __main__ as command
from benchmarks.papers import cutoff, logit_smoothed, smooth_ece, tcal, tcal_networks
from benchmarks.papers.population import midpoints, population
from benchmarks.papers.real_data import find, read_confidences, read_network, read_rain
from benchmarks.papers.study import Row, Study, markdown, read_rows, slope, write_rows
from benchmarks.tcal_power import plug_in_pvalue
from sklearn_calib.calibrators import IsotonicCalibrator
from sklearn_calib.metrics import expected_calibration_error
from tests._tiers import thorough

FOLDER = Path(smooth_ece.__file__).parent


@pytest.fixture
def study():
    return Study("a paper", effort="smoke")


def verdicts(study):
    return {row.experiment: row.verdict for row in study.rows}


def test_only_public_names_are_used():
    for path in FOLDER.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"sklearn_calib\.(_|\w+\._)|sklearn_calib(\.\w+)? import _", text), path.name


@pytest.mark.parametrize("shift", [0.0, 1e-3])
def test_a_number_that_leaves_its_tolerance_fails(study, shift):
    study.number("as reported", 0.5, 0.5 + shift, 5e-4)
    study.number("wrong in the paper", 0.4, 0.5 + shift, 5e-4, "why", right=0.5)
    study.number("not printed", None, 0.5 + shift, 5e-4, right=0.5)
    study.number("in words", "below 1", 0.5 + shift, 5e-4, right=0.5)
    expected = ["FAILS"] * 4 if shift else ["agrees", "differs", "holds", "holds"]
    assert [row.verdict for row in study.rows] == expected
    with pytest.raises(ValueError, match="nothing to compare"):
        study.number("nothing", None, 0.5, 1.0)


def test_the_command_fails_with_a_row(monkeypatch, tmp_path, capsys):
    broken = [True]

    class Paper:
        PAPER = "a paper"

        @staticmethod
        def run(study):
            study.holds("claim", "proved", "measured", "true", not broken[0])

    monkeypatch.setattr(command, "PAPERS", {"cutoff": Paper})
    assert command.main(["--smoke", "--output", str(tmp_path)]) == 1
    assert "FAILS: a paper: claim" in capsys.readouterr().out
    broken[0] = False
    assert command.main(["--smoke", "--output", str(tmp_path)]) == 0
    assert [row.verdict for row in read_rows(tmp_path / "papers.csv")] == ["holds"]
    assert "| claim | proved | measured | true | holds |" in (tmp_path / "papers.md").read_text()
    with pytest.raises(SystemExit):
        command.main(["--data", "/no/such/folder"])
    assert "there is no such folder" in capsys.readouterr().err


def test_only_one_paper_keeps_the_rows_of_the_others(monkeypatch, tmp_path):
    def paper(name):
        return type(name, (), {"PAPER": name, "run": staticmethod(lambda study: study.skip("x", "y", "z"))})

    monkeypatch.setattr(command, "PAPERS", {"cutoff": paper("one"), "tcal": paper("two")})
    path, old = tmp_path / "papers.csv", [Row("two", "kept", *"---", "holds"), Row("one", "old", *"----")]
    write_rows(path, old)
    command.main(["--smoke", "--only", "cutoff", "--output", str(tmp_path)])
    assert [(row.paper, row.experiment) for row in read_rows(path)] == [("one", "x"), ("two", "kept")]


def test_table():
    row = Row("paper", "a|b", "1", "2", ".1", "holds", "why")
    assert markdown([row]).splitlines()[-1] == "| a\\|b | 1 | 2 | .1 | holds | why |"
    assert slope([1, 10, 100], [5, 0.5, 0.05]) == pytest.approx(-1)


def test_a_population_is_a_sample_with_every_outcome():
    distribution = population([0.2, 0.7], [0.5, 0.25], [1, 3])
    columns = (distribution[name] for name in ("y_proba", "y_true", "sample_weight"))
    rows = [(0.2, 0, 0.5), (0.2, 1, 0.5), (0.7, 0, 2.25), (0.7, 1, 0.75)]
    assert sorted(zip(*columns, strict=True)) == rows
    assert population([0.5], [1.0])["y_true"].tolist() == [1]
    # |.3| / 4 + |.45| * 3 / 4
    assert expected_calibration_error(**distribution) == pytest.approx(0.4125)


#: Axes that draw nothing.
CANVAS = mock.Mock()
#: Claims of the papers that are examined in a short time, and the verdicts.
VERDICTS = {
    "two points": (lambda study: logit_smoothed.two_points(study, CANVAS), ["holds"] * 2),
    "estimator of LS-ECE": (logit_smoothed.estimator, ["holds"] * 2),
    "heavy tails": (logit_smoothed.heavy_tails, ["differs"]),
    "margins": (cutoff.certificates, ["agrees"] * 2 + ["holds"] * 3),
    "critical values of T-Cal": (tcal.theory, ["agrees"] * 4),
    "debiased error": (tcal.discrete, ["holds"]),
    "discontinuities of ECE": (logit_smoothed.discontinuities, ["differs", "holds", "holds"]),
    "printed rule for small errors of T-Cal": (tcal.small_errors, ["differs"]),
}
SLOW_VERDICTS = {
    "lemmas of smooth ECE": (smooth_ece.lemmas, ["holds"] * 4 + ["agrees", "differs"]),
    "sample of figure 2d": (smooth_ece.synthetic, ["agrees"] * 3),
    "definitions of smooth ECE": (smooth_ece.definitions, ["holds"] * 4),
    "parts of sample splitting": (tcal.splitting, ["holds"] * 2),
    "closed forms": (lambda study: smooth_ece.closed_forms(study, CANVAS), ["holds"] * 3),
    "discontinuity of smooth ECE": (lambda study: smooth_ece.discontinuity(study, CANVAS), ["holds"]),
    "figure 3": (lambda study: cutoff.risk_gaps(study, [CANVAS] * 3), ["agrees"] * 2 + ["holds"] * 3),
    "failure of the binned estimate": (tcal.failure, ["holds"]),
    "bias of the estimates of T-Cal": (lambda study: tcal.estimation(study, CANVAS), ["holds"] * 2),
    "levels of both ways of resampling": (tcal.resampling, ["holds"]),
}


@pytest.mark.parametrize("claims", [*VERDICTS, *(thorough(name) for name in SLOW_VERDICTS)])
def test_verdicts(study, claims):
    run, expected = (VERDICTS | SLOW_VERDICTS)[claims]
    run(study)
    assert list(verdicts(study).values()) == expected


def test_jumps_of_ece_and_bound_of_continuity():
    masses = np.array([0.5, 0.25, 0.25])
    # at the example of Theorem 3.2 both points of the shared forecast lie above it: no jump
    jump = logit_smoothed._largest_jump(masses, np.array([0.8, 0.2, 0.2]), np.array([0.3, 0.4, 0.7]))
    assert abs(jump) <= 1e-3 + 1e-12
    # one below and one above: |-.1| and |.5| no longer cancel, (.1 + .5 - .4) / 4
    jump = logit_smoothed._largest_jump(masses, np.array([0.8, 0.2, 0.2]), np.array([0.3, 0.1, 0.7]))
    assert jump == pytest.approx(0.05, abs=1e-3)
    s, move = 0.3, 0.2
    t = np.linspace(-5, 5, 100_001)
    density = np.exp(-((t[:, np.newaxis] - [0, move]) ** 2) / (2 * s * s)) / np.sqrt(2 * np.pi * s * s)
    variation = np.abs(density[:, 0] - density[:, 1]).sum() * (t[1] - t[0])
    assert logit_smoothed._continuity_bound(np.array([move]), [s])[0] == pytest.approx(variation, rel=1e-6)


@pytest.mark.thorough
def test_cutoff_examples(study):
    for run in (cutoff.relations, cutoff.distance_and_decisions, cutoff.tight_examples, cutoff.sign_testing):
        run(study)
    cutoff.figure_4(study, CANVAS)
    found = verdicts(study)
    (wrong,) = (name for name, verdict in found.items() if verdict not in ("holds", "agrees"))
    assert (wrong[:15], found[wrong]) == ("Proposition A.1", "differs")


def test_distances_of_few_predictions_by_hand():
    # the nearest calibrated forecast is the constant 1/2
    f, g = np.array([0.4, 0.6]), np.array([1.0, 0.0])
    assert cutoff.nearest_calibrated(f, g) == pytest.approx(0.1)
    assert cutoff.randomized_distance(f, g, np.linspace(0, 1, 11)) == pytest.approx(0.1)
    # weights 1, 1, -1 of variation 2 attain the sum .1 + .2 + .3 of residuals; with variation 0 only one sign
    f, g = np.array([0.1, 0.4, 0.7]), np.array([0.2, 0.6, 0.4])
    assert cutoff.bounded_variation_error(f, g, 2) == pytest.approx(0.6 / 3)
    assert cutoff.bounded_variation_error(f, g, 0) == pytest.approx(0.0)


def test_bumps_and_moments_of_example_3_3():
    calibrated, bumps = (tcal.moments(g, tcal.SAMPLES, tcal.BINS) for g in (lambda p: p, tcal.outward))
    found = [calibrated["biased"], bumps["biased"], calibrated["debiased"], bumps["debiased"]]
    assert found == pytest.approx([0.064979, 0.063192, 0, 0.000992], abs=5e-7)
    assert calibrated["null_std"] == pytest.approx(0.00110873, abs=5e-9)
    m, peak = tcal.BINS, tcal.SCALE * tcal.BINS**-tcal.SMOOTHNESS * np.exp(-4)
    centers = np.array([0.25 + 0.5 / m, 0.5 - 0.5 / m, 0.5 + 0.5 / m, 0.75 - 0.5 / m])
    np.testing.assert_allclose(tcal.outward(centers) - centers, peak * np.array([-1, -1, 1, 1]), rtol=1e-9)
    edges = np.array([0.1, 0.25 + 1 / m, 0.5, 0.75 - 1 / m, 0.9])
    np.testing.assert_allclose(tcal.outward(edges), edges, atol=1e-12)


def test_moments_of_tcal_by_enumeration():
    # one row lies in [0, 1/2) with probability 1/2; given k rows of a bin, their mean residuals are u
    n, m = 5, 2

    def curve(p):
        return p + 0.1 * (p < 0.5)

    z = midpoints(64)
    squares = [curve(half) * (1 - half) ** 2 + (1 - curve(half)) * half**2 for half in (z / 2, (1 + z) / 2)]
    v, u = [float(square.mean()) for square in squares], [0.1, 0.0]
    chance = [comb(n, k) / 2**n for k in range(n + 1)]
    pairs = sum(chance[k] * (k - 1) * u[b] ** 2 for b in (0, 1) for k in range(1, n + 1)) / n
    noise = sum(chance[k] * v[b] for b in (0, 1) for k in range(1, n + 1)) / n
    spread = sum(2 * chance[k] * (k - 1) / k * v[b] ** 2 for b in (0, 1) for k in range(1, n + 1)) / n**2
    found = tcal.moments(curve, n, m)
    assert found["debiased"] == pytest.approx(pairs, rel=1e-9)
    assert found["biased"] == pytest.approx(pairs + noise, rel=1e-9)
    assert found["null_std"] == pytest.approx(np.sqrt(spread), rel=1e-9)


def test_networks_are_judged(study):
    rng = np.random.default_rng(0)
    h = np.round(rng.normal(1.5, 1.5, 6000), 1)
    y = (rng.uniform(size=h.size) < expit(0.5 * h)).astype(int)
    found = tcal_networks.judge(y, expit(h), 2000, 3, 999)
    assert set(found) == {"none", "Platt", "polynomial", "isotonic", "histogram binning", "scaling-binning"}
    assert found["none"].error == pytest.approx(expected_calibration_error(y, expit(h)))
    # the truth is a Platt curve
    assert found["none"].rejected
    assert [found[name].default for name in ("none", "Platt", "scaling-binning")] == [True, False, None]
    same = {name: each._replace(default=each.rejected) for name, each in found.items()}
    assert tcal_networks._other_verdicts(same, 20) == "The default TCal() has the same verdicts"
    other = {
        "Platt": same["Platt"]._replace(rejected=False, default=True, seeds=2),
        "isotonic": same["isotonic"]._replace(rejected=True, default=False),
    }
    assert tcal_networks._other_verdicts(other, 20) == (
        "Platt is rejected with 2 of 20 seeds; the default TCal() also rejects Platt; "
        "the default TCal() accepts isotonic"
    )
    assert not found["Platt"].rejected
    assert max(each.error for name, each in found.items() if name != "none") < found["none"].error / 2
    for name, each in found.items():
        if not name.endswith("binning"):
            assert each.square is None
            continue
        # by distinct prediction: squared gap minus the variance of the event frequency
        total = 0.0
        for value in np.unique(each.p):
            inside = each.y[each.p == value]
            rate = inside.mean()
            total += inside.size * ((rate - value) ** 2 - rate * (1 - rate) / (inside.size - 1))
        assert each.square == pytest.approx(max(total, 0) / each.y.size, abs=1e-12)


def test_predictions_of_1():
    # gaps of the bins [.933, 1) and {1}: |.95 - 1| * 2 and |1 - .5| * 2
    y, p = np.array([1, 1, 1, 0]), np.array([0.95, 0.95, 1.0, 1.0])
    assert tcal_networks._published_ece(y, p) == pytest.approx((0.1 + 1) / 4)
    assert expected_calibration_error(y, p) == pytest.approx(abs(3.9 - 3) / 4)
    # isotonic regression predicts 1 above .9, where the event probability is .99
    rng = np.random.default_rng(0)
    p = np.round(rng.uniform(size=7000), 2)
    y = (rng.uniform(size=p.size) < np.where(p < 0.9, 0.8 * p, 0.99)).astype(int)
    y[:5000][p[:5000] > 0.9] = 1
    fitted = IsotonicCalibrator().fit(p[:5000], y[:5000]).transform(p[5000:])
    assert np.sum((fitted == 1) & (y[5000:] == 0)) == 1
    assert not tcal_networks.judge(y, p, 5000, 3, 999)["isotonic"].rejected


def test_networks_without_files_and_of_other_figures(study, tmp_path):
    tcal_networks.run(study)
    assert [row.verdict for row in study.rows] == ["skipped"] * 19
    # the published values are shown all the same
    row = next(row for row in study.rows if row.experiment == "Table 5: cifar100_resnet56")
    assert row.reported == "histogram binning 0.09%, scaling-binning 0.03%"
    np.savez(tmp_path / "vgg16_cifar10.npz", conf=np.full(100, 0.75), correct=np.arange(100) < 60)
    study.data = tmp_path
    logit_smoothed.networks(study)
    assert [row.verdict for row in study.rows[-2:]] == ["skipped", "stand-in"]
    assert study.rows[-1].ours.startswith("binned 0.1500")


def test_networks_are_compared_with_the_published_results(study, tmp_path, monkeypatch):
    # fitted to underconfident and tested on overconfident samples, every method is rejected
    rng = np.random.default_rng(0)
    p = np.round(rng.uniform(0.6, 0.9, 3500), 2)
    y = (rng.uniform(size=p.size) < np.where(np.arange(p.size) < 2000, p + 0.1, p - 0.4)).astype(int)
    for name in ("right", "cifar10_vgg19_bn", "wideresnet-16-4-cifar-10"):
        np.savez(tmp_path / f"{name}.npz", conf=p, correct=y)
    found = tcal_networks.judge(y, p, 2000, 3, 999).values()
    squares = [100 * each.square for each in found if each.square is not None]
    right = tcal_networks.Published(tuple(100 * each.error for each in found), "rrrrrr", tuple(squares))
    networks = {
        "right": right,
        "cifar10_vgg19_bn": right._replace(verdicts="rraarr", squares=(squares[0], squares[1] + 0.1)),
        "absent": right,
    }
    monkeypatch.setattr(tcal_networks, "TABLES", {"Table 1": (networks, 2000, 3)})
    monkeypatch.setattr(tcal_networks, "FIGURE_6", ("Figure 6", "absent", "Platt worse"))
    study.data = tmp_path
    tcal_networks.run(study)
    expected = {"right": "agrees", "cifar10_vgg19_bn": "FAILS", "absent": "skipped"}
    expected = {f"Table {k}: {name}": value for name, value in expected.items() for k in (1, 4)}
    expected |= {"Figure 6": "skipped", "as in Table 1: wideresnet-16-4-cifar-10": "stand-in"}
    assert verdicts(study) == expected


def plug_in(y, p, m):
    """Return n times both plug-in statistics in m bins."""
    parts = [(y - p)[np.floor(m * p) == index] for index in np.unique(np.floor(m * p))]
    return {"biased": sum(r.sum() ** 2 / r.size for r in parts), "l1": sum(abs(r.sum()) for r in parts)}


def test_plug_in_tests_by_hand():
    # two bins: residuals -.2, -.4 and .3
    by_hand = plug_in(np.array([0, 0, 1]), np.array([0.2, 0.4, 0.7]), 2)
    assert by_hand == pytest.approx({"biased": 0.18 + 0.09, "l1": 0.9})
    rng = np.random.default_rng(3)
    p = np.sort(rng.uniform(size=40))
    y = (rng.uniform(size=40) < p**1.5).astype(int)
    for norm in ("biased", "l1"):
        draws = np.random.default_rng(5)
        simulated = np.array([plug_in(draws.random(40) < p, p, 6)[norm] for _ in range(99)])
        expected = (1 + np.sum(simulated >= plug_in(y, p, 6)[norm] * (1 - 1e-9))) / 100
        assert 0.01 < expected < 0.9
        assert plug_in_pvalue(y, p, 6, norm, 99, np.random.default_rng(5)) == expected


def test_files(tmp_path):
    rng = np.random.default_rng(0)
    logits, label = rng.normal(size=(20, 3)), rng.integers(0, 3, 20)
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    right, confidence = (proba.argmax(axis=1) == label).astype(int), proba.max(axis=1)
    savemat(tmp_path / "a.mat", {"logit": logits, "label": label[:, np.newaxis]})
    np.savez(tmp_path / "b.npz", probs=proba, label=label)
    np.savez(tmp_path / "c.npz", conf=confidence, correct=right)
    np.save(tmp_path / "d.npy", np.column_stack([confidence, right]))
    np.savez(tmp_path / "e.npz", top_1_score=confidence, top_1_predict=proba.argmax(axis=1), label=label)
    for path in sorted(tmp_path.iterdir()):
        outcome, forecast = read_network(path)
        np.testing.assert_array_equal(outcome, right)
        np.testing.assert_allclose(forecast, confidence, rtol=1e-12)
    below = tmp_path / "below"
    below.mkdir()
    (below / "resnet34.csv").write_text("confidence,true_label,pred_label\n0.5,1,1\n0.25,2,0\n")
    assert find(tmp_path, "absent.npz", "resnet34.csv") == below / "resnet34.csv"
    assert find(None, "resnet34.csv") is None
    outcome, forecast = read_confidences(below / "resnet34.csv")
    assert (outcome.tolist(), forecast.tolist()) == ([1, 0], [0.5, 0.25])
    assert read_rain(tmp_path) is None
    line = "2003 1 {} {} {} {} {} 0.5 0.3 0.2\n"
    days = [(1, "0.2", 0.4, 0.4, 0.2), (2, "0.3", 0.9, 0.1, 0.0), (3, "-", 0.1, 0.2, 0.7)]
    (tmp_path / "POP_3cat_2003.txt").write_text("names\n" + "".join(line.format(*day) for day in days))
    outcome, forecast = read_rain(tmp_path)
    assert (outcome.tolist(), forecast.tolist()) == ([0, 1], pytest.approx([0.6, 0.1]))
