"""The exact auditor on small claims of which the truth is known."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from fedlearn.auditing.pairs import Pair, drawn_records, public_of
from fedlearn.auditing.replay import as_bytes, loss_of, replay
from fedlearn.privacy import disjoint_parts, geometric, permute_and_flip, polya_share, secure_noise, seeded_noise

NOISE = secure_noise()


def pairs_of(publish, *, claimed=1.0, other=False):
    """Return what draws pairs of one feature."""

    def draw(rng):
        X, y = drawn_records(rng, [np.array([0.0, 1.0, np.nan])], np.array([0.0, 1.0]))
        one, two = ((rng.choice([0.0, 1.0], size=1), float(rng.integers(2))) for _ in range(2))
        return Pair(publish, X, y, one, claimed, other=two if other else None, at_front=rng.random() < 0.5)

    return draw


def histogram(X, y, epsilon=1.0):
    return geometric(np.bincount(y.astype(int), minlength=2), epsilon=epsilon, noise=NOISE)


def voted(X, y, epsilon=1.0):
    votes = np.bincount(y.astype(int), minlength=2)[None, :].astype(float)
    return permute_and_flip(votes, sensitivity=1.0, epsilon=epsilon, noise=NOISE, monotone=True)


@pytest.mark.parametrize("publish", [histogram, voted])
def test_a_sound_claim_stands_is_used_up_and_its_slip_is_seen(publish):
    result = replay("sound", pairs_of(publish), pairs=40)
    assert not result.is_refuted
    assert result.largest == pytest.approx(1)
    (caller,) = result.slips
    assert caller.startswith(publish.__name__)
    assert not result.missed


@pytest.mark.parametrize("publish", [histogram, voted])
def test_five_percent_more_than_claimed_is_refuted(publish):
    result = replay("slipped", pairs_of(lambda X, y: publish(X, y, epsilon=1.05)), pairs=40)
    assert result.is_refuted
    assert result.largest == pytest.approx(1.05)


def test_a_replaced_record_loses_twice_what_a_removed_one_does():
    result = replay("replaced", pairs_of(histogram, other=True, claimed=2.0), pairs=60)
    assert result.largest == pytest.approx(1)


def test_parts_compose_in_parallel():
    def publish(X, y):
        part = disjoint_parts(len(y), count=3, rng=np.random.default_rng())
        return [histogram(X, y[part == each]) for each in range(3)]

    result = replay("parts", pairs_of(publish), pairs=60)
    assert result.largest == pytest.approx(1)


@pytest.mark.parametrize(
    "leak",
    [
        lambda X, y: len(y),
        lambda X, y: y.mean() if len(y) else 0.0,
        lambda X, y: np.random.default_rng().random(),  # noise that is drawn past the mechanisms
        lambda X, y: histogram(X, y, epsilon=1.0 if len(y) % 2 else 0.5),
        lambda X, y: [histogram(X, y) for _ in range(len(y) % 2)],
        lambda X, y: [1, 2][len(y)],  # an error tells as well
    ],
)
def test_what_tells_neighbors_apart_without_any_answer_is_an_infinite_loss(leak):
    result = replay("leak", pairs_of(lambda X, y: (histogram(X, y), leak(X, y))), pairs=30)
    assert math.isinf(result.largest)
    assert result.why and result.why in str(result)


def test_parts_of_exactly_equal_size_do_not_compose_in_parallel():
    def publish(X, y):
        return [histogram(X, y[start::2]) for start in range(2)]

    assert replay("equal parts", pairs_of(publish), pairs=60).largest > 1.5


def test_the_same_seed_replays_the_same_and_another_name_something_else():
    first, again = (replay("a", pairs_of(voted), pairs=25, seed=3) for _ in range(2))
    assert (first.largest, first.slips) == (again.largest, again.slips)
    rows = [len(pairs_of(voted)(np.random.default_rng([3, seed])).y) for seed in range(5)]
    assert len(set(rows)) > 1


def test_a_slip_that_cannot_be_seen_is_said_to_be_missed():
    def publish(X, y):
        return [histogram(X, y, epsilon=0.5), histogram(X, np.zeros(0), epsilon=0.4)]

    result = replay("blind", pairs_of(publish), pairs=20)
    assert len(result.missed) == 1
    assert "slips not seen" in str(result)


def test_a_loss_is_the_same_in_either_direction():
    pair = Pair(histogram, np.zeros((3, 1)), np.zeros(3), (np.zeros(1), 1.0), 1.0)
    losses = [loss_of(pair, np.random.default_rng(seed)).share for seed in range(10)]
    assert losses == pytest.approx([1.0] * 10)


def test_bytes_tell_values_apart_to_the_last_bit():
    values = [0.0, -0.0, 1, "1", np.zeros(1), np.zeros(1, np.float32), np.zeros((1, 1)), {"a": 1}, [1], (1, 2), None]
    for first, second in itertools.combinations(values, 2):
        assert as_bytes(first) != as_bytes(second)
    assert as_bytes({"a": np.arange(3), "b": [1.5]}) == as_bytes({"a": np.arange(3), "b": [1.5]})


def test_all_that_a_fitted_estimator_holds_is_public_whatever_its_name():
    class Fitted:
        def __init__(self, hidden):
            self.table_, self.epsilon, self._secret = 1, 2, hidden

    assert public_of(Fitted(3)) == {"table_": 1, "epsilon": 2, "_secret": 3}
    assert as_bytes(Fitted(Fitted(3))) != as_bytes(Fitted(Fitted(4)))


def test_an_error_whatever_the_records_is_no_answer():
    result = replay("fails", pairs_of(lambda X, y: [][0]), pairs=3)
    assert "no result can be published, whatever the records: IndexError" in str(result)


def test_what_never_asks_a_mechanism_was_not_looked_at():
    result = replay("idle", pairs_of(lambda X, y: 1), pairs=3)
    assert result.is_blind and "no mechanism was asked" in str(result)


@dataclass
class Known:
    """Noise of a known seed that is said to be secure."""

    noise: Any
    is_secure: bool = True

    def discrete_laplace(self, scale, shape):
        return self.noise.discrete_laplace(scale, shape)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (lambda: Known(seeded_noise(0)), "secret randomness came twice"),
        (lambda: seeded_noise(np.random.SeedSequence()), "noise is seeded where it has to be secure"),
    ],
)
def test_noise_that_can_be_drawn_again_is_an_infinite_loss(source, why):
    result = replay("known", pairs_of(lambda X, y: geometric([len(y)], epsilon=1.0, noise=source())), pairs=3)
    assert math.isinf(result.largest) and why in result.why


def test_parts_that_can_be_drawn_again_are_an_infinite_loss():
    def publish(X, y):
        part = disjoint_parts(len(y), count=2, rng=np.random.default_rng(0))
        return [histogram(X, y[part == each]) for each in range(2)]

    assert "came twice" in replay("known parts", pairs_of(publish), pairs=3).why


@pytest.mark.parametrize(("reports", "largest"), [(3, 1.0), (4, 1.0), (2, math.inf)])
def test_a_sum_of_shares_is_private_if_there_are_as_many_as_were_divided_for(reports, largest):
    def draw(rng):
        pair = pairs_of(publish)(rng)
        return replace(pair, is_secret=False)

    def publish(X, y):
        counts = [[len(y)], *[[7]] * (reports - 1)]
        return sum(polya_share(each, epsilon=1.0, shares=3, noise=seeded_noise(1)) for each in counts)

    assert replay("shares", draw, pairs=3).largest == largest


def test_a_claim_may_be_what_was_published():
    def publish(X, y):
        return {"sent": histogram(X, y), "said": 0.5}

    draw = pairs_of(publish, claimed=lambda report: report["said"])
    assert replay("said", draw, pairs=5).largest == pytest.approx(2.0)
