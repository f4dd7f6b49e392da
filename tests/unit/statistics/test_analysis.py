"""What all analyses have in common: whole numbers within their bounds, sums of nodes, ends with one line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedlearn.config import config_from
from fedlearn.core.errors import Refused, RunFailed, SettingError, UsageError
from fedlearn.core.state import layout_of
from fedlearn.data.data_spec import DataSpec, Examples
from fedlearn.models import MODELS, load_model
from fedlearn.models.model import Analyzing, Finishing
from fedlearn.statistics import fit
from fedlearn.statistics.analysis import BITS, cap_of
from tests.oracles.studies import leukemia, leukemia_table, patients, table

COLUMNS = ["age", "dose", "sex", "ward"]
FRAME = patients(300, missing=0.05)
SURVIVAL = table(FRAME, "weeks", [*COLUMNS, "died"])
CASES = {
    "describe": ("describe", table(FRAME, "score", [*COLUMNS, "sick"]), '{"by": "sex", "bins": 5}'),
    "logit": ("glm", table(FRAME, "sick", COLUMNS), '{"clustered": true}'),
    "Poisson": ("glm", table(FRAME, "visits", [*COLUMNS, "years"]), '{"family": "poisson", "offset": "years"}'),
    "normal": ("glm", table(FRAME, "score", COLUMNS), '{"family": "normal"}'),
    "Kaplan-Meier": ("kaplan-meier", SURVIVAL, '{"event": "died", "by": "ward"}'),
    "Breslow": ("cox", SURVIVAL, '{"event": "died", "ties": "breslow", "strata": "ward"}'),
    "Efron": ("cox", SURVIVAL, '{"event": "died"}'),
    "by site": ("cox", SURVIVAL, '{"event": "died", "clustered": true, "score_cells": 20}'),
}
ODD = np.array(
    [[np.nan] * 5, [np.inf, -np.inf, 7.5, -1.0, 0.0], [1e30, -1e30, 1.0, 2.0, 1.0], [55.0, 2.0, 0.0, 0.0, 1.0]]
)


@pytest.fixture(params=CASES)
def case(request):
    name, data, options = CASES[request.param]
    return load_model(name, data.spec, options), data.train


def states(model, tables, rounds=3):
    """Yield the state before each round."""
    state = model.initial_state(seed=1)
    for _ in range(rounds):
        if model.finished(state).why:
            return
        yield state
        sums = np.sum([model.asked(state, each) for each in tables], axis=0)
        state = {"sums": np.append(state["sums"], sums), "reports": np.append(state["reports"], len(tables))}


def test_the_rows_of_analyses_go_with_sums_and_hold_no_row_out():
    rows = [MODELS[name] for name in ("describe", "glm", "kaplan-meier", "cox")]
    assert all(row.sums and row.all_rows and not row.is_private and row.strategy == "sums" for row in rows)


def test_no_record_adds_more_than_its_share_to_any_sum_in_any_round(case):
    model, train = case
    odd = Examples(ODD[:, : train.inputs.shape[1]], np.resize(train.targets, len(ODD)))
    for state in states(model, [train]):
        for rows in (odd, train.at(slice(0, 40))):
            parts = np.array([model.asked(state, rows.at(slice(at, at + 1))) for at in range(len(rows))])
            assert 0 < np.abs(parts).max() <= model.cap
            if not getattr(model, "clustered", False):
                np.testing.assert_array_equal(parts.sum(axis=0), model.asked(state, rows))


def test_sums_of_nodes_are_those_of_one_table_also_with_a_node_that_has_nothing(case):
    model, train = case
    shards = [*np.array_split(np.random.default_rng(1).permutation(len(train)), 4), np.zeros(0, int)]
    for state in states(model, [train]):
        sums = sum(model.asked(state, train.at(rows)) for rows in shards)
        whole = model.asked(state, train)
        own = len(whole) - (model._products if getattr(model, "clustered", False) else 0)
        np.testing.assert_array_equal(sums[:own], whole[:own])


def test_no_sum_of_the_largest_federation_leaves_its_bits(case):
    model, _ = case
    config = config_from({"clients": 40, "rounds.cohort": 0})
    planned = model.planned(config)
    numbers = planned.whole_numbers(layout_of(model.initial_state(seed=1)), max_examples=10**7, nodes=40)
    assert numbers.largest * 40 < 2**BITS and numbers.modulus_bits <= 63
    assert planned.cap == cap_of(40, 10**7) == 2**32


def test_a_report_that_no_honest_node_sends_is_refused(case):
    model, train = case
    state = model.initial_state(seed=1)
    sums, before = model.asked(state, train), layout_of(state)
    good = {"sums": sums, "reports": np.ones(1, np.int64)}
    model.check_sums(good, before=before, max_examples=len(train))
    bad = {
        "too-large": good | {"sums": np.full_like(sums, len(train) * model.cap + 1)},
        "wrong-shape": good | {"sums": sums[:-1]},
        "wrong-dtype": good | {"sums": sums.astype(float)},
        "wrong-count": good | {"reports": np.array([2])},
        "wrong-names": {"sums": sums},
    }
    for why, arrays in bad.items():
        with pytest.raises(Refused, match=f"^{why}"):
            model.check_sums(arrays, before=before, max_examples=len(train))


def test_a_node_that_leaves_ends_the_fit_and_no_other_node_answers():
    name, data, options = CASES["Efron"]
    model = load_model(name, data.spec, options)
    assert isinstance(model, Finishing) and isinstance(model, Analyzing)
    *_, state = states(model, [data.train] * 3, rounds=3)
    model.check_state(state)
    fewer = state | {"reports": np.array([3, 2])}
    ended = model.finished(fewer)
    assert ended.is_failure and "round 2 has sums of 2 clients, round 1 of 3" in ended.why and "\n" not in ended.why
    with pytest.raises(Refused, match="wrong-count"):
        model.check_state(fewer)
    with pytest.raises(UsageError, match="a client that leaves"):
        model.fitted(fewer)


def test_what_followed_from_other_sums_is_not_remembered():
    name, data, options = CASES["logit"]
    model = load_model(name, data.spec, options)
    states_of = {rows: list(states(model, [data.train.at(slice(0, rows))])) for rows in (100, 300)}
    for rows in (100, 300, 100):
        fresh = load_model(name, data.spec, options)
        for state in reversed(states_of[rows]):
            np.testing.assert_array_equal(model._climb(state).at, fresh._climb(state).at)


def test_records_left_out_and_values_beyond_their_bounds_are_counted():
    frame = patients(100).assign(age=lambda rows: rows.age.where(rows.index > 4, 200.0))
    frame.loc[10:12, "dose"] = None
    notes = fit("glm", table(frame, "sick", ["age", "dose"])).notes
    assert "3 records are left out, as they lack dose (3)" in notes
    assert "values outside the declared bounds were moved to the nearer bound: age (5)" in notes


# --- ends with one line -----------------------------------------------------------------------------------------------


def fails(model, frame, target, columns, **options):
    with pytest.raises(RunFailed) as failed:
        fit(model, table(frame, target, columns), **options)
    assert "\n" not in str(failed.value)
    return str(failed.value)


def test_a_separated_outcome_is_named_and_a_penalty_helps():
    frame = patients(200).assign(sick=lambda f: np.where(f.age > 50, "yes", "no"))
    assert "'age' separates the outcome" in fails("glm", frame, "sick", ["age", "dose"])
    drawn = fit("glm", table(frame, "sick", ["age", "dose"]), l2=1.0).table("coefficients")
    assert 0 < drawn.loc["age", "coef"] < 5
    alone = patients(200).assign(died=lambda f: np.where(f.sex == "m", "yes", "no"))
    assert "'sex: m' separates the outcome" in fails("cox", alone, "weeks", ["sex", "died"], event="died")


def test_columns_that_tell_nothing_are_named():
    frame = patients(100)
    assert "'ward: c' is the same in all" in fails("glm", frame[frame.ward != "c"], "sick", ["age", "ward"])
    same = frame.assign(dose=(frame.age - 20) / 14)
    assert "follow from one another" in fails("glm", same, "sick", ["age", "dose"])
    assert "there is nothing to fit" in fails("cox", frame.assign(died="no"), "weeks", ["age", "died"], event="died")
    assert "there is nothing to fit" in fails("glm", frame.assign(age=None), "sick", ["age"])


def test_one_class_at_all_nodes_is_separated_by_the_intercept():
    assert "separates the outcome" in fails("glm", patients(100).assign(sick="yes"), "sick", ["age"])


def test_sums_that_cannot_hold_a_standard_error_are_refused_before_the_round():
    """Ages from -10,000 to 10,000 are declared: e to the power of 150 might be in a sum."""
    data = table(patients(200), "visits", ["age", "years"])
    schema = replace(data.schema, bounds=data.schema.bounds | {"age": (-1e4, 1e4)})
    model = load_model("glm", replace(data.spec, table=schema), '{"family": "poisson"}')
    *_, state = states(model, [data.train], rounds=40)
    sums = model.asked(state, data.train)
    ended = model.finished({"sums": np.append(state["sums"], sums), "reports": np.append(state["reports"], 1)})
    assert ended.is_failure and "declare tighter bounds, or a smaller gate.max_examples" in ended.why
    assert len(state["reports"]) < 12


@pytest.mark.parametrize(
    ("model", "target", "options", "setting"),
    [
        ("glm", "weeks", {}, r"model\.options\.outcome"),
        ("glm", "sick", {"family": "normal"}, r"model\.options\.outcome"),
        ("glm", "sick", {"columns": ["agee"]}, r"model\.options\.columns.*did you mean age"),
        ("glm", "sick", {"reference": {"ward": "x"}}, r"model\.options\.reference"),
        ("glm", "sick", {"reference": {"age": "a"}}, r"model\.options\.reference"),
        ("glm", "sick", {"offset": "sex"}, r"model\.options\.offset"),
        ("glm", "sick", {"l2": -1}, r"model\.options\.l2"),
        ("cox", "weeks", {}, r"model\.options\.event"),
        ("cox", "weeks", {"event": "ward"}, r"model\.options\.event.*two categories"),
        ("cox", "weeks", {"event": "sex", "step": 1e-6}, r"model\.options\.step"),
        ("cox", "weeks", {"event": "sex", "ties": "exact"}, r"model\.options\.ties"),
        ("kaplan-meier", "weeks", {"event": "sex", "by": "age"}, r"model\.options\.by"),
        ("kaplan-meier", "sick", {"event": "sex"}, r"model\.options\.duration"),
        ("describe", "weeks", {"by": "age"}, r"model\.options\.by"),
    ],
)
def test_options_that_cannot_be_are_refused_by_name(model, target, options, setting):
    with pytest.raises(SettingError, match=setting) as refused:
        fit(model, table(FRAME, target, COLUMNS), **options)
    assert "\n" not in str(refused.value)


def test_analyses_are_of_tables_alone_which_declare_the_same():
    with pytest.raises(SettingError, match="learns from tables"):
        load_model("cox", DataSpec("digits", (8, 8, 1), "uint8", classes=10), "{}")
    with pytest.raises(UsageError, match="declare different columns"):
        fit("describe", [leukemia_table(), SURVIVAL])
    with pytest.raises(UsageError, match="no analysis"):
        fit("dp-statistics", leukemia_table(leukemia()))
