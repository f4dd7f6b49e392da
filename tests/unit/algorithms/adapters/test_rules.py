"""Rules for adapters: the mean of the products, or what a rule says of it; and planted mistakes are found by a law."""

from __future__ import annotations

import numpy as np
import pytest

from fedlearn.algorithms.adapters.factors import ERROR, Product, mean_of
from fedlearn.algorithms.adapters.fedit import FedIT
from fedlearn.algorithms.adapters.fedsa_lora import FedSALoRA
from fedlearn.algorithms.adapters.ffa_lora import FFALoRA
from fedlearn.algorithms.adapters.flexlora import FlexLoRA
from fedlearn.algorithms.adapters.flora import FLoRA
from fedlearn.algorithms.conformance import adapter_walks
from fedlearn.algorithms.conformance.adapter_problem import first, probe
from fedlearn.algorithms.conformance.laws import MISTAKES, judged, problem_of
from fedlearn.algorithms.conformance.walking import Walk
from fedlearn.core.errors import SettingError
from fedlearn.core.state import Sends, dense_update, layout_of
from strategies.base import At, Turn
from strategies.collected import Collected

A, B = "layer.lora_A.default.weight", "layer.lora_B.default.weight"
RNG = np.random.default_rng(0)
DOWNS, UPS = [RNG.normal(size=(2, 5)) for _ in range(4)], [RNG.normal(size=(6, 2)) for _ in range(4)]
FACTORS = list(zip(DOWNS, UPS, strict=True))
SHARES = np.array([0.1, 0.2, 0.3, 0.4])
MEAN = sum(share * b @ a for share, (a, b) in zip(SHARES, FACTORS, strict=True))
ZEROS = {A: np.zeros((2, 5)), B: np.zeros((6, 2))}


def turn_of(state, factors, sends=Sends.WEIGHTS, number=1):
    total = Collected.empty(layout_of(state))
    base = state if sends is Sends.UPDATE else dict.fromkeys(state, 0)
    for share, (a, b) in zip(SHARES, factors, strict=True):
        total.add([(10 * share, dense_update({A: a - base[A], B: b - base[B]}))])
    return Turn(state, total, sends, at=At(number, 1))


def error_of(state):
    return np.linalg.norm(state[B] @ state[A] - MEAN) / np.linalg.norm(MEAN)


@pytest.mark.parametrize("sends", list(Sends))
def test_factors_apart_are_off_by_what_is_measured(sends):
    step = FedIT().next_state(turn_of(ZEROS, FACTORS, sends))
    assert error_of(step.state) == pytest.approx(0.7171, abs=5e-5)
    assert step.measured[ERROR.name] == pytest.approx(error_of(step.state), rel=1e-9)


@pytest.mark.parametrize("sends", list(Sends))
def test_singular_values_lose_the_rest_of_the_spectrum(sends):
    step = FlexLoRA().next_state(turn_of(ZEROS, FACTORS, sends))
    values = np.linalg.svd(MEAN, compute_uv=False)
    rest = np.sqrt((values[2:] ** 2).sum() / (values**2).sum())
    assert rest == pytest.approx(0.4149, abs=5e-5)
    assert error_of(step.state) == pytest.approx(rest, rel=1e-9)
    assert step.measured[ERROR.name] == pytest.approx(rest, rel=1e-9)


def test_stacks_are_exact_to_machine_precision():
    held = {A: RNG.normal(size=(5, 5)), B: np.zeros((6, 5))}
    state = {A: np.vstack([held[A], np.ones((2, 5))]), B: np.hstack([held[B], np.zeros((6, 2))])}
    nodes = [(np.vstack([held[A], a]), np.hstack([held[B], b])) for a, b in FACTORS]
    after = FLoRA(ranks=[2]).next_state(turn_of(state, nodes)).state
    assert error_of(after) < 1e-14
    assert not after[B][:, 5:].any()  # the slots that nodes train begin with B = 0
    later = FLoRA(ranks=[2]).next_state(turn_of(after, [(after[A], after[B])] * 4, number=2)).state
    assert error_of(later) < 1e-14


def test_a_small_matrix_has_the_singular_values_of_the_whole_one():
    thin = mean_of([(0.5, Product(b[:, :1], a[:1])) for a, b in FACTORS[:2]])
    whole = Product(thin.up @ thin.down, np.eye(5))
    for rank in (1, 2, 4):
        one, other = thin.refactored(rank), whole.refactored(rank)
        np.testing.assert_allclose(one.up, other.up, atol=1e-13)
        np.testing.assert_allclose(one.down, other.down, atol=1e-13)
    assert not one.up[:, 2:].any() and not one.down[2:].any()  # there is no noise beyond the rank


