"""The contract of every selector, and the behavior of each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.config import config_from
from fedlearn.core.cohort import At
from fedlearn.core.seeding import rng_for
from server.selectors import SELECTORS, Participation, load_selector, remember, selector_memory
from server.selectors.oort import Oort
from server.selectors.power_of_choice import PowerOfChoice
from server.selectors.tiers import Tiers

CLIENTS = 40
ALL = np.arange(CLIENTS)


def made(name, seed=1):
    return load_selector(config_from({"clients": CLIENTS, "seed": seed, "rounds.selector": name}))


@st.composite
def histories(draw):
    """Rounds, each of some nodes of which some have reported."""
    nodes = st.lists(st.integers(0, CLIENTS - 1), unique=True, max_size=12)
    rounds = draw(st.lists(nodes, max_size=4))
    loss = st.none() | st.floats(0, 1e6)
    return [
        [Participation(n, draw(st.integers(0, 50)), draw(loss), draw(st.none() | st.floats(0, 1e4))) for n in r]
        for r in rounds
    ]


@pytest.mark.parametrize("name", [name for name in SELECTORS if name != "poisson"])
@given(history=histories(), ready=st.sets(st.integers(0, CLIENTS - 1), min_size=1), data=st.data())
def test_a_selector_draws_as_many_as_are_wanted_and_nobody_twice(name, history, ready, data):
    selector = made(name)
    for number, took_part in enumerate(history, start=1):
        selector.learn(took_part, number)
    count = data.draw(st.integers(1, len(ready)))
    drawn = selector.draw(np.array(sorted(ready)), count, At(len(history) + 1, 1))
    assert len({*drawn}) == len(drawn) == count
    assert {*drawn} <= ready


@pytest.mark.parametrize("name", SELECTORS)
@given(history=histories())
def test_what_was_learned_is_all_that_a_draw_depends_on(name, history):
    first, again = made(name), made(name)
    for number, took_part in enumerate(history, start=1):
        first.learn(took_part, number)
    others = {"momentum": np.ones(2)}
    assert remember(again, {**others, **selector_memory(first)}) == others
    at = At(len(history) + 1, 2)
    assert list(first.draw(ALL, 7, at)) == list(again.draw(ALL, 7, at))


def test_poisson_draws_each_node_with_one_probability_independently_of_all_others():
    selector = made("poisson")
    drawn = [{*selector.draw(ALL, CLIENTS // 4, At(number, 1))} for number in range(1, 2001)]
    sizes = np.array([len(each) for each in drawn])
    rate = (CLIENTS // 4) / CLIENTS
    spread = np.sqrt(CLIENTS * rate * (1 - rate))
    assert abs(sizes.mean() - CLIENTS * rate) < 5 * spread / np.sqrt(2000)
    assert sizes.std() == pytest.approx(spread, rel=0.1)  # a fixed cohort has none
    often = [sum(node in each for each in drawn) / 2000 for node in range(CLIENTS)]
    assert all(abs(each - rate) < 6 * np.sqrt(rate * (1 - rate) / 2000) for each in often)
    few = ALL[:3]
    assert {*selector.draw(few, CLIENTS // 4, At(1, 1))} == {*few.tolist()} & drawn[0]  # others change nothing


def test_the_draw_of_poisson_is_as_secret_as_the_noise():
    settings = {"rounds.selector": "poisson", "privacy.noise": "secure"}
    first, second = (load_selector(config_from(settings)) for _ in range(2))
    assert [*first.draw(np.arange(100), 50, At(1, 1))] != [*second.draw(np.arange(100), 50, At(1, 1))]


@given(ready=st.sets(st.integers(0, CLIENTS - 1), min_size=3), attempt=st.integers(1, 9))
def test_without_a_choice_nodes_are_drawn_uniformly_at_random(ready, attempt):
    places = rng_for(1, purpose="cohort", round_number=2, attempt=attempt).choice(len(ready), 3, replace=False)
    drawn = made("uniform").draw(np.array(sorted(ready)), 3, At(2, attempt))
    assert sorted(drawn) == sorted(sorted(ready)[place] for place in places)


def test_what_is_stored_grows_with_the_nodes_that_took_part():
    selector = PowerOfChoice(clients=1_000_000, seed=1)
    selector.learn([Participation(999_999, 10, 0.5, None), Participation(7, 10, None, 2.0)], 1)
    assert all(len(array) == 2 for array in selector_memory(selector).values())


def test_power_of_choice_takes_the_largest_losses_and_whoever_is_new():
    selector = PowerOfChoice(clients=6, seed=1, candidates=2.0)
    selector.learn([Participation(node, 10, loss, 1.0) for node, loss in enumerate([0.1, 0.9, 0.5, 0.7, 0.2])], 1)
    assert {*selector.draw(np.arange(6), 3, At(2, 1))} == {1, 3, 5}


def test_power_of_choice_draws_candidates_by_their_data():
    selector = PowerOfChoice(clients=2, seed=1, candidates=1.0)
    selector.learn([Participation(0, 90, 1.0, 1.0), Participation(1, 10, 1.0, 1.0)], 1)
    drawn = [selector.draw(np.arange(2), 1, At(number, 1))[0] for number in range(2, 1002)]
    assert np.mean(drawn) == pytest.approx(0.1, abs=0.03)


def test_oort_values_loss_times_examples_and_slow_nodes_less():
    selector = Oort(clients=4, seed=1, preferred=0.5, alpha=2.0)
    took_part = [
        Participation(0, 10, 1.0, 1.0),
        Participation(1, 10, 3.0, 1.0),
        Participation(2, 10, 3.0, 2.0),
        Participation(3, 10, None, None),
    ]
    selector.learn(took_part, 1)
    utility = selector.utility(np.arange(4), 1)
    # Rewards 10, 30, 30, 0 of which the 95 % quantile is 30; median of the seconds 1.
    assert utility.tolist() == pytest.approx([1 / 3, 1.0, 0.25, 0.0])


def test_oort_explores_less_and_less():
    selector = Oort(clients=CLIENTS, seed=1, explore=0.9, decay=0.5, least=0.2)
    selector.learn([Participation(node, 10, 1.0, 1.0) for node in range(20)], 1)
    new = [sum(node >= 20 for node in selector.draw(ALL, 10, At(number, 1))) for number in (1, 2, 3, 9)]
    assert new == [9, 4, 2, 2]


def test_tiers_takes_nodes_of_one_speed_once_all_are_known():
    selector = Tiers(clients=CLIENTS, seed=1, tiers=4)
    selector.learn([Participation(node, 10, 1.0, float(node)) for node in range(30)], 1)
    assert {*selector.draw(ALL, 10, At(2, 1))} == {*range(30, 40)}
    selector.learn([Participation(node, 10, 1.0, float(node)) for node in range(30, 40)], 2)
    tiers = [{node // 10 for node in selector.draw(ALL, 5, At(number, 1))} for number in range(3, 60)]
    assert all(len(tier) == 1 for tier in tiers)
    assert set.union(*tiers) == {0, 1, 2, 3}


def test_no_draw_of_ranked_depends_on_another_node_and_all_are_drawn_as_often():
    selector, often = made("ranked"), np.zeros(CLIENTS)
    for number in range(1, 401):
        at = At(number, 1)
        drawn = [*selector.draw(ALL, 8, at)]
        often[drawn] += 1
        absent = number % CLIENTS
        others = [*selector.draw(np.setdiff1d(ALL, absent), 8, at)]
        left = [node for node in drawn if node != absent]
        assert others[: len(left)] == left and len(others) == 8 and absent not in others
    assert often.min() > 0.5 * often.mean() and often.max() < 1.5 * often.mean()  # 80 each, give or take 8
    assert [*selector.draw(ALL, 8, At(1, 2))] != [*selector.draw(ALL, 8, At(1, 1))]
