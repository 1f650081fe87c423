"""Every metric on several classes and several labels, generated from the registry."""

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from sklearn_calib.scorers import CalibrationScorer
from tests._registry import METRICS

# of the debiased error the squares cannot be had one by one: test_binned.py has its loops
every_metric = pytest.mark.parametrize(
    "case",
    [case for case in METRICS if "reduction" not in case.params and case.name != "ece_debiased"],
    ids=lambda case: case.name,
)


#: One row of each function, of roots and of others: what does not depend on other parameters.
every_function = pytest.mark.parametrize(
    "case",
    {(case.function, case.root): case for case in every_metric.args[1]}.values(),
    ids=lambda case: case.name,
)
REDUCTIONS = ["classwise", "confidence", "top-label"]


def sample(n_classes, n=40):
    rng = np.random.default_rng(n_classes)
    p = rng.dirichlet(np.full(n_classes, 0.7), size=n)
    y = np.array([rng.choice(n_classes, p=row) for row in np.sqrt(p) / np.sqrt(p).sum(axis=1)[:, None]])
    return y, p, rng.integers(0, 3, n)


def by_loops(case, y, p, w, reduction):
    """The reductions, row by row and class by class; of roots the mean of the squares, and its root."""
    if case.root:
        return np.sqrt(max(averaged(case.square, y, p, w, reduction), 0.0))
    return averaged(case.call, y, p, w, reduction)


def averaged(metric, y, p, w, reduction):
    n_classes = p.shape[1]
    if reduction == "classwise":
        each = (([int(label == k) for label in y], p[:, k]) for k in range(n_classes))
        return sum(metric(*pair, sample_weight=w, pos_label=1) for pair in each) / n_classes
    predicted = [max(range(n_classes), key=lambda k, row=row: row[k]) for row in p]
    best = np.array([row[k] for row, k in zip(p, predicted, strict=True)])
    right = np.array([int(k == label) for k, label in zip(predicted, y, strict=True)])
    if reduction == "confidence":
        return metric(right, best, sample_weight=w, pos_label=1)
    total = 0.0
    for k in set(predicted):
        rows = np.array(predicted) == k
        if w[rows].sum() > 0:
            part = metric(right[rows], best[rows], sample_weight=w[rows], pos_label=1)
            total += part * w[rows].sum() / w.sum()
    return total


@every_metric
def test_equals_loops_over_classes(case):
    y, p, w = sample(3)
    names = np.array(["ape", "bee", "cat"])
    # all rows, and without those of a class
    for rows, labels, known in ((y < 3, names[y], None), (y != 1, y, None), (y != 1, names[y], names)):
        for reduction in REDUCTIONS:
            expected = by_loops(case, y[rows], p[rows], w[rows], reduction)
            value = case.call(labels[rows], p[rows], sample_weight=w[rows], reduction=reduction, labels=known)
            assert value == pytest.approx(expected, abs=1e-9)


@every_function
def test_two_classes(case):
    y, p, w = sample(2)
    assert case.call(y, p, sample_weight=w) == case.call(y, p[:, 1], sample_weight=w)
    for reduction in ("confidence", "top-label"):
        expected = by_loops(case, y, p, w, reduction)
        value = case.call(y, p, sample_weight=w, reduction=reduction)
        assert value == pytest.approx(expected, abs=1e-9)
        assert case.call(y, p[:, 1], sample_weight=w, reduction=reduction) == value


@every_function
def test_several_labels(case):
    rng = np.random.default_rng(0)
    p = rng.random((60, 3))
    y = (rng.random((60, 3)) < p**1.5).astype(int)
    y[:, 2] = 0
    w = rng.integers(0, 3, 60)
    part = case.square if case.root else case.call
    mean = np.mean([part(y[:, k], p[:, k], sample_weight=w, pos_label=1) for k in range(3)])
    expected = np.sqrt(max(mean, 0.0)) if case.root else mean
    assert case.call(y, p, sample_weight=w) == pytest.approx(expected, abs=1e-12)
    # labels that exclude each other, as columns, are classes
    codes, proba, w = sample(3)
    found = case.call(np.eye(3)[codes], proba, sample_weight=w)
    assert found == pytest.approx(case.call(codes, proba, sample_weight=w, reduction="classwise"), abs=1e-9)


