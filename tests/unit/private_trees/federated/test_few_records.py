"""With wide noise and few records, a model is no worse than a constant, which needs no learning."""

from __future__ import annotations

import numpy as np
import pytest

from fedlearn.config import config_from
from fedlearn.data.data_spec import Examples, TableSchema
from fedlearn.data.dataset import Dataset
from fedlearn.models import load_model
from fedlearn.models.presets import settings_from
from tests.oracles.sums import federated

NODES = 25
RNG = np.random.default_rng(3)
X = RNG.random((3000, 6))
BOUNDS = {f"x{at}": (0.0, 1.0) for at in range(6)}
CLASSES = TableSchema("y", BOUNDS, classes=("no", "yes"))
NUMBERS = TableSchema("y", BOUNDS, target_bounds=(0.0, 1.0))
LABELS = (RNG.random(3000) < 0.3).astype(np.int64)
SKEWED = np.minimum(RNG.lognormal(-3, 0.5, 3000), 1.0)


def means_of(name, schema, targets, seed, **changes):
    """Return what a model of 25 nodes with local noise measures on the records that it has learned from."""
    data = Examples(X, targets)
    given = {"model.name": name, "clients": NODES, "privacy.noise": "seeded", "seed": seed, **changes}
    config = settings_from(given)
    model = load_model(name, Dataset.of_table("made", data, data, schema, "made").spec)
    state = federated(model, config, data, np.array_split(np.arange(len(X)), NODES))
    return model.planned(config).evaluate(state, data).means


@pytest.mark.parametrize("name", ["dp-boosting", "dp-naive-bayes"])
@pytest.mark.parametrize("epsilon", [0.1, 0.25])
def test_classes_that_noise_hides_are_guessed_as_the_largest(name, epsilon):
    found = [means_of(name, CLASSES, LABELS, seed, **{"privacy.epsilon": epsilon})["accuracy"] for seed in (1, 2, 3)]
    assert np.mean(found) > 0.68


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_a_skewed_number_that_noise_hides_is_guessed_as_its_median(epsilon):
    found = [
        means_of("dp-boosting", NUMBERS, SKEWED, seed, **{"privacy.epsilon": epsilon})["mae_scaled"]
        for seed in (1, 2, 3)
    ]
    assert np.mean(found) < 1.25 * np.abs(SKEWED - np.median(SKEWED)).mean()


def test_records_that_are_declared_to_be_few_are_asked_for_the_start_alone():
    few = {"gate.max_examples": 30, "privacy.epsilon": 0.1}
    assert settings_from({"model.name": "dp-boosting", "clients": NODES, **few}).rounds.total == 1
    records = Examples(X, LABELS)
    model = load_model("dp-boosting", Dataset.of_table("made", records, records, CLASSES, "m").spec)
    planned = model.planned(settings_from({"model.name": "dp-boosting", "clients": NODES, **few}))
    assert (planned.length(1), planned.unit(1), planned.plan.share(1)) == (2, 2**20, 1.0)


@pytest.mark.parametrize(
    ("epsilon", "declared", "trees", "depth"),
    [(1.0, 10_000_000, 3, 2), (8.0, 10_000_000, 10, 3), (1.0, 5000, 10, 3), (1.0, 3, 1, 0), (0.1, 1000, 3, 2)],
)
def test_random_trees_are_as_many_and_as_deep_as_a_node_can_pay_for(epsilon, declared, trees, depth):
    data = Examples(X, LABELS)
    model = load_model("dp-random-forest", Dataset.of_table("made", data, data, CLASSES, "made").spec)
    planned = model.planned(config_from({"privacy.epsilon": epsilon, "gate.max_examples": declared}))
    grown = planned.estimator(planned.initial_state(seed=1)).get_params()
    assert (grown["n_estimators"], grown["max_depth"], planned.trees_of_a_node) == (trees, depth, trees)
