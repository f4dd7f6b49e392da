"""Regressions with noise: what a record adds, what a run pays, and what is said where there is too much noise."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fedlearn
from fedlearn.config import config_from
from fedlearn.core.errors import RunFailed, SettingError
from fedlearn.data.data_spec import Examples
from fedlearn.models import load_model
from fedlearn.statistics import fit
from fedlearn.statistics.column_histograms import UNIT
from tests.oracles.studies import patients, table
from tests.oracles.sums import federated

COLUMNS = ["age", "dose", "sex"]
FRAME = patients(5000, seed=6)
KINDS = {
    "logit": (table(FRAME, "sick", COLUMNS), {}),
    "normal": (table(FRAME, "score", COLUMNS), {}),
    "poisson": (table(FRAME, "visits", [*COLUMNS, "years"]), {"offset": "years"}),
}


def noisy(family, epsilon, rows=5000, **settings):
    data, options = KINDS[family]
    rounds = 1 if family == "normal" else 2
    given = {"privacy.epsilon": epsilon, "privacy.noise": "seeded", "clients": 4, "rounds.total": rounds}
    config = config_from({**given, "rounds.cohort": 0, "gate.max_examples": 10_000, **settings})
    model = load_model("dp-glm", data.spec, json.dumps({"family": family, **options})).planned(config)
    return model, federated(model, config, data.train, np.array_split(np.arange(rows), 4))


@pytest.mark.parametrize("family", KINDS)
def test_with_much_epsilon_the_answer_is_within_the_error_of_sampling(family):
    data, options = KINDS[family]
    exact = fit("glm", data, family=family, **options).table("coefficients")
    model, state = noisy(family, 1000.0)
    found = model.fitted(state).table("coefficients")
    assert found.index.tolist() == exact.index.tolist()
    assert ((found["coef"] - exact["coef"]).abs() < 2 * exact["std err"]).all()
    assert (found["std err"] / exact["std err"]).between(0.9, 1.7).all()


@pytest.mark.parametrize("family", KINDS)
def test_no_record_adds_more_than_a_unit_whatever_the_sums_before(family):
    data, options = KINDS[family]
    config = config_from({"privacy.epsilon": 5.0, "rounds.total": 3})
    model = load_model("dp-glm", data.spec, json.dumps({"family": family, **options})).planned(config)
    rng, width = np.random.default_rng(1), data.train.inputs.shape[1]
    sex = data.schema.features.index("sex")
    for scale in (0.0, 1e3, 1e7, 1e12):
        rounds = 2 if scale else 0
        sums = rng.normal(0, scale, rounds * model.length(1)).astype(np.int64)
        state = {"sums": sums, "reports": np.ones(rounds, np.int64)}
        for _ in range(40):
            inputs = rng.choice([np.nan, -np.inf, np.inf, -1e9, 0.0, 1.0, 20.0, 55.5, 90.0], (1, width))
            inputs[0, sex] = rng.choice([0.0, 1.0])
            record = Examples(inputs, rng.choice([0.0, 1.0], 1))
            assert np.abs(model.asked(state, record)).sum() <= UNIT == model.unit(1)


def test_a_record_whose_columns_reach_as_far_as_counts_in_full_adds_a_unit():
    """Sizes of its columns: 1 for age, .2 for dose, 0 for sex; its outcome is the largest that is declared."""
    data, _ = KINDS["normal"]
    model = load_model("dp-glm", data.spec, json.dumps({"family": "normal"}))
    values = {"age": 90.0, "dose": 3.0, "sex": 0.0}
    record = Examples(np.array([[values[name] for name in data.schema.features]]), np.array([30.0]))
    assert 0.98 * UNIT < np.abs(model.asked(model.initial_state(seed=1), record)).sum() <= UNIT


def test_what_a_round_costs_is_booked_before_it_and_comes_to_the_budget(tmp_path):
    settings = {"privacy.epsilon": 4.0, "engine.name": "inline", "model.options.columns": ["age", "dose"]}
    run = fedlearn.run(
        clients=3, data=KINDS["logit"][0], model="dp-glm", settings=settings, out=tmp_path, progress=False
    )
    assert run.summary["rounds"] == 2 and run.summary["epsilon"] == pytest.approx(4.0)
    answer = run.model()
    assert answer.facts["records"] == pytest.approx(5000, abs=1000) and answer.forest == "odds ratio"
    assert any("contain the noise" in note for note in answer.notes)


def test_too_much_noise_ends_the_fit_with_one_line_and_costs_one_round(tmp_path):
    settings = {"privacy.epsilon": 0.01, "engine.name": "inline"}
    with pytest.raises(RunFailed, match="the noise of round 1 is too large") as failed:
        fedlearn.run(clients=3, data=KINDS["logit"][0], model="dp-glm", settings=settings, out=tmp_path, progress=False)
    assert "\n" not in str(failed.value)


def test_less_epsilon_makes_wider_intervals():
    widths = []
    for epsilon in (1.0, 4.0, 1000.0):
        model, state = noisy("logit", epsilon)
        found = model.fitted(state).table("coefficients")
        widths.append((found["97.5%"] - found["2.5%"]).mean())
    assert widths[0] > 1.1 * widths[1] > 1.1 * widths[2]


@pytest.mark.parametrize("option", ["weights", "l2", "clustered", "least_count"])
def test_options_that_noise_does_not_go_with_are_refused(option):
    with pytest.raises(SettingError, match=rf"model\.options\.{option}"):
        load_model("dp-glm", KINDS["logit"][0].spec, json.dumps({option: 1}))
