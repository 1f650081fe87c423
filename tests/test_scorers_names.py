"""Scorers by name: what is found, what is registered with scikit-learn, and what is left alone."""

import numpy as np
import pytest
from sklearn.metrics import get_scorer as sklearn_get_scorer
from sklearn.metrics import get_scorer_names as sklearn_get_scorer_names
from sklearn.naive_bayes import GaussianNB

import sklearn_calib.scorers as scorers
from sklearn_calib._compat import register_scorers
from sklearn_calib.scorers import CalibrationScorer, PValueScorer, get_scorer, get_scorer_names


def unweighted(y_true, y_proba):
    return float(np.mean(y_proba))


def test_every_name_is_an_attribute_and_each_access_a_new_object():
    assert set(get_scorer_names()) <= set(dir(scorers))
    assert get_scorer_names() == sorted(get_scorer_names())
    for name in get_scorer_names():
        # a test within the parameters is an object without equality
        assert repr(getattr(scorers, name).get_params()) == repr(get_scorer(name).get_params())
        assert getattr(scorers, name) is not getattr(scorers, name)
        assert get_scorer(name) is not get_scorer(name)
    with pytest.raises(AttributeError, match="neg_nothing"):
        _ = scorers.neg_nothing


def test_get_scorer_knows_other_names_and_callables():
    assert repr(get_scorer("roc_auc")) == repr(sklearn_get_scorer("roc_auc"))
    assert get_scorer(unweighted) is unweighted
    with pytest.raises(ValueError, match=r"no scorer named 'neg_ece'.*neg_smooth_ece"):
        get_scorer("neg_ece")
    with pytest.raises(TypeError, match="a name or a callable, got None"):
        get_scorer(None)


def test_names_are_registered_with_scikit_learn_and_none_is_overridden():
    for name in get_scorer_names():
        assert name in sklearn_get_scorer_names()
        theirs = sklearn_get_scorer(name)
        assert theirs is not sklearn_get_scorer(name)
        # names that scikit-learn had before stay its own
        ours = isinstance(theirs, CalibrationScorer | PValueScorer)
        assert ours is (name not in ("neg_log_loss", "neg_brier_score"))
    assert not {"neg_l2_calibration_error"} & set(get_scorer_names())


def test_names_reach_what_was_imported_before(monkeypatch):
    import sklearn.metrics._scorer as table
    from sklearn.feature_selection import SequentialFeatureSelector

    monkeypatch.setattr(table, "_SCORERS", dict(table._SCORERS))
    register_scorers({"neg_x": lambda estimator, X, y: 0.0})
    X = np.random.default_rng(0).normal(size=(20, 3))
    selector = SequentialFeatureSelector(GaussianNB(), scoring="neg_x", n_features_to_select=1, cv=2)
    assert selector.fit(X, np.arange(20) % 2).get_support().sum() == 1


def test_registration_never_fails_and_never_overrides(monkeypatch):
    import sklearn.metrics._scorer as table

    register_scorers({"accuracy": unweighted})
    assert sklearn_get_scorer("accuracy") is not unweighted
    monkeypatch.setattr(table, "_SCORERS", ("moved",))
    with pytest.warns(UserWarning, match="its table of scorers has changed"):
        register_scorers({"neg_x": unweighted})
    monkeypatch.delattr(table, "_SCORERS")
    with pytest.warns(UserWarning, match="its table of scorers has changed"):
        register_scorers({"neg_x": unweighted})
