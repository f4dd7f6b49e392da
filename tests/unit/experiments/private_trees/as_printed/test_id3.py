"""The printed ID3's real loss on incomplete data: no epsilon, or a little more than it says."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from experiments.private_trees.as_printed import PrintedID3
from experiments.private_trees.as_printed.id3 import SLIDE
from fedlearn.auditing.replay import replay
from fedlearn.auditing.trees.classes_replays import fits_of
from fedlearn.core.errors import BudgetExceeded
from fedlearn.privacy import PrivacyAccountant
from fedlearn.private_trees.classes.classification import DPClassificationTree
from fedlearn.private_trees.classes.utilities import reach_of_gain
from tests.unit.private_trees.classes.private_classifiers import SIZES, examples


def printed(mechanism, epsilon=1.0, **changes):
    declared = {"categories": SIZES, "classes": ["no", "yes"], "noise": "seeded", "random_state": 3}
    return PrintedID3(epsilon=epsilon, mechanism=mechanism, **{**declared, **changes})


def first_choices(estimator, X, y, *, fits):
    settings = {"max_depth": 1, "mechanism": "laplace", "categories": (2, 2), "classes": [0, 1], "noise": "seeded"}
    return [
        int(estimator(epsilon=1.0, random_state=seed, **settings).fit(X, y).table_.feature[0]) for seed in range(fits)
    ]


def test_one_record_makes_an_impossible_choice_possible_as_printed_and_not_in_ours():
    without = np.full((30, 2), np.nan)
    with_one = np.vstack([without, [[np.nan, 1.0]]])
    y = np.arange(31) % 2
    ours = partial(DPClassificationTree, criterion="information_gain")
    assert set(first_choices(PrintedID3, without, y[:30], fits=60)) == {0}
    assert 1 in first_choices(PrintedID3, with_one, y, fits=60)
    assert set(first_choices(ours, without, y[:30], fits=60)) == {0, 1}


def test_laplace_counts_report_an_infinite_epsilon_with_its_reason():
    X, y = examples(missing=0.2)
    model = printed("laplace", 20.0).fit(X, y)
    spent = model.privacy_spent_
    assert spent.epsilon == math.inf
    assert not spent.is_secure
    assert "NOT PRIVATE" in spent.lines[0].what
    assert (model.predict(X) == y).mean() > 0.8


@pytest.mark.parametrize("mechanism", ["exponential", "permute_and_flip"])
def test_private_choices_report_a_little_more_than_is_claimed(mechanism):
    X, y = examples(missing=0.2)
    model = printed(mechanism, 20.0).fit(X, y)
    assert model.privacy_spent_.epsilon == pytest.approx(20 * (2 * 1.04 + 1) / 3)
    assert (model.predict(X) == y).mean() > 0.8


def test_a_sensitivity_read_from_the_data_slides_by_no_more_than_is_booked():
    steps = [n * (1 / reach_of_gain(n) - 1 / reach_of_gain(n + 1)) for n in range(1, 10_000)]
    assert 0.99 * SLIDE < max(steps) / 2 <= SLIDE


def fairly_booked(epsilon, *, classes, **settings):
    return PrintedID3(epsilon=epsilon / (1 + SLIDE * math.log2(len(classes))), classes=classes, **settings)


def drawn_with(mechanism):
    return fits_of(fairly_booked, lambda rng: {"max_depth": int(rng.integers(3)), "mechanism": mechanism})


@pytest.mark.parametrize("mechanism", ["exponential", "permute_and_flip"])
def test_what_private_choices_report_holds_in_exact_replays(mechanism):
    result = replay(mechanism, drawn_with(mechanism), pairs=150, seed=1)
    assert 0.5 < result.largest <= 1 + 1e-6, str(result)


def test_laplace_counts_are_refuted_by_an_exact_replay():
    assert replay("laplace", drawn_with("laplace"), pairs=300, seed=1, stops=True).is_refuted


def test_it_is_not_secure_even_with_secure_noise():
    X, y = examples()
    model = printed("laplace", noise="secure").fit(X, y)
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
