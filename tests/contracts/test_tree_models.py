"""The contract of every tree model: any schema will do, honest reports pass its own gate."""

from __future__ import annotations

import numpy as np
import pytest

from client.learners.learner import LocalTask
from client.memory import NodeMemory
from fedlearn.config import RunConfig, config_from
from fedlearn.core.errors import SettingError
from fedlearn.core.state import UpdateKind, layout_of
from fedlearn.core.state_files import pack_state
from fedlearn.models import MODELS, load_model
from fedlearn.models.model import NOTHING, Ensemble
from fedlearn.private_trees.federated.learners.tree_learner import TreeLearner
from fedlearn.private_trees.federated.models.forest import empty_state
from fedlearn.private_trees.federated.models.forest_classification import ForestClassifier
from tests.oracles import images
from tests.oracles.forests import CLASSIFICATION, REGRESSION, dataset

TREE_MODELS = [name for name, row in MODELS.items() if not row.trains_in_steps and not row.sums]
CLASSIFIERS = {"dp-classifier", "dp-random-forest", "pf-forest"}
LIMITS = {"max_depth": 32, "max_nodes": 1_000_000}
EPSILON = 0.5


def schema_of(name):
    return CLASSIFICATION if name in CLASSIFIERS else REGRESSION


@pytest.fixture(params=TREE_MODELS)
def name(request):
    return request.param


@pytest.fixture
def model(name):
    return load_model(name, dataset(schema_of(name)).spec)


def learner_of(model, **settings):
    return TreeLearner(model, config_from({"privacy.epsilon": EPSILON, "privacy.noise": "seeded"} | settings))


def task_of(model, *, seed=1, partition_id=0, memory=None, rows=100):
    return LocalTask(dataset(model.schema).train, np.arange(rows), seed, 1, partition_id, {}, memory or NodeMemory())


def bytes_of(state):
    return {name: array.tobytes() for name, array in state.items()}


def test_every_model_of_trees_brings_data_strategy_and_rounds_along():
    rows = [MODELS[name] for name in TREE_MODELS]
    assert all(row.dataset != "auto" and row.strategy and row.rounds and row.is_private for row in rows)


def test_kind_learner_and_metrics(model, name):
    assert model.update_kind is UpdateKind.ENSEMBLE
    assert isinstance(model, Ensemble)
    assert model.learner == "tree"
    assert model.metrics.best_by == ("accuracy" if name in CLASSIFIERS else "mae")


def test_initial_state_is_finite_empty_and_predicts_what_nobody_has_to_learn(model):
    state = model.initial_state(seed=1)
    assert all(array.size == 0 for array in state.values())
    means = model.evaluate(state, dataset(model.schema).test).means
    assert set(means) == {metric.name for metric in model.metrics.evaluated}


def test_evaluation_of_parts_adds_up_to_that_of_the_whole(model):
    state = learner_of(model).fit(model.initial_state(seed=1), task_of(model)).arrays
    test = dataset(model.schema).test
    whole = model.evaluate(state, test)
    parts = sum((model.evaluate(state, test.at(slice(i, i + 20))) for i in (0, 20, 40)), NOTHING)
    assert parts.count == whole.count == 60
    assert parts.means == pytest.approx(whole.means)


def test_what_a_node_sends_is_finite_survives_storing_and_passes_the_gate(model):
    before = model.initial_state(seed=1)
    fit = learner_of(model).fit(before, task_of(model))
    assert all(np.isfinite(array).all() for array in fit.arrays.values())
    assert fit.num_examples == 1
    assert fit.metrics == {"epsilon": pytest.approx(EPSILON)}
    model.check_members(fit.arrays, before=layout_of(before), **LIMITS)
    pack_state(fit.arrays)


def test_same_seed_same_bytes_and_another_for_each_node(model):
    state = model.initial_state(seed=1)
    first, again, other = (learner_of(model).fit(state, task_of(model, partition_id=p)).arrays for p in (0, 0, 1))
    assert bytes_of(first) == bytes_of(again)
    assert bytes_of(first) != bytes_of(other)


def test_secure_noise_is_never_twice_the_same(model):
    state = model.initial_state(seed=1)
    first, again = (
        learner_of(model, **{"privacy.noise": "secure"}).fit(state, task_of(model, rows=20)).arrays for _ in range(2)
    )
    assert bytes_of(first) != bytes_of(again)


def test_noise_is_secure_unless_somebody_said_seeded(model):
    assert TreeLearner(model, RunConfig()).noise == "secure"


def test_a_fit_costs_the_whole_budget_of_a_run(model):
    assert learner_of(model).cost(EPSILON) == EPSILON


def test_public_sizes_are_reported(model):
    learner = learner_of(model, **{"privacy.public_sizes": True})
    fit = learner.fit(model.initial_state(seed=1), task_of(model))
    assert fit.num_examples == 100
    assert fit.metrics == {"epsilon": pytest.approx(2 * EPSILON)}  # of a replaced record: all know how many there are


@pytest.mark.parametrize("name", sorted({"dp-forest", *CLASSIFIERS}))
def test_leaves_with_more_than_one_vote_are_refused(name):
    model = load_model(name, dataset(schema_of(name)).spec)
    before = model.initial_state(seed=1)
    arrays = dict(learner_of(model).fit(before, task_of(model)).arrays)
    arrays["value"] = np.ones_like(arrays["value"])
    with pytest.raises(Exception, match="bad-value: a leaf's distribution does not sum to 1"):
        model.check_members(arrays, before=layout_of(before), **LIMITS)


@pytest.mark.parametrize(
    "option", ["epsilon", "ensemble", "bounds_from_data", "accountant", "bounds", "classes", "nonsense"]
)
def test_options_that_are_not_the_users_are_refused(name, option):
    with pytest.raises(SettingError, match=rf"model\.options\.{option} = 3: there is no such option.*choose of"):
        load_model(name, dataset(schema_of(name)).spec, f'{{"{option}": 3}}')


def test_options_reach_the_estimator(name):
    option = "max_depth" if name in CLASSIFIERS else "candidates"
    model = load_model(name, dataset(schema_of(name)).spec, f'{{"{option}": 2}}')
    assert model.estimator(empty_state(1)).get_params()[option] == 2


def test_images_and_the_wrong_kind_of_target_are_refused(name):
    with pytest.raises(SettingError, match="learns from tables, and 'made' is none"):
        load_model(name, images.dataset().spec)
    other = REGRESSION if name in CLASSIFIERS else CLASSIFICATION
    with pytest.raises(SettingError, match="the target 'y' of 'made' does not fit"):
        load_model(name, dataset(other).spec)


def test_neural_models_refuse_tables():
    with pytest.raises(SettingError, match="its examples are not images of classes"):
        load_model("cnn", dataset(REGRESSION).spec)


def test_classifiers_never_leave_the_probability_simplex():
    model = load_model("dp-random-forest", dataset(CLASSIFICATION).spec)
    assert isinstance(model, ForestClassifier)
    state = learner_of(model).fit(model.initial_state(seed=1), task_of(model)).arrays
    shares = model.shares(state, dataset(CLASSIFICATION).test.inputs)
    assert shares.min() >= 0
    np.testing.assert_allclose(shares.sum(axis=1), 1)
