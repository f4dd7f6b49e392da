"""The contract of every model of sums: a report is private by itself or a share, another layout is refused."""

from __future__ import annotations

from contextlib import nullcontext, suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.learners.sums_learner import SumsLearner
from fedlearn.core.errors import Refused, SettingError
from fedlearn.core.state import ArraySpec, UpdateKind, layout_of
from fedlearn.core.state_files import pack_state
from fedlearn.models import MODELS, load_model
from fedlearn.models.model import NOTHING, Planned, Summed
from fedlearn.models.sums import LARGEST
from tests.oracles import images
from tests.oracles.forests import CLASSIFICATION, REGRESSION, dataset
from tests.oracles.sums import config_of, federated, task_of

SHARDS = np.array_split(np.arange(300), 5)
NAMES = [name for name, row in MODELS.items() if row.sums and row.is_private]


def cases():
    """Yield each model with each kind of target that it takes."""
    for name in NAMES:
        for schema in (CLASSIFICATION, REGRESSION):
            with suppress(SettingError):  # as where it needs options: `tests/unit/statistics/test_private.py`
                yield load_model(name, dataset(schema).spec)


CASES = [pytest.param(m, id=f"{type(m).__name__}, {'classes' if m.schema.classes else 'numbers'}") for m in cases()]


@pytest.fixture(params=CASES)
def model(request):
    return request.param


def predicts(model):
    return bool(model.metrics.evaluated)


def settings(**changes):
    return config_of(**{"clients": 5, "privacy__epsilon": 2.0, "rounds__total": 4} | changes)


def reported(model, *, rows=SHARDS[0], state=None, round_number=1, node=0, **changes):
    learner = SumsLearner.from_settings(model, settings(**changes))
    state = model.initial_state(seed=1) if state is None else state
    return learner.fit(state, task_of(dataset(model.schema).train, rows, node, round_number))


def after(model, **changes):
    return federated(model, settings(**changes), dataset(model.schema).train, SHARDS)


def test_every_model_of_sums_brings_data_strategy_and_rounds_along():
    rows = [MODELS[name] for name in NAMES]
    assert all(r.dataset != "auto" and r.strategy == "sums" and r.rounds for r in rows)


def test_kind_learner_and_protocols(model):
    assert model.update_kind is UpdateKind.SUMS
    assert isinstance(model, Summed) and isinstance(model, Planned)
    assert model.learner == "sums"
    if predicts(model):
        assert model.metrics.best_by in ("accuracy" if model.schema.classes else "mae", "loss")


def test_initial_state_is_empty_and_predicts_what_nobody_has_to_learn(model):
    means = model.evaluate(model.initial_state(seed=1), dataset(model.schema).test).means
    assert set(means) == {metric.name for metric in model.metrics.evaluated}


def test_a_report_is_of_the_states_names_passes_the_check_and_survives_storing(model):
    state = model.initial_state(seed=1)
    for number in (1, 2):
        fit = reported(model, state=state, round_number=number)
        model.check_sums(fit.arrays, before=layout_of(state), max_examples=len(SHARDS[0]))
        pack_state(fit.arrays)
        assert (fit.num_examples, fit.arrays.keys()) == (1, state.keys())
        state = {name: np.concatenate([state[name], fit.arrays[name]]) for name in state}
        model.check_state(state)


def test_what_is_said_to_be_spent_is_what_the_rounds_have_cost(model):
    learner = SumsLearner.from_settings(model, settings())
    costs = [learner.cost(2.0, round_number=number) for number in range(1, 5)]
    if model.first_share == 1:
        assert costs == [2.0] * 4  # the ledger pays for one of them
    else:
        assert sum(costs) == pytest.approx(2.0)
    assert reported(model).metrics["epsilon"] == pytest.approx(costs[0])
    said = reported(model, state=dict(reported(model).arrays), round_number=2).metrics["epsilon"]
    assert said == pytest.approx(min(sum(costs[:2]), 2.0))


def test_noise_is_that_of_the_rounds_booked_epsilon_whatever_the_state_says(model):
    """A server that sends an early state in a cheap round gets the noise of that round."""
    learner = SumsLearner.from_settings(model, settings(rounds__total=50))
    booked = {n: learner.cost(2.0, round_number=n) for n in (1, 2)}
    spreads = {}
    for number in (1, 2):
        empty = np.zeros(0, np.int64)
        spreads[number] = reported(model, rows=empty, round_number=number, rounds__total=50).arrays["sums"].std()
    assert spreads[2] / spreads[1] == pytest.approx(booked[1] / booked[2], rel=0.3)


