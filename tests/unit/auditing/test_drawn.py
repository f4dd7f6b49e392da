"""Tests of recorded noise and coins: sound ones pass as often as is said, and each kind of mistake is found."""

from __future__ import annotations

import numpy as np
import pytest

from fedlearn.auditing import drawn
from fedlearn.auditing.bent import BENDS, Bent
from fedlearn.auditing.drawn import why_not_coins, why_not_noise
from fedlearn.privacy.noise import seeded_noise

RATE = 0.25


def noise_of(seed, calls=4, entries=2001):
    return np.random.default_rng(seed).standard_normal((calls, entries))


def coins_of(seed, rounds=300, nodes=24, rate=RATE):
    return np.random.default_rng(seed).random((rounds, nodes)) < rate


def test_sound_noise_and_coins_pass():
    for seed in range(100):
        assert not why_not_noise(noise_of(seed))
        assert not why_not_coins(coins_of(seed), RATE)


@pytest.mark.parametrize("shape", [(1, 40), (3, 300), (12, 64)])
def test_alarms_are_as_rare_as_the_level_says(monkeypatch, shape):
    monkeypatch.setattr(drawn, "LEVEL", 0.2)  # where it can be counted
    alarms = sum(bool(why_not_noise(noise_of([7, seed], *shape))) for seed in range(400))
    assert alarms <= 0.2 * 400


@pytest.mark.parametrize(("shape", "rate"), [((50, 10), 0.5), ((30, 30), 0.1), ((200, 3), 0.8)])
def test_alarms_about_coins_are_as_rare_as_the_level_says(monkeypatch, shape, rate):
    monkeypatch.setattr(drawn, "LEVEL", 0.2)
    alarms = sum(bool(why_not_coins(coins_of([7, seed], *shape, rate), rate)) for seed in range(400))
    assert alarms <= 0.2 * 400


@pytest.mark.parametrize("bend", BENDS.values(), ids=BENDS)
def test_each_kind_of_bent_noise_is_found(bend):
    bent = Bent(seeded_noise(3), bend, {})
    rows = np.array([bent.discrete_gaussian(2.0**40, (2001,)) for _ in range(3)])
    assert why_not_noise(rows / 2.0**40)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (lambda rows: rows * 0.7, "of what is claimed"),
        (lambda rows: rows + 0.3, "its mean"),
        (lambda rows: np.concatenate([rows[:2], rows[:2]]), "used again"),
        (lambda rows: np.concatenate([rows[:2], -rows[:2]]), "used again"),
        (lambda rows: np.sqrt(0.5) * (rows + np.roll(rows, 5, axis=1)), "at lag"),
        (lambda rows: np.concatenate([rows[:3], [(rows[0] + rows[1] + rows[2]) / np.sqrt(3)]]), "calls 1 and 4"),
        (lambda rows: rows * (np.arange(rows.shape[1]) != 17), "entry 17 has no noise"),
    ],
)
def test_other_mistakes_with_noise_are_named(kind, why):
    assert why in why_not_noise(kind(noise_of(5)))


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (lambda coins: np.repeat(coins[:, :1], coins.shape[1], axis=1), "two nodes have one coin"),
        (lambda coins: np.repeat(coins[::2], 2, axis=0), "the same node 1 rounds later"),
        (lambda coins: np.repeat(coins[:, ::2], 2, axis=1), "two nodes have one coin"),
        (lambda coins: np.concatenate([coins[:150], coins[:150]]), "the same node 150 rounds later"),
        (lambda coins: np.array([np.roll(coins[0], step) for step in range(len(coins))]), "correlate"),
        (lambda coins: coins | (np.arange(coins.shape[1]) == 3), "off the claimed rate"),
        (lambda coins: np.concatenate([coins[:, :-1], ~coins[:, :1]], axis=1), "correlate|rate"),
        (lambda coins: coins & np.roll(coins, 1, axis=0), "off the claimed rate"),
    ],
)
def test_mistakes_with_coins_are_named(kind, why):
    found = why_not_coins(kind(coins_of(5)), RATE)
    assert any(part in found for part in why.split("|"))


def test_two_equal_cohorts_are_found_where_chance_gives_none():
    coins = coins_of(1, 40, 60, 0.5)
    coins[31] = coins[4]
    assert why_not_coins(coins, 0.5) == "two rounds have one cohort"
