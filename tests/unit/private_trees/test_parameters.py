"""The parameters of every estimator, the printed ones included, are as scikit-learn expects."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV

from experiments.private_trees import as_printed
from fedlearn import private_trees
from fedlearn.private_trees import DPRegressionTree, NotPrivateWarning, PrivateSearch

EVERY = [getattr(room, name) for room in (private_trees, as_printed) for name in room.__all__]
ESTIMATORS = [kind for kind in EVERY if hasattr(kind, "get_params")]
SEEDED = {"noise": "seeded", "random_state": 0}


def made(kind):
    """Return an estimator with declared parameters, ready for two columns of numbers in [0, 1]."""
    if kind is PrivateSearch:
        return kind(estimator=made(DPRegressionTree), grid={"depth": [1]}, **SEEDED)
    if not is_classifier(kind()):
        return kind(bounds=(0, 1), target_bounds=(0, 1), **SEEDED)
    domain = {"bins": {0: [0.5], 1: [0.5]}} if "bins" in kind().get_params() else {"bounds": (0, 1)}
    return kind(classes=[0, 1], **domain, **SEEDED)


def test_every_estimator_is_here():
    assert len(ESTIMATORS) == 16


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_parameters_are_keywords_and_kept_as_they_are_given(kind):
    signature = inspect.signature(kind).parameters
    assert {each.kind for each in signature.values()} == {inspect.Parameter.KEYWORD_ONLY}
    given = {name: object() for name in signature}
    assert kind(**given).get_params(deep=False) == given
    with pytest.raises(TypeError, match="positional"):
        kind(1.0)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_clone_and_a_pickle_have_the_same_parameters(kind):
    estimator = made(kind).set_params(epsilon=3.5)
    for again in (clone(estimator), pickle.loads(pickle.dumps(estimator))):
        assert repr(again) == repr(estimator)
        assert again is not estimator


@pytest.mark.filterwarnings(f"ignore::{NotPrivateWarning.__module__}.NotPrivateWarning")
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_grid_search_sets_them(kind):
    X = np.random.default_rng(0).random((60, 2))
    y = (X[:, 0] > 0.5).astype(int)
    settings = {"scoring": "neg_mean_absolute_error", "cv": 2, "error_score": "raise"}
    search = GridSearchCV(made(kind), {"epsilon": [1.0, 50.0]}, **settings).fit(X, y)
    assert search.best_estimator_.epsilon == search.best_params_["epsilon"]
    assert search.predict(X).shape == y.shape
