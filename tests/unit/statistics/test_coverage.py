"""Measures how often 95 % intervals contain the true coefficients of exact and of noisy regressions."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from fedlearn.config import config_from
from fedlearn.data import from_frame
from fedlearn.data.data_spec import Examples
from fedlearn.models import load_model

MANY = pytest.mark.long
SPREAD = 4 * 0.0097  # of the share of 500 repetitions in which an interval of 95 % holds the truth
SITES = 3


def declared(columns, target):
    """Return what loads models: a table with columns of bounds -1 and 1, and a target."""
    names = [f"x{place}" for place in range(columns)]
    frame = pd.DataFrame({**{name: [0.0, 0.5] for name in names}, "event": ["no", "yes"], "y": [0.0, 1.0]})
    bounds = dict.fromkeys(names, (-1, 1))
    words = {"event": ["no", "yes"]} if target == "time" else {}
    frame = frame if words else frame.drop(columns="event")
    high = {"logit": 1, "poisson": 12, "time": 40}.get(target, 2)
    low = -2 if target == "normal" else 0
    return from_frame(frame, target="y", target_bounds=(low, high), bounds=bounds, categories=words, test_share=0.0)


def truth_of(columns):
    """Return the coefficients of the columns, from -.4 to .4."""
    return np.linspace(-0.4, 0.4, columns)


def drawn(kind, columns, rows, rng):
    """Return the records of a federation, with an intercept of .2."""
    x = np.clip(rng.normal(0, 0.35, (rows, columns)), -1, 1)
    predictor = 0.2 + x @ truth_of(columns)
    if kind == "normal":
        return Examples(x, predictor + rng.normal(0, 0.3, rows))
    if kind == "logit":
        return Examples(x, (rng.random(rows) < 1 / (1 + np.exp(-predictor))).astype(float))
    if kind == "poisson":
        return Examples(x, np.minimum(rng.poisson(np.exp(predictor)), 12).astype(float))
    times, ends = np.ceil(rng.exponential(15 / np.exp(predictor))), np.ceil(rng.uniform(5, 40, rows))
    return Examples(np.column_stack([x, times <= ends]), np.minimum(times, ends))


def covered(table, columns):
    """Return for each coefficient whether its interval holds the truth; and its width."""
    rows = table.loc[[f"x{place}" for place in range(columns)], ["2.5%", "97.5%"]].to_numpy()
    truth = truth_of(columns)
    return (rows[:, 0] <= truth) & (truth <= rows[:, 1]), rows[:, 1] - rows[:, 0]


def check(found, repetitions):
    """Check the shares in which (repetitions, coefficients) intervals hold the truth."""
    shares = np.mean([each for each, _ in found], axis=0)
    print(f"covered {shares.mean():.3f}, from {shares.min():.3f} to {shares.max():.3f};",
          f"width {np.mean([width for _, width in found]):.3f}; {len(found)} of {repetitions} fits")  # fmt: skip
    assert len(found) >= 0.98 * repetitions  # the others end with the line that there is too much noise
    spread = SPREAD * np.sqrt(500 / repetitions)
    assert np.abs(shares - 0.95).max() < spread
    assert abs(shares.mean() - 0.95) < (0.015 if repetitions >= 500 else spread)


CASES = [
    ("glm", "normal", {"family": "normal"}),
    ("glm", "logit", {"family": "logit"}),
    ("glm", "poisson", {"family": "poisson"}),
    ("cox", "time", {"event": "event"}),
]


@MANY
@pytest.mark.parametrize(("name", "kind", "options"), CASES, ids=[kind for _, kind, _ in CASES])
def test_intervals_of_exact_regressions_hold_the_truth_as_often_as_they_say(name, kind, options):
    spec, rng, found = declared(4, kind).spec, np.random.default_rng(1), []
    for _ in range(500):
        data = drawn(kind, 4, 600, rng)
        model = load_model(name, spec, json.dumps(options))
        shards = [data.at(slice(at, None, SITES)) for at in range(SITES)]
        found.append(covered(model.fit(shards).table("coefficients"), 4))
    check(found, 500)


NOISY = [
    ("time", 3, 5000, 1.0, 500),
    ("time", 5, 5000, 4.0, 500),
    ("time", 5, 20_000, 1.0, 500),
    ("normal", 8, 5000, 1.0, 500),
    ("normal", 8, 5000, 4.0, 500),
    ("logit", 4, 5000, 1.0, 500),
    ("logit", 8, 5000, 4.0, 500),
    ("logit", 8, 20_000, 1.0, 500),
    ("poisson", 4, 5000, 1.0, 500),
    ("poisson", 8, 5000, 4.0, 500),
]
FEW = [("normal", 3, 5000, 1.0, 40), ("logit", 3, 5000, 4.0, 40)]


@pytest.mark.parametrize(
    ("family", "columns", "rows", "epsilon", "repetitions"),
    [*FEW, *(pytest.param(*case, marks=MANY) for case in NOISY)],
)
def test_intervals_of_regressions_with_noise_hold_the_truth_as_often_as_they_say(
    family, columns, rows, epsilon, repetitions
):
    rng, found = np.random.default_rng(2), []
    name, rounds = ("dp-cox", 3) if family == "time" else ("dp-glm", 1 if family == "normal" else 2)
    config = config_from({"privacy.epsilon": epsilon, "clients": 1, "rounds.total": rounds, "rounds.cohort": 0})
    options = {"event": "event"} if family == "time" else {"family": family}
    model = load_model(name, declared(columns, family).spec, json.dumps(options)).planned(config)
    for _ in range(repetitions):
        data, state = drawn(family, columns, rows, rng), model.initial_state(seed=1)
        for number in range(1, rounds + 1):
            if number > 1 and model.finished(state).is_failure:
                break
            chance = -np.expm1(-model.plan.share(number) * epsilon / model.unit(number))
            noise = rng.geometric(chance, (2, model.length(number)))
            sums = model.asked(state, data) + noise[0] - noise[1]
            state = {"sums": np.append(state["sums"], sums), "reports": np.ones(number, np.int64)}
        if not model.finished(state).is_failure:
            found.append(covered(model.answer(state).table("coefficients"), columns))
    check(found, repetitions)