def test_public_sizes_double_the_loss_and_no_weight(model):
    fit = reported(model, privacy__public_sizes=True)
    alone = reported(model)
    assert fit.num_examples == len(SHARDS[0])
    assert fit.metrics["epsilon"] == pytest.approx(2 * alone.metrics["epsilon"])
    np.testing.assert_array_equal(fit.arrays["sums"], alone.arrays["sums"])


def test_secure_noise_is_never_twice_the_same(model):
    first, again = (reported(model, privacy__noise="secure").arrays["sums"] for _ in "12")
    assert (first != again).any()


def test_one_records_change_of_what_is_asked_is_at_most_the_sensitivity(model):
    state, data = model.initial_state(seed=1), dataset(model.schema).train
    for _ in range(3):
        whole, fewer = (model.asked(state, data.at(np.arange(first, 60))) for first in (0, 1))
        assert 0 < np.abs(whole - fewer).sum() <= model.sensitivity(state)
        state = {"sums": np.append(state["sums"], whole), "reports": np.append(state["reports"], 1)}


def test_records_lacking_everything_or_beyond_all_bounds_are_counted_as_declared(model):
    data = dataset(model.schema).train.at(np.arange(2))
    odd = type(data)(np.array([[np.nan] * 3, [np.inf, -np.inf, 7.5]]), data.targets)
    sums = model.asked(model.initial_state(seed=1), odd)
    assert 0 < np.abs(sums).sum() <= 2 * model.sensitivity(model.initial_state(seed=1))


def test_the_sum_of_all_nodes_is_what_one_node_with_all_records_counts(model):
    state, data = model.initial_state(seed=1), dataset(model.schema).train
    for _ in range(3):
        whole = model.asked(state, data.at(np.concatenate(SHARDS)))
        np.testing.assert_array_equal(sum(model.asked(state, data.at(rows)) for rows in SHARDS), whole)
        state = {"sums": np.append(state["sums"], whole), "reports": np.append(state["reports"], 1)}


def test_much_budget_learns_something(model):
    if not predicts(model):
        pytest.skip("an analysis predicts nothing")
    before = model.evaluate(model.initial_state(seed=1), dataset(model.schema).test).means
    planned = model.planned(config := settings(privacy__epsilon=500.0, rounds__total=8))
    state = federated(model, config, dataset(model.schema).train, SHARDS)
    means = planned.evaluate(state, dataset(model.schema).test).means
    if model.metrics.best_by == "loss":
        assert means["loss"] < before["loss"] - 0.03
    elif model.schema.classes:
        assert means["accuracy"] > before["accuracy"] + 0.2
    else:
        assert means["mae"] < 0.6 * before["mae"]


