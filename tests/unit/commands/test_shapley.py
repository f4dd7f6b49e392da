"""The laws of Shapley values, on games by hand."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest

from fedlearn.commands.shapley import leave_one_out, sampled, shapley

PLAYERS = [2, 3, 5, 7, 11]


def random_game(seed, players=PLAYERS):
    rng = np.random.default_rng(seed)
    coalitions = chain.from_iterable(combinations(players, size) for size in range(len(players) + 1))
    values = {frozenset(each): float(rng.normal()) for each in coalitions}
    return values.__getitem__


def values_of(players, game):
    return {player: share.value for player, share in shapley(players, game).items()}


@pytest.mark.parametrize("seed", range(5))
def test_the_values_are_efficient_and_additive(seed):
    one, two = random_game(seed), random_game(seed + 100)
    of_one, of_two = values_of(PLAYERS, one), values_of(PLAYERS, two)
    everyone = frozenset(PLAYERS)
    assert sum(of_one.values()) == pytest.approx(one(everyone) - one(frozenset()), abs=1e-9)
    both = values_of(PLAYERS, lambda coalition: one(coalition) + 3 * two(coalition))
    assert both == pytest.approx({player: of_one[player] + 3 * of_two[player] for player in PLAYERS}, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_alike_players_get_the_same_and_a_dummy_nothing(seed):
    game = random_game(seed, [2, 3, 5])
    copied = values_of([2, 3, 5, 6], lambda c: game(frozenset(min(each, 5) for each in c)))  # 6 is a copy of 5
    assert copied[5] == pytest.approx(copied[6], abs=1e-9)
    with_dummy = values_of([*PLAYERS, 13], lambda c: random_game(seed)(c - {13}))
    assert with_dummy[13] == 0
    assert {each: with_dummy[each] for each in PLAYERS} == pytest.approx(
        values_of(PLAYERS, random_game(seed)), abs=1e-9
    )


def test_known_games():
    gloves = values_of([0, 1, 2], lambda c: float(2 in c and bool(c & {0, 1})))  # two left ones, one right
    assert gloves == pytest.approx({0: 1 / 6, 1: 1 / 6, 2: 4 / 6}, abs=1e-9)
    runway = values_of([0, 1, 2], lambda c: max((10.0 * (each + 1) for each in c), default=0.0))  # Littlechild, Owen
    assert runway == pytest.approx({0: 10 / 3, 1: 10 / 3 + 5, 2: 10 / 3 + 5 + 10}, abs=1e-9)
    assert leave_one_out([0, 1, 2], lambda c: max((10.0 * (each + 1) for each in c), default=0.0)) == {
        0: 0,
        1: 0,
        2: 10,
    }


def test_permutations_estimate_the_values_within_their_errors_and_divide_all_of_the_gain():
    game = random_game(7)
    exact = values_of(PLAYERS, game)
    found = sampled(PLAYERS, game, permutations=2000, seed=3)
    assert found == sampled(PLAYERS, game, permutations=2000, seed=3)
    off = [(found[each].value - exact[each]) / found[each].error for each in PLAYERS]
    assert max(map(abs, off)) < 4
    gain = game(frozenset(PLAYERS)) - game(frozenset())
    assert sum(share.value for share in found.values()) == pytest.approx(gain, abs=1e-9)
    rough = sampled(PLAYERS, game, permutations=125, seed=3)
    assert rough[2].error / found[2].error == pytest.approx(4, rel=0.3)
