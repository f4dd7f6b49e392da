"""The auditors refute what is wrong with Gaussian noise, and nothing that is right."""

from __future__ import annotations

import numpy as np
import pytest

from fedlearn.auditing import Verdict, audit_everything
from fedlearn.auditing.gaussian_cases import GAUSSIAN_CASES, GAUSSIAN_PLANTED_BUGS
from fedlearn.auditing.pairs import Pair
from fedlearn.auditing.replay import replay
from fedlearn.privacy import gaussian, secure_noise, seeded_noise, skellam
from fedlearn.privacy.accounts import GaussianRounds
from fedlearn.privacy.mechanisms.skellam import steps_of

CONFIDENCE = 1 - 1e-7  # secure noise has no seed: a sound mechanism is refuted once in ten million runs


@pytest.mark.parametrize("seed", [None, pytest.param(7, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", GAUSSIAN_CASES)
def test_a_sound_mechanism_stays_below_its_account_and_the_auditor_comes_near(name, seed):
    (result,) = audit_everything(20_000, seed, {name: GAUSSIAN_CASES[name]}, confidence=CONFIDENCE)
    assert result.verdict is Verdict.NOT_REFUTED
    assert result.measured > 0.4 * result.claimed


@pytest.mark.parametrize("name", GAUSSIAN_PLANTED_BUGS)
def test_a_planted_bug_is_refuted(name):
    (result,) = audit_everything(40_000, 3, {name: GAUSSIAN_PLANTED_BUGS[name]})
    assert result.verdict is Verdict.REFUTED


# --- the exact auditor: sums of clipped vectors, one row a node -------------------------------------------------------

CLIP, NOISE, ROUNDS = 2.0, 1.5, 3
STRANGE = np.array([0.0, 1.0, -3.0, 1e-3, 1e30, -1e308, 1e-310, np.inf, np.nan])


def clipped(vector, clip=CLIP):
    vector = np.where(np.isfinite(vector).all(), vector, 0.0)
    largest = np.abs(vector).max(initial=0.0)
    norm = largest * np.linalg.norm(vector / largest) if largest else 0.0
    return vector * min(1.0, clip / norm) if norm else vector


def sound(X, y):
    return [
        _noisy(sum((clipped(row) for row in np.roll(X, number, axis=1)), np.zeros(X.shape[1])))
        for number in range(ROUNDS)
    ]


def _noisy(total, noise_multiplier=NOISE):
    return gaussian(total, clip=CLIP, noise_multiplier=noise_multiplier, noise=secure_noise())


def a_parameter_is_not_clipped(X, y):
    return [
        _noisy(
            sum(
                (np.append(clipped(row[:-1]), np.nan_to_num(row[-1], posinf=9, neginf=-9)) for row in X),
                np.zeros(X.shape[1]),
            )
        )
    ]


def clipped_parameter_by_parameter(X, y):
    return [_noisy(sum((np.clip(np.nan_to_num(row), -CLIP, CLIP) for row in X), np.zeros(X.shape[1])))]


def weighted_by_examples(X, y):
    return [
        _noisy(sum((clipped(row) * weight for row, weight in zip(X, np.abs(y), strict=True)), np.zeros(X.shape[1])))
    ]


def clipped_after_the_noise(X, y):
    return [clipped(_noisy(sum(np.nan_to_num(X, posinf=9, neginf=-9), np.zeros(X.shape[1]))))]


def divided_by_those_who_came(X, y):
    return [_noisy(sum((clipped(row) for row in X), np.zeros(X.shape[1]))) / max(len(X), 1)]


def noise_of_a_seed(X, y):
    total = sum((clipped(row) for row in X), np.zeros(X.shape[1]))
    return [gaussian(total, clip=CLIP, noise_multiplier=NOISE, noise=seeded_noise(5))]


def a_number_of_nodes(X, y):
    return [*sound(X, y), len(X)]


def half_the_noise(X, y):
    return [_noisy(sum((clipped(row) for row in X), np.zeros(X.shape[1])), NOISE / 2)]


def no_noise(X, y):
    return [_noisy(sum((clipped(row) for row in X), np.zeros(X.shape[1])), 0.0)]


def a_round_too_many(X, y):
    return [answer for _ in range(2) for answer in sound(X, y)]


def drawn(publish, rounds=ROUNDS):
    def draw(rng):
        def row():
            return rng.choice(STRANGE, 4) if rng.random() < 0.5 else rng.normal(size=4) * 10.0 ** rng.integers(-3, 3)

        X = np.array([row() for _ in range(int(rng.integers(4)))]).reshape(-1, 4)
        mu = GaussianRounds(NOISE, rounds).gaussian_mu
        return Pair(publish, X, rng.integers(1, 5, len(X)) * 1.0, (row(), 2.0), claimed=0.0, claimed_mu=mu)

    return draw


def test_clipped_sums_lose_no_more_than_their_account_whatever_a_node_sends():
    result = replay("sound", drawn(sound), pairs=300)
    assert not result.is_refuted, str(result)
    assert result.largest == pytest.approx(1.0, abs=1e-9), "the account is used up"
    assert not result.missed
    assert not result.is_blind


@pytest.mark.parametrize(
    "publish",
    [a_parameter_is_not_clipped, clipped_parameter_by_parameter, weighted_by_examples, clipped_after_the_noise,
     divided_by_those_who_came, noise_of_a_seed, a_number_of_nodes, half_the_noise, no_noise],
)  # fmt: skip
def test_a_bug_of_clipped_sums_is_found(publish):
    rounds = ROUNDS if publish is a_number_of_nodes else 1
    assert replay(publish.__name__, drawn(publish, rounds), pairs=300, stops=True).is_refuted


def test_a_round_that_is_not_accounted_is_found():
    assert replay("rounds", drawn(a_round_too_many), pairs=300, stops=True).is_refuted


def of_shares(shares, reports):
    def publish(X, y):
        vectors = [X[number] if number < len(X) else np.zeros(4) for number in range(reports)]
        steps = [steps_of(vector, clip=CLIP, exponent=-12) for vector in vectors]
        return [
            skellam(each, sensitivity=CLIP * 2**12, noise_multiplier=NOISE, shares=shares, noise=secure_noise())
            for each in steps
        ]

    return publish


def test_shares_of_skellam_noise_lose_no_more_and_too_few_are_found():
    assert not replay("shares", drawn(of_shares(5, 5), 1), pairs=200).is_refuted
    assert replay("few", drawn(of_shares(5, 4), 1), pairs=200, stops=True).is_refuted
