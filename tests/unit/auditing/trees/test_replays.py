"""Whole fits, recorded and replayed: every estimator, every option; slips planted in the code itself must show."""

from __future__ import annotations

import inspect
from functools import partial

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from fedlearn.auditing.replay import replay
from fedlearn.auditing.trees.classes_replays import REPLAYS as CLASS_REPLAYS
from fedlearn.auditing.trees.numbers_replays import REPLAYS as NUMBER_REPLAYS
from fedlearn.auditing.trees.sums_replays import REPLAYS as SUMS_REPLAYS
from fedlearn.private_trees import LEAVING
from fedlearn.private_trees import estimators as trees
from fedlearn.private_trees.classes import classification, classifier, growing, permute_and_flip_forest
from fedlearn.private_trees.numbers import forest_growing as number_growing
from fedlearn.private_trees.numbers import ordering, regressor, training_set, voted
from fedlearn.private_trees.sums import bayes, boost_plan, boosting, private_sums
from tests.marked import thinned

REPLAYS = NUMBER_REPLAYS | CLASS_REPLAYS | SUMS_REPLAYS
SLIP = 1.05


def test_every_private_estimator_is_replayed():
    public = [getattr(trees, name) for name in trees.__all__]
    estimators = {each.__name__ for each in public if inspect.isclass(each) and issubclass(each, BaseEstimator)}
    assert estimators - {"PrivateSearch"} | set(LEAVING) == set(REPLAYS)


@pytest.mark.parametrize("name", thinned(REPLAYS, 2))
def test_no_loss_passes_the_claim(name):
    result = replay(name, REPLAYS[name], pairs=30, seed=2)
    assert not result.is_refuted, str(result)
    assert result.largest > 0.4  # the pairs are no idle ones


@pytest.mark.long
@pytest.mark.parametrize("name", REPLAYS)
def test_no_loss_passes_the_claim_in_many_pairs_and_every_slip_is_seen(name):
    result = replay(name, REPLAYS[name], pairs=3000, seed=3)
    assert not result.is_refuted, str(result)
    assert result.largest > 0.999
    missed = {*result.missed}
    for seed in (4, 5):  # pairs are drawn, and some show a slip in one search of two
        missed &= {*replay(name, REPLAYS[name], pairs=3000, seed=seed).missed} if missed else set()
    assert not missed


@pytest.mark.long
@pytest.mark.parametrize("name", ["DPBoostingClassifier", "DPBoostingRegressor"])
def test_the_price_of_chance_follows_from_published_sums_alone(name, monkeypatch):
    monkeypatch.setattr(boost_plan, "MOST_ROUNDS", 3)
    monkeypatch.setattr(boost_plan, "ROUNDS_AT_THOUSAND", 1e6)  # so that chance has a price at every epsilon
    result = replay(name, REPLAYS[name], pairs=200, seed=3)
    assert not result.is_refuted, str(result)
    real, seen = boosting.choose, []

    def of_records(codes, partitions, wanted, pairs, loss, plan, noise, squares):
        seen.append(squares)
        squares = 400 * float((pairs[:, : loss.outputs].astype(float) ** 2).sum()) / boosting.UNIT**2
        return real(codes, partitions, wanted, pairs, loss, plan, noise, squares)

    monkeypatch.setattr(boosting, "choose", of_records)
    assert replay(name, REPLAYS[name], pairs=200, seed=3).is_refuted and max(seen) > 0


@pytest.mark.parametrize("name", REPLAYS)
def test_every_value_of_every_option_is_replayed(name, monkeypatch):
    """Where a parameter is one of some words, each of them is drawn."""
    seen = {}
    kind = getattr(trees, name)
    words = {
        parameter: rule.words.removeprefix("one of ").replace("'", "").split(", ")
        for parameter, rule in kind.ranges.items()
        if rule.words.startswith("one of") and parameter != "noise"  # seeded noise claims nothing
    }

    def remember(self):
        for parameter in words:
            seen.setdefault(parameter, set()).add(getattr(self, parameter))
        raise KeyboardInterrupt  # no need to fit

    monkeypatch.setattr(kind, "_check_parameters", remember)
    rng = np.random.default_rng(1)
    for _ in range(150):
        with pytest.raises((KeyboardInterrupt, AttributeError)):
            pair = REPLAYS[name](rng)
            pair.first()
    assert {parameter: sorted(found) for parameter, found in seen.items()} == {
        parameter: sorted(every) for parameter, every in words.items()
    }


def dearer(mechanism):
    """Return the mechanism at an epsilon that is 5 % larger than the given one."""

    def slipped(*args, epsilon, **kwargs):
        return mechanism(*args, epsilon=SLIP * np.asarray(epsilon), **kwargs)

    return slipped


def dearer_sums(rows, epsilon, noise, *, sums):
    return sums(rows, SLIP * epsilon, noise)


def dearer_hats(rows, knots, epsilon, noise, *, hats):
    return hats(rows, knots, SLIP * epsilon, noise)


