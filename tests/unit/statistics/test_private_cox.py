"""Cox regression with noise: what a record adds, what its standard errors contain, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import fedlearn
from fedlearn.config import config_from
from fedlearn.core.errors import RunFailed, SettingError
from fedlearn.data.data_spec import Examples
from fedlearn.models import load_model
from fedlearn.statistics import fit
from fedlearn.statistics.column_histograms import UNIT
from fedlearn.statistics.private_cox import Seen
from tests.oracles.studies import patients, table
from tests.oracles.sums import federated

COLUMNS = ["age", "dose", "sex", "died"]
OPTIONS = {"event": "died", "step": 2.0}
DATA = table(patients(5000, seed=6), "weeks", COLUMNS)


def noisy(epsilon, **settings):
    given = {"privacy.epsilon": epsilon, "privacy.noise": "seeded", "clients": 4, "rounds.total": 3}
    config = config_from({**given, "rounds.cohort": 0, "gate.max_examples": 10_000, **settings})
    model = load_model("dp-cox", DATA.spec, json.dumps(OPTIONS)).planned(config)
    return model, federated(model, config, DATA.train, np.array_split(np.arange(5000), 4))


def test_with_much_epsilon_the_answer_is_within_the_error_of_sampling():
    exact = fit("cox", DATA, **OPTIONS).table("coefficients")
    model, state = noisy(1000.0)
    found = model.fitted(state).table("coefficients")
    assert found.index.tolist() == exact.index.tolist()
    assert ((found["coef"] - exact["coef"]).abs() < 1.5 * exact["std err"]).all()
    assert (found["std err"] / exact["std err"]).between(0.95, 1.6).all()


def test_no_record_adds_more_than_a_unit_whatever_the_sums_before():
    config = config_from({"privacy.epsilon": 5.0, "rounds.total": 4})
    model = load_model("dp-cox", DATA.spec, json.dumps(OPTIONS)).planned(config)
    _, honest = noisy(1000.0, **{"rounds.total": 3})
    features = DATA.schema.features
    words = [features.index(name) for name in ("sex", "died")]
    rng, steps = np.random.default_rng(1), set()
    for rounds in (0, 1, 2, 3):
        for scale in (0.0, 1.0, 1e4, 1e9):
            before = honest["sums"][: sum(model.length(each + 1) for each in range(rounds))]
            sums = before + rng.normal(0, scale, len(before)).astype(np.int64)
            state = {"sums": sums, "reports": np.ones(rounds, np.int64)}
            if rounds and model.progress(state).is_failure:
                continue
            steps.add(rounds)
            for _ in range(60):
                inputs = rng.choice([np.nan, -np.inf, -1e9, 0.0, 1.0, 20.0, 55.5, 90.0], (1, len(features)))
                inputs[0, words] = rng.choice([0.0, 1.0], 2)
                record = Examples(inputs, rng.choice([0.0, 4.5, 17.0, 1e9], 1))
                assert np.abs(model.asked(state, record)).sum() <= UNIT == model.unit(rounds + 1)
    assert steps == {0, 1, 2, 3}


def test_hazards_change_no_score(monkeypatch):
    """Doubling and halving the hazards in turn leads to the same step."""
    model, state = noisy(1e6)
    first = state["sums"][: model.length(1)]
    path = model._path({"sums": first, "reports": np.ones(1, np.int64)})
    steps = []
    for factor in (1.0, np.where(np.arange(path.baseline.known) % 2, 2.0, 0.5)):
        changed = replace(path, baseline=replace(path.baseline, hazard=path.baseline.hazard * factor))
        monkeypatch.setattr(model, "_path", lambda state, changed=changed: changed)
        steps.append(model._seen(model.asked(state, DATA.train), 0.0, changed).step)
    np.testing.assert_allclose(*steps, rtol=1e-3)


def test_the_covariance_holds_the_noise_of_all_sums_to_first_order():
    rng, size, times = np.random.default_rng(3), 2, 4
    hazard, cells = rng.uniform(0.1, 0.3, times), rng.uniform(20, 40, (2 + size, times))
    score, root = rng.normal(0, 20, size), rng.normal(0, 9, (size, size))
    products = root @ root.T + 300 * np.eye(size)
    deviations = np.array([1.0, 2.0, 3.0, 4.0, 5.0])

    def seen(changed):
        by_time, others = changed[: cells.size].reshape(cells.shape), changed[cells.size :]
        at_risk, *columns = np.cumsum(by_time[1:, ::-1], axis=1)[:, ::-1]
        information = np.array([[others[2], others[3]], [others[3], others[4]]])
        return Seen(hazard, by_time[0], at_risk, np.array(columns) / at_risk, others[:2], information, deviations)

    sums = np.concatenate([cells.ravel(), score, products[np.triu_indices(size)]])
    of_each = np.repeat(deviations, [times, times, size * times, size, 3])
    slopes = [(seen(sums + h).step - seen(sums - h).step) / 2e-4 for h in 1e-4 * np.eye(len(sums))]
    of_noise = np.transpose(slopes) * of_each
    found = seen(sums)
    bread = np.linalg.inv(found.information)
    twice = deviations[2] ** 2 * found._twice() * bread @ bread  # what is taken off, as it is there twice
    np.testing.assert_allclose(found.covariance() + twice, bread + of_noise @ of_noise.T, rtol=1e-5)


def test_what_a_round_costs_is_booked_before_it_and_comes_to_the_budget(tmp_path):
    settings = {"privacy.epsilon": 4.0, "engine.name": "inline", "model.options": OPTIONS}
    run = fedlearn.run(clients=3, data=DATA, model="dp-cox", settings=settings, out=tmp_path, progress=False)
    assert run.summary["rounds"] == 3 and run.summary["epsilon"] == pytest.approx(4.0)
    answer = run.model()
    assert answer.facts["records"] == pytest.approx(5000, abs=500) and answer.forest == "hazard ratio"
    assert any("contain the noise" in note for note in answer.notes)


def test_too_much_noise_ends_the_fit_with_one_line(tmp_path):
    settings = {"privacy.epsilon": 0.01, "engine.name": "inline", "model.options": OPTIONS}
    with pytest.raises(RunFailed, match="the noise of round 1 is too large") as failed:
        fedlearn.run(clients=3, data=DATA, model="dp-cox", settings=settings, out=tmp_path, progress=False)
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"step": 0.5}, "50 are allowed: use longer steps"),
        ({"columns": [], "step": 2.0}, "with noise 5 are allowed: name fewer"),
        ({"strata": "sex", "step": 2.0}, "model.options.strata"),
    ],
)
def test_what_noise_does_not_go_with_is_refused(options, words):
    data = table(patients(100), "weeks", [*COLUMNS, "ward", "score", "visits"])
    with pytest.raises(SettingError, match=words):
        load_model("dp-cox", data.spec, json.dumps({"event": "died", **options}))


def test_one_round_is_refused():
    config = config_from({"rounds.total": 1})
    with pytest.raises(SettingError, match=r"rounds\.total = 1: the first round only finds where to begin"):
        load_model("dp-cox", DATA.spec, json.dumps(OPTIONS)).planned(config)
