"""What is wrong with the printed accounting of ID3 on incomplete data, and that it is never called private."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedlearn.errors import BudgetExceeded
from fedlearn.privacy import PrivacyAccountant
from fedlearn.trees.classes.classification import DPClassificationTree
from tests.unit.trees.classes.private_classifiers import examples, made


def first_choices(X, y, *, fits, mode):
    settings = {"max_depth": 1, "mechanism": "laplace", "criterion": "information_gain", "mode": mode}
    declared = {"categories": (2, 2), "classes": [0, 1], "noise": "seeded"}
    return [
        int(DPClassificationTree(1.0, random_state=seed, **settings, **declared).fit(X, y).table_.feature[0])
        for seed in range(fits)
    ]


def test_one_record_makes_an_impossible_choice_possible_in_paper_mode_and_not_in_rigorous_mode():
    without = np.full((30, 2), np.nan)
    with_one = np.vstack([without, [[np.nan, 1.0]]])
    y = np.arange(31) % 2
    assert set(first_choices(without, y[:30], fits=60, mode="paper")) == {0}
    assert 1 in first_choices(with_one, y, fits=60, mode="paper")
    assert set(first_choices(without, y[:30], fits=60, mode="rigorous")) == {0, 1}


@pytest.mark.parametrize("mechanism", ["laplace", "exponential", "permute_and_flip"])
def test_paper_mode_reports_an_infinite_epsilon_with_its_reason(mechanism):
    X, y = examples(missing=0.2)
    model = made(f"tree {mechanism}", 20.0, mode="paper").fit(X, y)
    spent = model.privacy_spent_
    assert spent.epsilon == math.inf
    assert not spent.is_secure
    assert "NOT PRIVATE" in spent.lines[0].what
    assert (model.predict(X) == y).mean() > 0.8


def test_paper_mode_is_not_secure_even_with_secure_noise():
    X, y = examples()
    model = made("tree exponential", mode="paper", noise="secure").fit(X, y)
    assert not model.privacy_spent_.is_secure


def test_no_finite_account_pays_for_paper_mode():
    X, y = examples()
    with pytest.raises(BudgetExceeded):
        made("tree laplace", mode="paper", accountant=PrivacyAccountant(1e6)).fit(X, y)
