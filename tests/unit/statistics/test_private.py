"""Twins with noise: intervals that contain it, curves that end where nothing is sure."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import fedlearn
from fedlearn.config import config_from
from fedlearn.core.errors import SettingError, UsageError
from fedlearn.data import from_frame
from fedlearn.data.data_spec import Examples
from fedlearn.models import load_model
from fedlearn.statistics import fit
from fedlearn.statistics.noisy_analyses import slopes
from fedlearn.statistics.survival import LifeTable
from tests.oracles.studies import patients, table
from tests.oracles.sums import federated

COLUMNS = ["age", "dose", "sex", "ward", "died"]
DATA = table(patients(5000, seed=5), "weeks", COLUMNS)
SHARDS = np.array_split(np.arange(5000), 4)


def noisy(name, options, epsilon, seed, **settings):
    given = {"privacy.epsilon": epsilon, "privacy.noise": "seeded", "clients": 4, "rounds.total": 1, "seed": seed}
    config = config_from({**given, "rounds.cohort": 0, "gate.max_examples": 10_000, **settings})
    model = load_model(name, DATA.spec, options).planned(config)
    return model.fitted(federated(model, config, DATA.train, SHARDS))


def test_with_much_epsilon_a_twin_tells_what_the_exact_analysis_tells():
    exact = fit("kaplan-meier", DATA, event="died", by="sex", restricted=40, least_count=1)
    found = noisy("dp-kaplan-meier", '{"event": "died", "by": "sex", "restricted": 40}', 1e4, 1)
    for mine, theirs in zip(found.curves, exact.curves, strict=True):
        shared = dict(zip(theirs.times, theirs.values, strict=True))
        assert [shared[time] for time in mine.times] == pytest.approx(mine.values, abs=1e-9)
        assert len(mine.times) > 30
    assert found.table("survival")["median"].tolist() == exact.table("survival")["median"].tolist()
    described = noisy("dp-describe", '{"by": "sex"}', 1e4, 1).table("numbers").set_index("group", append=True)
    expected = fit("describe", DATA, by="sex").table("numbers").set_index("group", append=True)
    for place, row in described.iterrows():
        assert row["mean"] == pytest.approx(expected.loc[place, "mean"], abs=1e-3)
        assert row["SD"] == pytest.approx(expected.loc[place, "SD"], rel=1e-3)


def test_the_slopes_of_a_curve_are_its_derivatives():
    rng = np.random.default_rng(0)
    events, left = rng.uniform(3, 9, 6), rng.uniform(3, 9, 6)

    def log_survival(counts):
        events, left = counts.reshape(2, -1)
        at_risk = np.cumsum((events + left)[::-1])[::-1]
        return np.cumsum(np.log(1 - events[:5] / at_risk[:5]))

    counts, at_risk = np.concatenate([events, left]), np.cumsum((events + left)[::-1])[::-1]
    expected = [(log_survival(counts + h) - log_survival(counts - h)) / 2e-5 for h in 1e-5 * np.eye(12)]
    np.testing.assert_allclose(slopes(events[:5], at_risk[:5], 6), np.transpose(expected), rtol=1e-6)


POINTS = [1, 8, 15]  # of the grid of times


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_bands_cover_the_truth_as_often_as_they_say(epsilon):
    """5,000 records, of whose times 20 points of a grid hold each as many, a third without event; 500 repetitions."""
    model = load_model("dp-kaplan-meier", DATA.spec, '{"event": "died", "step": 3.0}')
    rng, size = np.random.default_rng(1), model.grid.size
    hazard = np.full((2, size), [[0.08], [0.04]])  # of the event, and of another end, among those at risk
    at_risk = np.cumprod(np.concatenate([[1], 1 - hazard.sum(axis=0)[:-1]]))
    truth = np.cumprod(1 - hazard[0])
    share = hazard * at_risk
    share[1, -1] += 1 - share.sum()  # all others are there at the last time
    ratio = np.exp(-epsilon)
    covered, widths = [], []
    for _ in range(500):
        counts = rng.multinomial(5000, share.ravel())
        noise = rng.geometric(1 - ratio, 2 * size) - rng.geometric(1 - ratio, 2 * size)
        events, left = (counts + noise).reshape(2, -1).astype(float)
        life = model._life_of(events, left, 2 * ratio / (1 - ratio) ** 2)
        covered.append([life.lower[at] <= truth[at] <= life.upper[at] for at in POINTS])
        widths.append(life.upper[POINTS] - life.lower[POINTS])
    print(f"covered {np.mean(covered):.3f}, {np.mean(covered, axis=0)}; widths {np.mean(widths, axis=0)}")
    assert np.mean(covered, axis=0) == pytest.approx([0.95] * 3, abs=4 * 0.0097)
    assert np.mean(covered) == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_intervals_of_means_cover_the_truth(epsilon):
    """2,000 ages in a triangle; 500 repetitions with the noise of one node."""
    data = table(patients(10), "score", ["age"])
    model = load_model("dp-describe", data.spec, '{"columns": ["age"], "bins": 4}').planned(
        config_from({"privacy.epsilon": epsilon, "clients": 1})
    )
    rng, covered, widths = np.random.default_rng(2), 0, []
    ratio = np.exp(-epsilon / model.unit(1))
    for _ in range(500):
        ages = rng.triangular(20, 40, 90, 2000)
        sums = model.asked({}, Examples(ages[:, None], np.zeros(2000)))
        noise = rng.geometric(1 - ratio, len(sums)) - rng.geometric(1 - ratio, len(sums))
        answer = model.answer({"sums": sums + noise, "reports": np.ones(1, np.int64)})
        row = answer.table("numbers").loc["age"]
        covered += row["2.5%"] <= 50 <= row["97.5%"]
        widths.append(row["97.5%"] - row["2.5%"])
    print(f"covered {covered / 500:.3f}; width {np.mean(widths):.3f}")
    assert covered / 500 == pytest.approx(0.95, abs=4 * 0.0097)


def test_quartiles_of_a_column_that_is_declared_by_its_logarithm_are_those_of_its_cells():
    frame = pd.DataFrame({"income": np.geomspace(1, 1000, 2001), "y": 0.5})
    data = from_frame(frame, target="y", target_bounds=(0, 1), bounds={"income": (1, 1000, "log")}, test_share=0.0)
    model = load_model("dp-describe", data.spec, '{"columns": ["income"]}')
    answer = model.answer({"sums": model.asked({}, data.train), "reports": np.ones(1, np.int64)})
    quartiles = answer.table("numbers").loc["income", ["Q1", "median", "Q3"]]
    assert quartiles.tolist() == pytest.approx([1000**0.25, 1000**0.5, 1000**0.75], rel=0.01)


def test_a_curve_ends_where_nothing_is_sure_and_says_so():
    found = noisy("dp-kaplan-meier", '{"event": "died"}', 0.1, 1)
    (curve,) = found.curves
    assert 0 < len(curve.times) < 30 and all(0 <= value <= 1 for value in (*curve.values, *curve.lower, *curve.upper))
    assert "a curve ends where fewer are at risk" in " ".join(found.notes)
    nothing = noisy("dp-kaplan-meier", '{"event": "died"}', 1e-5, 1)
    assert nothing.curves[0].times == () and nothing.table("survival").loc["all", "median"] is None


def test_shared_noise_is_narrower_than_that_of_each_node():
    def width(trust):
        found = noisy("dp-describe", "{}", 0.5, 1, **{"privacy.trust": trust}).table("numbers")
        return (found["97.5%"] - found["2.5%"]).iloc[0]

    assert width("distributed") < width("local")


def test_a_twin_has_its_noise_from_a_run_and_costs_epsilon_once(tmp_path):
    with pytest.raises(UsageError, match=r"fedlearn\.run\(clients=1, model='dp-kaplan-meier'"):
        fit("dp-kaplan-meier", DATA, event="died")
    with pytest.raises(SettingError, match="2,000 are allowed"):
        load_model("dp-kaplan-meier", DATA.spec, '{"event": "died", "step": 0.01}')
    settings = {"model.options.event": "died", "privacy.epsilon": 2.0, "engine.name": "inline"}
    run = fedlearn.run(clients=3, data=DATA, model="dp-kaplan-meier", settings=settings, out=tmp_path, progress=False)
    assert run.summary["epsilon"] == 2.0 and run.summary["rounds"] == 1
    assert run.model().facts["records"] == pytest.approx(5000, abs=150)


def test_a_life_table_without_events_is_flat():
    life = LifeTable(np.arange(3.0), np.zeros(3), np.array([9.0, 5.0, 2.0]), 0.95)
    assert life.survival.tolist() == [1, 1, 1] and life.medians() == (None, None, None)
