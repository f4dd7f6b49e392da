"""The contract of every learner, on every model that names it, and on one that fits it if none does."""

from __future__ import annotations

from contextlib import suppress
from functools import cache, partial

import numpy as np
import pytest

from client.learners import LEARNERS
from client.learners.learner import LocalTask
from fedlearn import flower, wire
from fedlearn.config import config_from, to_flower
from fedlearn.config.tables.reports import StrategySettings
from fedlearn.core.errors import SettingError
from fedlearn.core.metric import EPSILON
from fedlearn.core.state import layout_of
from fedlearn.data import load_dataset, partition_table
from fedlearn.engine.apps import load_client_app
from fedlearn.engine.node_calls import run_node
from fedlearn.models import MODELS, load_model
from fedlearn.plugins.tables import ALGORITHMS
from strategies import load_strategy
from tests.oracles import forests, images, texts

MADE = (images.dataset(), texts.dataset(), forests.dataset(forests.REGRESSION), forests.dataset(forests.CLASSIFICATION))
SETTINGS = {
    "seed": 3, "training.local_epochs": 1, "training.batch_size": 4, "privacy.epsilon": 0.5, "privacy.noise": "seeded",
}  # fmt: skip
FURTHER = {
    "dp-sgd": {"privacy.protects": "records", "privacy.delta": 1e-5, "privacy.records": 8, "privacy.participations": 1}
}  # learner -> settings
FITTING = {
    "sgd": "cnn",
    "lightning": f"{images.__name__}:Lit",
    "tree": "dp-forest",
    "sums": "dp-naive-bayes",
}  # learner -> a model that it can improve; any other: a torch module
EXACT = {"exact-sums", *(name for name, row in MODELS.items() if row.sums and not row.is_private)}
"""They send no update: their sums are the same whatever round and seed (`tests/unit/statistics`)."""
WITH_OPTIONS = {
    "dp-kaplan-meier",
    "dp-glm",
    "dp-cox",
}  # made by its options alone: `tests/unit/statistics/test_private.py`
SCALARS = {"two-point"}  # no update either: `tests/unit/algorithms/scalars`
CASES = [(FITTING.get(learner, "cnn"), learner) for learner in LEARNERS if learner not in EXACT | SCALARS]
CASES += [
    (model, "") for model in MODELS if model not in {*FITTING.values(), *EXACT, *WITH_OPTIONS}
]  # with its own learner
CASES += [(f"{images.__name__}:Small", "")]  # has running means, as resnet18 has
CASES += [("linear", "tests.end_to_end.plugins.noisy_counts:NoisyCounts")]  # private, of a model that is not
LONG = {"resnet18"}


@cache
def model_and_data(name):
    """Return the model of a name, and the first of the made data sets that it learns from."""
    for dataset in MADE:
        with suppress(SettingError):
            return load_model(name, dataset.spec), dataset
    raise AssertionError(f"{name} learns from none of {len(MADE)} data sets")


class Case:
    """A model and a learner of it; its own unless another is named."""

    def __init__(self, name, learner=""):
        self.model, self.dataset = model_and_data(name)
        config = config_from({**SETTINGS, **ALGORITHMS.get(learner, {}), **FURTHER.get(learner, {})})
        if learner in ALGORITHMS:
            self.model = load_model(name, self.dataset.spec).planned(config)  # one of its own: some layers are personal
        self.learner = LEARNERS.load(learner or self.model.learner).from_settings(self.model, config)
        self.state = self.model.initial_state(seed=1)
        strategy = load_strategy(StrategySettings(name=learner if learner in ALGORITHMS else "fedavg"))
        self.parcels = strategy.parcels(self.state)
        for array in self.state.values():
            array.flags.writeable = False  # whoever writes to it fails

    def task(self, node=0, *, seed=3, round_number=1):
        rows = np.arange(6 * node, 6 * node + 6)
        return LocalTask(self.dataset.train, rows, seed, round_number, node, {}, parcels=self.parcels)

    def fit(self, *about, **task):
        return bytes_of(self.learner.fit(self.state, self.task(*about, **task)))


def bytes_of(fit):
    return {name: array.tobytes() for name, array in fit.arrays.items()}, fit.num_examples, fit.metrics


@pytest.fixture(
    params=[pytest.param(case, id="-".join(case), marks=[pytest.mark.long] * (case[0] in LONG)) for case in CASES]
)
def made(request):
    return partial(Case, *request.param)


@pytest.fixture
def case(made):
    return made()


def test_same_seed_same_update_whatever_the_learner_did_before(made):
    case = made()
    first = case.fit(1)
    case.fit(2)
    assert case.fit(1) == first
    assert made().fit(1) == first


def test_another_node_round_or_seed_makes_another_update(case):
    (arrays, _, _), *others = case.fit(1), case.fit(2), case.fit(1, round_number=2), case.fit(1, seed=4)
    assert all(other != arrays for other, _, _ in others)


def test_the_state_that_came_in_stays_as_it_is(case):
    before = {name: array.tobytes() for name, array in case.state.items()}
    case.fit(1)
    assert {name: array.tobytes() for name, array in case.state.items()} == before


def test_an_update_is_finite_weighs_something_and_was_measured(case):
    fit = case.learner.fit(case.state, case.task())
    assert all(np.isfinite(array).all() for array in fit.arrays.values())
    personal = case.model.parts.personal if hasattr(case.model, "parts") else ()
    assert set(layout_of(fit.arrays)) == {*layout_of(case.state), *personal}
    assert fit.num_examples > 0
    assert fit.metrics
    assert all(np.isfinite(value) for value in fit.metrics.values())


def test_a_learner_is_private_if_and_only_if_it_says_what_it_has_spent(case):
    fit = case.learner.fit(case.state, case.task())
    assert case.learner.is_private is (EPSILON.name in fit.metrics)
    if case.learner.is_private:
        assert 0 < case.learner.cost(0.5) <= 0.5
        assert fit.metrics[EPSILON.name] == pytest.approx(case.learner.cost(0.5))


def test_fitting_many_nodes_is_fitting_one_after_another(case):
    each = [case.fit(node) for node in (2, 0, 1)]
    assert [bytes_of(fit) for fit in case.learner.fit_many(case.state, map(case.task, (2, 0, 1)))] == each


def test_a_node_that_has_fitted_nothing_can_fit(case):
    assert case.learner.why_not(case.task().memory) == ""


def test_a_node_without_examples_says_so_and_never_fits():
    config = config_from({"clients": 60, "data.dataset": "digits", "data.partition": "dirichlet", "data.alpha": 0.01})
    table = partition_table(load_dataset("digits", ""), config.data, num_partitions=60, seed=config.seed)
    empty = next(partition for partition in range(60) if not len(table.indices(partition)))
    query = flower.with_id(wire.ready_query(empty + 2, round_number=1, attempt=1, ttl=60.0))
    answer, _ = run_node(load_client_app(), query, b"", num_nodes=60, settings=to_flower(config))
    assert wire.read_ready_answer(answer) == (empty, "it has no examples")
