"""The printed regression tree and forest as estimators: they say what they really spend, and warn."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

from experiments.private_trees.as_printed import PrintedRegressionForest, PrintedRegressionTree
from experiments.private_trees.as_printed.growing import PrintedSettings
from experiments.private_trees.as_printed.true_loss import true_privacy_loss
from fedlearn.core.errors import BudgetExceeded
from fedlearn.privacy import PrivacyAccountant
from fedlearn.private_trees import NotPrivateWarning

SEEDED = {"bounds": (0.0, 1.0), "target_bounds": (-1.0, 3.0), "noise": "seeded", "random_state": 7}
ALL = [PrintedRegressionTree, PrintedRegressionForest]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.random((600, 4))
    return X, np.where(X[:, 0] > 0.5, 2.0, 0.0) + X[:, 1] + 0.1 * rng.normal(size=600)


def test_it_refuses_to_call_itself_private(data):
    with pytest.warns(NotPrivateWarning, match="not 1-private") as warned:
        fitted = PrintedRegressionForest(n_trees=3, **SEEDED).fit(*data)
    assert warned[0].filename == __file__
    assert fitted.privacy_spent_ == true_privacy_loss(PrintedSettings(epsilon=1.0, depth=5))
    assert fitted.privacy_spent_.epsilon > 1
    assert fitted.table_.num_trees == 3


@pytest.mark.parametrize("estimator", ALL)
def test_an_account_is_asked_for_what_it_really_gives(estimator, data):
    accountant = PrivacyAccountant(1.0)
    with pytest.raises(BudgetExceeded):
        estimator(accountant=accountant, **SEEDED).fit(*data)
    assert not accountant.spent.lines


def test_bounds_of_the_data_leave_no_epsilon(data):
    with pytest.warns(NotPrivateWarning, match="minima"), pytest.warns(NotPrivateWarning, match="there is none"):
        fitted = PrintedRegressionTree(bounds_from_data=True, noise="seeded", random_state=0).fit(*data)
    assert fitted.privacy_spent_.epsilon == math.inf
    assert "not private" in fitted.notice_


@pytest.mark.parametrize("estimator", ALL)
@pytest.mark.parametrize(
    ("name", "value"),
    [("epsilon", 0.0), ("depth", -1), ("min_split", 0), ("min_leaf", 0), ("leaf", "mode"), ("reading", "free")],
)
def test_a_parameter_out_of_range_is_named(estimator, name, value, data):
    with pytest.raises(ValueError, match=name):
        estimator(**{**SEEDED, name: value}).fit(*data)


def test_rows_with_missing_values_are_refused(data):
    X, y = data
    with pytest.raises(ValueError, match="NaN"):
        PrintedRegressionTree(**SEEDED).fit(np.where(X > 0.9, np.nan, X), y)


@pytest.mark.parametrize("estimator", ALL)
def test_scikit_learns_checks_pass_without_an_exception(estimator):
    declared = estimator(epsilon=1e3, bounds=(-10, 10), target_bounds=(-100, 100), noise="seeded", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        results = check_estimator(declared, on_skip=None, on_fail=None)
    assert [(r["check_name"], r["exception"]) for r in results if r["status"] not in ("passed", "skipped")] == []