def test_a_slot_that_the_mean_does_not_fill_can_still_learn():
    state = {A: RNG.normal(size=(2, 5)), B: np.zeros((6, 2))}
    after = FlexLoRA().next_state(turn_of(state, [(state[A], np.outer(np.ones(6), [1.0, 0.0]))] * 4)).state
    assert not after[B][:, 1].any() and (after[A][1] == state[A][1]).all()


def test_nothing_reported_changes_nothing():
    for rule in (FedIT(), FlexLoRA(), FLoRA(ranks=[1])):
        step = rule.next_state(Turn(ZEROS, Collected.empty(layout_of(ZEROS)), Sends.WEIGHTS))
        assert step.state is ZEROS and step.measured[ERROR.name] is None


# --- laws -------------------------------------------------------------------------------------------------------------


def walked(rule, algorithm, law):
    """Return the walk of a rule, with nodes in plain numbers."""
    p = problem_of(algorithm, law)
    held = p.rank - max(p.ranks) if algorithm == "flora" else 0
    (down, up), states, weights = first(p.rank), [], p.weights
    for number in range(1, p.rounds + 1):
        state = {A: down, B: up}
        starts = [adapter_walks.cut(p, i, down, up, begin=held) for i in range(4)]
        nodes = [adapter_walks.steps_of(p, i, *start, still=held) for i, start in enumerate(starts)]
        total = Collected.empty(layout_of(state))
        total.add([(w, dense_update({A: a, B: b})) for w, (a, b) in zip(weights, nodes, strict=True)])
        after = rule(p).next_state(Turn(state, total, Sends.WEIGHTS, at=At(number, 1))).state
        down, up = after[A], after[B]
        states.append(probe(down, up))
    return Walk(states)


def of(kind):
    return lambda p: kind(ranks=p.ranks)


class Apart(FlexLoRA):
    """Meant to average products, and averages factors."""

    combined = FedIT.combined


class Transposed(FlexLoRA):
    """Takes the singular values of the transposed product."""

    def combined(self, sent, products, round_number):
        turned = [(share, Product(each.down.T, each.up.T)) for share, each in products]
        return mean_of(turned).refactored(len(sent.down))


class OwnScale(FlexLoRA):
    """Takes each product by alpha / r of the node's own rank."""

    def combined(self, sent, products, round_number):
        ranks = [each.up.any(0).sum() for _, each in products]
        scaled = [
            (share, each._replace(up=each.up * len(sent.down) / rank))
            for rank, (share, each) in zip(ranks, products, strict=True)
        ]
        return super().combined(sent, scaled, round_number)


@pytest.mark.parametrize(("name", "kind"), [("flexlora", FlexLoRA), ("flora", FLoRA)])
@pytest.mark.parametrize("law", ["walk", "ranks", "momentum"])
def test_a_rule_keeps_its_laws(name, kind, law):
    verdict = judged(name, law, walked(of(kind), name, law))
    assert verdict.holds, verdict.why


@pytest.mark.parametrize(
    ("slip", "word"), [(Apart, "mean of factors"), (Transposed, "transposed"), (OwnScale, "alpha / r")]
)
def test_a_planted_mistake_is_found_and_named(slip, word):
    verdict = judged("flexlora", "ranks", walked(of(slip), "flexlora", "ranks"))
    assert not verdict.holds
    assert MISTAKES["flexlora"][word] in verdict.why


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "state", "said"),
    [
        (FedIT(), {"head": np.zeros(2)}, "no sent parameter is named 'lora_A' beside one named 'lora_B'"),
        (FlexLoRA(ranks=[1, 3]), ZEROS, "has rank 2, which leaves clients at most 2"),
        (FLoRA(ranks=[2]), ZEROS, "has rank 2, which leaves clients at most 1"),
        (FlexLoRA(), {A: np.zeros((5, 2)), B: np.zeros((6, 2))}, "write A as (rank, in) and B as (out, rank)"),
        (FFALoRA(), ZEROS, "'ffa-lora' leaves A as it is: leave it out of training.send"),
        (FedSALoRA(), ZEROS, "'fedsa-lora' leaves B with the clients: name it by training.personal"),
    ],
)
def test_a_state_that_a_rule_cannot_use_is_one_line(rule, state, said):
    with pytest.raises(SettingError) as error:
        rule.parcels(state)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_own_names_are_given():
    state = {"a.down": np.zeros((2, 5)), "a.up": np.zeros((6, 2))}
    assert FlexLoRA(down="down", up="up", ranks=[1]).parcels(state)["ranks"]["ranks"].tolist() == [1]