@every_function
def test_scorers_agree(case):
    y, X, w = sample(3)
    labels = np.array(["ape", "bee", "cat"])[y]
    model, keep = GaussianNB().fit(X, labels), y != 0
    reduction = REDUCTIONS[METRICS.index(case) % 3]
    scorer = CalibrationScorer(case.function, reduction=reduction, **case.params)
    given = {"labels": model.classes_, "reduction": reduction}
    expected = case.call(labels[keep], model.predict_proba(X[keep]), **given)
    assert scorer(model, X[keep], labels[keep]) == pytest.approx(-expected, abs=1e-9)
    expected = case.call(labels, model.predict_proba(X), sample_weight=w, **given)
    assert scorer(model, X, labels, sample_weight=w) == pytest.approx(-expected, abs=1e-9)


BINARY = {"y_true": [0, 1, 1], "y_proba": [0.1, 0.2, 0.3]}
BAD_INPUT = [
    ({"reduction": "micro"}, "reduction"),
    ({"pos_label": 1}, "pos_label"),
    ({"labels": [0, 1]}, "labels"),
    ({"labels": [0, 1, 5]}, "y_true contains 2"),
    ({"y_proba": np.full((3, 3), 0.5)}, "sums to 1.5"),
    ({"y_proba": np.full((2, 3), 1 / 3)}, "y_true"),
    ({"y_true": [0.5, 1, 2]}, "."),
    ({"y_true": np.full((3, 3), 2)}, "0 and 1"),
    ({"y_true": np.eye(3), "reduction": "confidence"}, "reduction='classwise'"),
    ({"y_true": np.eye(3), "labels": [0, 1, 2]}, "labels"),
    ({"y_true": np.eye(3), "pos_label": 1}, "pos_label"),
    ({"y_true": np.eye(3)[:, :2]}, r"y_true has shape \(3, 2\), one column per label"),
    ({"y_true": np.where(np.eye(3) == 1, np.nan, 0)}, "lacks the label of row 0 and column 0"),
    ({"y_true": np.array([[0, 1, 0], [1, 0, None], [0, 0, 1]])}, "row 1 and column 2 .* one column at a"),
    ({"y_true": np.eye(3), "y_proba": [np.full((3, 2), 0.5), np.ones((3, 1))] * 2}, r"y_proba\[1\] has one"),
    ({**BINARY, "labels": [0, 1, 2]}, "labels must be both labels of a binary problem"),
    ({**BINARY, "labels": [1, 1]}, "labels must be both labels"),
    ({**BINARY, "labels": [0, 1], "pos_label": 0}, "pos_label=0 contradicts labels=.0, 1."),
    ({**BINARY, "labels": [0, 2]}, "y_true contains 1 at index 1, which is not in labels"),
]


@every_function
def test_of_two_labels_the_last_is_positive(case):
    codes, proba, _ = sample(2)
    expected, reverse = case.call(codes, proba[:, 1]), case.call(codes, proba[:, 1], pos_label=0)
    names = np.array(["no", "yes"])[codes]
    for y, p in [(names, proba[:, 1]), (names, proba), (names[:, None], proba[:, 1])]:
        assert case.call(y, p, labels=["no", "yes"]) == expected
        assert case.call(y, p, labels=["yes", "no"], pos_label="no") == reverse
    # a label that is missing
    assert case.call(names[:1], proba[:1], labels=["no", "yes"]) == case.call(codes[:1], proba[:1, 1])


@every_function
def test_a_list_with_an_array_for_each_label(case):
    codes, proba, _ = sample(3)
    y = (codes[:, np.newaxis] == np.arange(3)).astype(int)
    expected, each = case.call(y, proba), [np.column_stack([1 - p, p]) for p in proba.T]
    assert case.call(y, each) == case.call(y, np.array(each)) == expected
    assert case.call(y.astype(bool), tuple(each)) == expected


@every_function
def test_bad_input(case):
    good = {"y_true": [0, 1, 2], "y_proba": np.full((3, 3), 1 / 3)}
    for arguments, named in BAD_INPUT:
        with pytest.raises(ValueError, match=named):
            case.call(**(good | arguments))