def heavier(weights):
    return np.rint(SLIP * weights).astype(weights.dtype)


def heavier_shares(shares_of):
    """Return what makes weights of 5 % more than the largest one."""

    def slipped(*args, **kwargs):
        whole = shares_of(*args, **kwargs)
        return None if whole is None else heavier(whole)

    return slipped


def heavier_pieces(rows, feature, cut, *, route):
    """Give a record without the value 5 % more weight on both sides together than it has."""
    routed = route(rows, feature, cut)
    is_piece = (routed.codes == 255).any(axis=1)[:, None]
    pairs = np.where(is_piece, heavier(routed.pairs), routed.pairs).astype(np.int32)
    return type(routed)(routed.codes, pairs, routed.start)


NUMBERS = number_growing
SLIPS = {
    "a leaf's histogram": ("DPRegressionTree", NUMBERS, "hat_counts", lambda old: partial(dearer_hats, hats=old)),
    "sums of nodes": ("DPEnsembleTree", NUMBERS, "noisy_sums", lambda old: partial(dearer_sums, sums=old)),
    "a split": ("DPRelayTree", NUMBERS, "choose", dearer),
    "sums of a round": ("DPRelayForest", NUMBERS, "noisy_sums", lambda old: partial(dearer_sums, sums=old)),
    "a vote": ("DPVotedForest", voted, "choose", dearer),
    "the number of records": ("DPRegressionTree", regressor, "geometric", dearer),
    "the weight of a record": ("DPRegressionTree", training_set, "pairs_of", lambda old: lambda *a: heavier(old(*a))),
    "the share of a piece": ("DPRegressionTree", NUMBERS, "route", lambda old: partial(heavier_pieces, route=old)),
    "a feature": ("DPClassificationTree", growing, "permute_and_flip", dearer),
    "noisy counts": ("DPClassificationTree", growing, "laplace", dearer),
    "the sensitivity of a utility": (
        "PermuteAndFlipForest", growing, "sensitivity", lambda old: lambda *a, **k: old(*a, **k) / SLIP,
    ),
    "counts of leaves": ("DPRandomForestClassifier", growing, "laplace", dearer),
    "counts of naive Bayes": ("DPNaiveBayes", bayes, "geometric", dearer),
    "gradients": ("DPBoostingRegressor", boosting, "pairs_of", lambda old: lambda *a: heavier(old(*a))),
    "the order of categories": ("DPRegressionForest", ordering, "geometric", dearer),
    "a declared weight of a tree": ("DPEnsembleTree", regressor, "shares_of", heavier_shares),
    "a declared weight of a forest": ("PermuteAndFlipForest", classifier, "shares_of", heavier_shares),
    "a declared weight of sums": ("DPBoostingClassifier", private_sums, "shares_of", heavier_shares),
    "a declared weight of counts": ("DPNaiveBayes", private_sums, "shares_of", heavier_shares),
    "the weight of a class": ("DPRandomForestClassifier", classifier, "ONE", lambda old: round(SLIP * old)),
}  # fmt: skip


@pytest.mark.parametrize(
    "slip", [pytest.param(each, marks=() if place % 3 == 0 else pytest.mark.long) for place, each in enumerate(SLIPS)]
)
def test_a_slip_in_the_code_is_found(slip, monkeypatch):
    name, module, attribute, wrapped = SLIPS[slip]
    if attribute in growing.SELECTIONS:
        monkeypatch.setitem(growing.SELECTIONS, attribute, wrapped(growing.SELECTIONS[attribute]))
    else:
        monkeypatch.setattr(module, attribute, wrapped(getattr(module, attribute)))
    result = replay(name, REPLAYS[name], pairs=1000, seed=4, stops=True)
    assert result.is_refuted, str(result)


def equal_parts(rows, *, count, rng):
    return np.arange(rows) % count


@pytest.mark.parametrize(
    ("name", "module"), [("DPRegressionForest", training_set), ("DPRandomForestClassifier", classifier)]
)
def test_parts_of_exactly_equal_size_are_found(name, module, monkeypatch):
    monkeypatch.setattr(module, "disjoint_parts", equal_parts)
    assert replay(name, REPLAYS[name], pairs=200, seed=5, stops=True).is_refuted


def test_a_forest_on_the_same_records_that_forgets_to_divide_is_found(monkeypatch):
    monkeypatch.setattr(permute_and_flip_forest.PermuteAndFlipForest, "_num_parts", lambda self: 1)
    assert replay("PermuteAndFlipForest", REPLAYS["PermuteAndFlipForest"], pairs=200, seed=6, stops=True).is_refuted


def test_labels_that_are_counted_without_noise_are_found(monkeypatch):
    monkeypatch.setattr(classification.growing, "laplace", lambda values, **_: np.asarray(values, float))
    result = replay("DPRandomForestClassifier", REPLAYS["DPRandomForestClassifier"], pairs=100, seed=7, stops=True)
    assert result.largest == np.inf
    assert "what is published differs" in result.why
