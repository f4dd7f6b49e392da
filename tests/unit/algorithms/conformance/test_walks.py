"""The walks have the numbers of the literature: two nodes, curvatures 1 and 3, targets 0 and 10, steps of 0.05."""

from dataclasses import replace

import pytest

from fedlearn.algorithms.conformance.laws import MISTAKES, expected, judged, problem_of
from fedlearn.algorithms.conformance.quadratics import Problem
from fedlearn.algorithms.conformance.walking import Walk
from fedlearn.algorithms.conformance.walks import WALKS
from fedlearn.plugins.tables import ADAPTERS, PRESETS
from strategies import STRATEGIES

P = Problem(rounds=400)
KNOWN = [  # algorithm, problem, round -> x
    ("fedavg", {}, {1: 2.78147, 400: 7.109072}),
    ("fedavg", {"steps": (1, 1)}, {400: 7.5}),
    ("fedavg", {"steps": (20, 20)}, {400: 5.997428}),
    ("fedavg", {"steps": (2, 10)}, {400: 8.917419}),
    ("fedprox", {"pull": 1.0, "rounds": 2000}, {2000: 7.112039}),
    ("scaffold", {}, {1: 2.78147, 2: 4.70157, 5: 6.95924, 10: 7.46600, 400: 7.5}),
    ("scaffold", {"steps": (2, 10)}, {1: 4.01563, 2: 5.53947, 5: 7.0488, 10: 7.45834, 400: 7.5}),
    ("scaffold", {"momentum": 0.9}, {1: 6.78152, 2: 7.50409, 3: 7.52629, 5: 7.50236, 10: 7.5}),
    ("fednova", {"steps": (2, 10)}, {1: 2.40938, 2: 3.88587, 5: 5.68496, 10: 6.17628, 400: 6.222763}),
    ("fednova", {"steps": (2, 10), "lr": 0.005, "rounds": 4000}, {4000: 7.376996}),
    ("feddyn", {"pull": 1.0}, {1: 5.0424, 2: 8.18344, 5: 8.46294, 10: 7.29075, 400: 7.5}),
    ("feddyn", {"pull": 0.1, "steps": (50, 50)}, {1: 9.67529, 2: 6.23918, 5: 5.89803, 10: 6.32919}),
    ("qfedavg", {"steps": (1, 1), "rounds": 20000}, {20000: 6.753335}),
    ("qfedavg", {"steps": (1, 1), "options": {"training.options.q": 0.0}}, {400: 7.5}),
]
WRONG = [
    ("scaffold", {}, "reversed", {1: 2.78147, 2: 4.24778, 5: 2.99, 10: -74.60959, 20: -35379.2308}),
    ("scaffold", {}, "not stored", {2: 6.76467, 5: 11.28305, 400: 7.10907}),
    ("scaffold", {"momentum": 0.9}, "divided by K lr", {2: 8.7611, 3: 6.2384, 5: 6.3132}),
    ("fednova", {"steps": (2, 10)}, "weights", {1: 2.40938, 12: 363.282}),
    ("feddyn", {"pull": 0.1, "steps": (50, 50)}, "mixed signs", {1: 4.3539, 2: 4.6665, 50: -50.8594}),
    ("feddyn", {"pull": 0.1, "steps": (50, 50)}, "no alpha y", {1: 9.997, 2: 6.6935, 400: 7.8947}),
]


@pytest.mark.parametrize(("algorithm", "changes", "states"), KNOWN)
def test_a_walk_has_the_known_numbers(algorithm, changes, states):
    walk = WALKS[algorithm](replace(P, **changes), "").states
    assert {number: walk[number - 1] for number in states} == pytest.approx(states, abs=1e-5)


@pytest.mark.parametrize(("algorithm", "changes", "wrong", "states"), WRONG)
def test_a_known_mistake_has_the_numbers_of_those_who_make_it(algorithm, changes, wrong, states):
    walk = WALKS[algorithm](replace(P, **changes), wrong).states
    assert {number: walk[number - 1] for number in states} == pytest.approx(states, rel=1e-4, abs=1e-4)


def test_dittos_own_models_end_between_their_targets_and_the_common_one():
    problem = replace(P, options={"training.options.pull": 1.0}, rounds=2000)
    assert WALKS["ditto"](problem, "").own == pytest.approx([3.554536, 9.277268], abs=1e-6)


@pytest.mark.parametrize(("algorithm", "word"), [(name, word) for name in MISTAKES for word in MISTAKES[name]])
def test_a_mistake_is_named(algorithm, word):
    laws = ("walk", "unequal steps", "momentum", "weak pull", "optimum", "optimum, unequal sizes")
    verdicts = []
    if algorithm == "decomfl":
        laws = STRATEGIES.load(algorithm).laws
    for law in ("walk", "ranks", "momentum") if algorithm in ADAPTERS else laws:
        problem = problem_of(algorithm, law)
        walk = WALKS[algorithm](problem, word)
        verdicts.append(judged(algorithm, law, Walk(walk.states, problem.losses(walk.own))))
    assert any(MISTAKES[algorithm][word] in verdict.why for verdict in verdicts)
    assert not all(verdict.holds for verdict in verdicts)


@pytest.mark.parametrize("algorithm", sorted({*PRESETS, "fedavg", "fedyogi"} & set(WALKS)))
def test_the_walk_itself_passes(algorithm):
    wanted = expected(algorithm, "walk")
    assert judged(algorithm, "walk", Walk(wanted.states)).holds


def test_a_walk_that_stops_or_is_no_number_fails():
    wanted = expected("fedavg", "walk").states
    assert not judged("fedavg", "walk", Walk(wanted[:-1])).holds
    assert not judged("fedavg", "walk", Walk([*wanted[:-1], float("nan")])).holds
    assert not judged("scaffold", "optimum", Walk([float("nan")] * 60)).holds
