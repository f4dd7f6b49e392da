"""What is wrong with the printed accounting of ID3 on incomplete data, and that it is never called private."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from fedlearn.errors import BudgetExceeded
from fedlearn.privacy import PrivacyAccountant
from fedlearn.trees.as_printed import PrintedID3
from fedlearn.trees.classes.classification import DPClassificationTree
from tests.unit.trees.classes.private_classifiers import SIZES, examples


def printed(mechanism, epsilon=1.0, **changes):
    declared = {"categories": SIZES, "classes": ["no", "yes"], "noise": "seeded", "random_state": 3}
    return PrintedID3(epsilon, mechanism=mechanism, **{**declared, **changes})


def first_choices(estimator, X, y, *, fits):
    settings = {"max_depth": 1, "mechanism": "laplace", "categories": (2, 2), "classes": [0, 1], "noise": "seeded"}
    return [int(estimator(1.0, random_state=seed, **settings).fit(X, y).table_.feature[0]) for seed in range(fits)]


def test_one_record_makes_an_impossible_choice_possible_as_printed_and_not_in_ours():
    without = np.full((30, 2), np.nan)
    with_one = np.vstack([without, [[np.nan, 1.0]]])
    y = np.arange(31) % 2
    ours = partial(DPClassificationTree, criterion="information_gain")
    assert set(first_choices(PrintedID3, without, y[:30], fits=60)) == {0}
    assert 1 in first_choices(PrintedID3, with_one, y, fits=60)
    assert set(first_choices(ours, without, y[:30], fits=60)) == {0, 1}


@pytest.mark.parametrize("mechanism", ["laplace", "exponential", "permute_and_flip"])
def test_it_reports_an_infinite_epsilon_with_its_reason(mechanism):
    X, y = examples(missing=0.2)
    model = printed(mechanism, 20.0).fit(X, y)
    spent = model.privacy_spent_
    assert spent.epsilon == math.inf
    assert not spent.is_secure
    assert "NOT PRIVATE" in spent.lines[0].what
    assert (model.predict(X) == y).mean() > 0.8


def test_it_is_not_secure_even_with_secure_noise():
    X, y = examples()
    model = printed("exponential", noise="secure").fit(X, y)
    assert not model.privacy_spent_.is_secure


def test_no_finite_account_pays_for_it():
    X, y = examples()
    with pytest.raises(BudgetExceeded):
        printed("laplace", accountant=PrivacyAccountant(1e6)).fit(X, y)


@pytest.mark.parametrize(("name", "value"), [("epsilon", 0.0), ("mechanism", "magic"), ("max_depth", -1)])
def test_a_parameter_out_of_range_is_named(name, value):
    X, y = examples()
    with pytest.raises(ValueError, match=f"{name} = "):
        printed(**{"mechanism": "laplace", name: value}).fit(X, y)
