"""Choosing parameters under one budget."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from fedlearn.auditing.replay import replay
from fedlearn.auditing.trees.searching_replays import of_one_run
from fedlearn.core.errors import BudgetExceeded
from fedlearn.privacy import NeighboringRelation, PrivacyAccountant
from fedlearn.private_trees import DPClassificationTree, DPRegressionTree, PrivateSearch, private_search

TREE = DPRegressionTree(bounds=(0, 1), target_bounds=(0, 1))
CLASSES = DPClassificationTree(categories=[2, 2], classes=["no", "yes"])
GRID = {"depth": [0, 3], "leaf": ["mean", "median"]}


def search(estimator=TREE, grid=GRID, **changes):
    return PrivateSearch(
        estimator=estimator, grid=grid, **{"epsilon": 3.0, "noise": "seeded", "random_state": 1} | changes
    )


def rows(count=3000):
    X = np.random.default_rng(0).random((count, 2))
    return X, X[:, 0]


def test_what_is_better_is_found_and_the_budget_is_spent_once():
    account = PrivacyAccountant(5.0)
    found = search(accountant=account).fit(*rows())
    assert found.best_params_["depth"] == 3
    assert account.spent.epsilon == 3.0
    assert found.privacy_spent_ == found.best_estimator_.privacy_spent_ == account.spent
    assert np.abs(found.predict(rows()[0]) - rows()[1]).mean() < 0.15


def test_a_classifier_can_be_searched_for_with_names_and_labels_that_are_none():
    X = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (600, 2)), columns=["a", "b"])
    y = np.where(X["a"], "yes", "no").astype(object)
    y[:20] = "perhaps"
    found = search(CLASSES, {"max_depth": [0, 1]}).fit(X, y)
    assert found.best_params_ == {"max_depth": 1}
    assert 60 < found.best_score_ < 180
    assert list(found.best_estimator_.feature_names_in_) == ["a", "b"]


@pytest.mark.parametrize("eta", [0, 1])
def test_a_run_gets_its_share_and_no_more(eta, monkeypatch):
    seen = []
    fit = DPRegressionTree.fit

    def remember(self, X, y):
        seen.append((self.epsilon, self.accountant))
        return fit(self, X, y)

    monkeypatch.setattr(DPRegressionTree, "fit", remember)
    search(eta=eta, random_state=3).fit(*rows(100))
    assert set(seen) == {(3.0 / (2 + eta), None)}


def test_nothing_says_how_many_runs_there_were():
    fitted = [set(vars(search(random_state=seed).fit(*rows(60)))) for seed in range(4)]
    assert all(each == fitted[0] for each in fitted)
    assert "secret" in search().fit(*rows(60)).privacy_spent_.lines[0].what


def test_the_same_seed_finds_the_same_and_secure_noise_needs_none():
    first, again = (search().fit(*rows(200)) for _ in range(2))
    assert first.best_score_ == again.best_score_
    secure = search(noise="secure", random_state=None, mean_runs=1.5).fit(*rows(40))
    assert secure.privacy_spent_.is_secure
    assert secure.notice_ == ""


class Untouchable:
    def __getattribute__(self, name):
        if name in ("__class__", "shape"):
            return object.__getattribute__(self, name)
        raise AssertionError(f"the data was touched: {name}")

    shape = (4, 2)


@pytest.mark.parametrize("account", [PrivacyAccountant(1.0), PrivacyAccountant(9.0, NeighboringRelation.REPLACE)])
def test_an_account_that_does_not_cover_it_is_asked_before_the_data_is_touched(account):
    with pytest.raises((BudgetExceeded, ValueError)):
        search(accountant=account).fit(Untouchable(), Untouchable())
    assert account.spent.epsilon == 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"grid": {"epsilon": [1.0]}}, "set by the search"),
        ({"grid": {"nothing_like_it": [1]}}, "nothing_like_it"),
        ({"grid": []}, "no candidate"),
        ({"epsilon": math.inf}, "finite"),
        ({"eta": 2}, "eta"),
        ({"mean_runs": 1.0}, "mean_runs"),
        ({"folds": 1}, "folds"),
        ({"estimator": clone(TREE).set_params(bounds_from_data=True)}, "not private"),
        ({"random_state": None}, "random_state"),
    ],
)
def test_what_cannot_be_searched_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        search(**wrong).fit(*rows(10))


def test_lengths_that_differ_and_no_target_are_refused():
    X, y = rows(10)
    for target in (y[:9], None):
        with pytest.raises(ValueError, match="y"):
            search().fit(X, target)


@pytest.mark.parametrize("count", [0, 1])
def test_next_to_no_rows_are_searched_like_any_others(count):
    assert search().fit(*rows(count)).best_params_["depth"] in (0, 3)


def test_no_record_makes_a_search_fail():
    X, y = rows(40)
    X[:3], y[3:6], y[6] = [[np.inf, 0], [-np.inf, np.nan], [np.nan, np.nan]], [np.nan, np.inf, -np.inf], 1e300
    for table in (X, pd.DataFrame(X, columns=["a", "b"])):
        assert np.isfinite(search(folds=2).fit(table, y).best_score_)


def test_no_run_loses_more_than_its_share_of_the_budget():
    result = replay("PrivateSearch", of_one_run, pairs=80)
    assert not result.is_refuted, str(result)
    assert result.largest > 0.9
    assert "_run of run" in result.slips


def test_a_score_on_the_records_that_were_trained_on_is_found(monkeypatch):
    monkeypatch.setattr(private_search, "_rows", lambda table, kept: np.asarray(table))
    assert replay("PrivateSearch", of_one_run, pairs=80, stops=True).is_refuted


def test_a_run_that_spends_the_whole_budget_is_found(monkeypatch):
    monkeypatch.setattr(private_search, "cost_of_search", lambda epsilon, eta: epsilon)
    assert replay("PrivateSearch", of_one_run, pairs=80, stops=True).is_refuted