def test_a_state_is_read_by_the_plan_that_it_is_read_under(model):
    """What follows from a state is kept for the next node; not for another plan, nor for another state."""
    if model.metrics.best_by == "loss" or not predicts(model):
        pytest.skip("statistics are read as they are, whatever the noise")
    state = after(model)
    planned, other = model.planned(settings()), model.planned(settings(privacy__epsilon=1e-3))
    test = dataset(model.schema).test
    first = planned.evaluate(state, test).means
    assert other.evaluate(state, test).means != first
    assert planned.planned(settings(privacy__epsilon=1e-3)).evaluate(state, test) == other.evaluate(state, test)
    changed = {**state, "sums": state["sums"] * 3 // 2}
    assert planned.evaluate(changed, test).means != first
    assert planned.evaluate(state, test).means == first


def test_evaluation_of_parts_adds_up_to_that_of_the_whole(model):
    planned, state = model.planned(settings()), after(model)
    test = dataset(model.schema).test
    whole = planned.evaluate(state, test)
    parts = sum((planned.evaluate(state, test.at(slice(i, i + 20))) for i in (0, 20, 40)), NOTHING)
    assert parts.count == whole.count == 60
    assert parts.means == pytest.approx(whole.means)


# --- whose noise ------------------------------------------------------------------------------------------------------


def noise_in_sums(model, **changes):
    nobody = [np.zeros(0, np.int64)] * 5
    return federated(model, settings(rounds__total=1, **changes), dataset(model.schema).train, nobody)


@pytest.mark.parametrize("silent", [(), (1, 3)])
def test_the_variance_that_steps_are_shrunk_by_is_that_of_the_noise(model, silent):
    for trust in ("local", "distributed"):
        config = settings(rounds__total=1, privacy__trust=trust, rounds__quorum=0.6, rounds__minimum_ready=1.0)
        nobody = [np.zeros(0, np.int64)] * 5
        squares = []
        for seed in range(8):
            state = federated(
                model, config.model_copy(update={"seed": seed}), dataset(model.schema).train, nobody, silent=silent
            )
            squares.append(float(np.square(state["sums"].astype(float)).mean()))
        (released,) = model.planned(config).released(state)
        assert np.mean(squares) == pytest.approx(released.variance, rel=0.5)


def test_distributed_noise_is_that_of_one_node_where_only_the_quorum_reports(model):
    config = settings(privacy__trust="distributed", rounds__quorum=0.6, rounds__minimum_ready=1.0)
    planned = model.planned(config)
    assert planned.plan.shares == 3
    state = {"sums": np.zeros(model.length(1), np.int64), "reports": np.array([3])}
    (promised,) = planned.released(state)
    (alone,) = model.planned(settings()).released(state | {"reports": np.array([1])})
    assert promised.variance == pytest.approx(alone.variance)


def test_a_node_refuses_a_state_to_which_fewer_have_reported_than_the_noise_needs(model):
    config = {"privacy__trust": "distributed", "rounds__quorum": 1.0, "rounds__minimum_ready": 1.0}
    state = dict(reported(model, **config).arrays) | {"reports": np.array([4])}
    with pytest.raises(Refused, match="wrong-count: from 4 to 4 reports"):
        reported(model, state=state, round_number=2, **config)
    reported(model, state=state | {"reports": np.array([5])}, round_number=2, **config)


# --- what comes from others -------------------------------------------------------------------------------------------

BAD_STATES = {
    "wrong-names": lambda s: {"sums": s["sums"]},
    "wrong-dtype": lambda s: s | {"sums": s["sums"].astype(float) * np.nan},
    "wrong-shape": lambda s: s | {"sums": s["sums"][:-1]},
    "wrong-shape: reports has shape ()": lambda s: s | {"reports": np.array(1), "sums": s["sums"]},
    "wrong-count": lambda s: s | {"reports": np.array([0])},
    "wrong-count: from -5": lambda s: s | {"reports": np.array([-5])},
    "wrong-count: from 2097152": lambda s: s | {"reports": np.array([2**21])},
    "too-large": lambda s: s | {"sums": np.full_like(s["sums"], np.iinfo(np.int64).min)},
}


@pytest.mark.parametrize("why", BAD_STATES)
def test_a_state_that_no_honest_server_sends_is_refused_by_the_node(model, why):
    state = dict(reported(model).arrays)
    with pytest.raises(Refused) as refused:
        reported(model, state=BAD_STATES[why](state), round_number=2)
    assert str(refused.value).startswith(why)


BAD_REPORTS = {
    "wrong-names": lambda r: r | {"more": r["sums"]},
    "wrong-dtype": lambda r: r | {"sums": r["sums"].astype(np.float64)},
    "wrong-shape": lambda r: r | {"sums": np.append(r["sums"], 0)},
    "wrong-shape: reports": lambda r: r | {"reports": np.array([1, 1])},
    "wrong-count: one report counts as 7": lambda r: r | {"reports": np.array([7])},
    "wrong-count: one report counts as 0": lambda r: r | {"reports": np.array([0])},
    "too-large": lambda r: r | {"sums": np.full_like(r["sums"], LARGEST + 1)},
    "too-large: a sum": lambda r: r | {"sums": np.full_like(r["sums"], np.iinfo(np.int64).min)},
}


MANY = 10**7


def check(model, arrays, *, max_examples=MANY):
    model.check_sums(arrays, before=layout_of(model.initial_state(seed=1)), max_examples=max_examples)


@pytest.mark.parametrize("why", BAD_REPORTS)
def test_a_report_that_no_honest_node_sends_is_refused(model, why):
    arrays = dict(reported(model).arrays)
    with pytest.raises(Refused) as refused:
        check(model, BAD_REPORTS[why](arrays))
    assert str(refused.value).startswith(why)


@pytest.mark.parametrize("model", CASES)
@pytest.mark.parametrize("trust", ["local", "distributed"])
@given(seed=st.integers(0, 2**32), epsilon=st.sampled_from([1e-6, 0.01, 1.0, 50.0]), examples=st.sampled_from([1, 60]))
def test_the_largest_honest_node_is_let_in_whatever_its_noise(model, trust, seed, epsilon, examples):
    """All of its records are alike, so that they lie in one cell, and it has as many as a node may have."""
    config = settings(seed=seed, privacy__epsilon=epsilon, privacy__trust=trust)
    learner, data = SumsLearner.from_settings(model, config), dataset(model.schema).train
    state = model.initial_state(seed=1)
    for number in (1, 2):
        fit = learner.fit(state, task_of(data, np.full(examples, seed % 300), 0, number, seed))
        learner.model.check_sums(fit.arrays, before=layout_of(state), max_examples=examples)
        sums = np.concatenate([state["sums"], fit.arrays["sums"]])
        state = {"sums": sums, "reports": np.full(number, learner.model.plan.shares)}


def test_what_is_let_in_is_little_more_than_records_and_noise_come_to(model):
    """So that the bound is one: noise itself goes a twelfth as far with one number, a quarter as far with all."""
    planned = model.planned(settings())
    empty = reported(model, rows=np.zeros(0, np.int64)).arrays["sums"]
    one, norm = planned.reach(1, max_examples=0)
    assert np.abs(empty).max() < one < 12 * np.abs(empty).max()
    assert np.abs(empty).sum() < norm < 4 * np.abs(empty).sum()
    more, wider = planned.reach(1, max_examples=1000)
    assert more - one == 1000 * planned.most_of_one(1)
    assert wider - norm == 1000 * planned.unit(1)


@pytest.mark.parametrize("beyond", [0, 1])
def test_what_is_let_in_ends_where_it_says(model, beyond):
    planned, (numbers, max_examples) = model.planned(settings()), (model.length(1), 10)
    one, norm = planned.reach(1, max_examples=max_examples)
    each, rest = divmod(norm + beyond, numbers)
    alone, spread = np.zeros((2, numbers), np.int64)
    alone[3] = -one - beyond
    spread[:] = each
    spread[:rest] += 1
    for word, sums in (("too-large", alone), ("norm-too-large", spread)):
        with pytest.raises(Refused, match=f"^{word}: ") if beyond else nullcontext():
            check(planned, {"sums": sums, "reports": np.ones(1, np.int64)}, max_examples=max_examples)


def test_noise_is_let_in_that_one_of_all_reports_of_a_run_may_draw(model):
    """More nodes or rounds draw more: each of their reports may go further."""
    few, many = (
        model.planned(settings(clients=nodes, privacy__epsilon=20.0)).reach(1, max_examples=0) for nodes in (5, 5000)
    )
    scale = model.unit(1) / (model.first_share * 20.0)
    assert many[0] - few[0] == pytest.approx(scale * np.log(1000), abs=1)
    assert many[1] - few[1] == pytest.approx(2 * scale * np.log(1000), abs=1)


def test_a_report_of_another_round_does_not_fit(model):
    later = {"sums": ArraySpec((model.length(1),), "int64"), "reports": ArraySpec((1,), "int64")}
    if model.length(2) == model.length(1):
        pytest.skip("all rounds ask for as many numbers")
    with pytest.raises(Refused, match="wrong-shape"):
        model.check_sums(reported(model).arrays, before=later, max_examples=MANY)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("option", ["epsilon", "schema", "bounds", "nonsense"])
def test_options_that_are_not_the_users_are_refused(name, option):
    with pytest.raises(SettingError, match=rf"model\.options\.{option} = 3: there (is|are) no"):
        load_model(name, dataset(CLASSIFICATION).spec, f'{{"{option}": 3}}')


@pytest.mark.parametrize("name", NAMES)
def test_images_are_refused(name):
    with pytest.raises(SettingError, match="learns from tables, and 'made' is none"):
        load_model(name, images.dataset().spec)


def test_naive_bayes_refuses_a_target_that_is_a_number():
    with pytest.raises(SettingError, match="the target 'y' of 'made' does not fit"):
        load_model("dp-naive-bayes", dataset(REGRESSION).spec)
