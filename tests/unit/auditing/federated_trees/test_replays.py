"""Reports of nodes of private models, recorded and replayed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from client.learners import sums_learner as sums_learner
from client.learners.sums_learner import SumsLearner
from fedlearn.auditing.federated_trees.replays import PRIVATE, REPLAYS
from fedlearn.auditing.replay import replay
from fedlearn.models import MODELS
from fedlearn.models import sums as sums_models
from fedlearn.privacy import NeighboringRelation, PrivacySpent, PrivacyUnit, seeded_noise
from fedlearn.private_trees.federated.learners.tree_learner import TreeLearner
from fedlearn.private_trees.sums.cyclic import CyclicBoosting
from fedlearn.statistics.column_histograms import UNIT
from fedlearn.statistics.private_cox import NoisyCox
from fedlearn.statistics.private_glm import NoisyGLM


def test_every_private_model_is_replayed():
    assert [f"{name}, report of a node" for name in PRIVATE] == list(REPLAYS)[: len(PRIVATE)]
    assert [name for name, row in MODELS.items() if row.is_private] == PRIVATE


@pytest.mark.parametrize("name", REPLAYS)
def test_no_report_passes_the_claim(name):
    result = replay(name, REPLAYS[name], pairs=12, seed=1)
    assert not result.is_refuted, str(result)


@pytest.mark.long
@pytest.mark.parametrize("name", REPLAYS)
def test_no_report_passes_the_claim_in_many_pairs_and_every_slip_is_seen(name):
    result = replay(name, REPLAYS[name], pairs=2000, seed=2)
    assert not result.is_refuted, str(result)
    assert not result.missed, str(result)


@pytest.mark.parametrize("what", ["num_examples", "metrics"])
def test_a_report_that_says_how_many_records_there_are_is_found(what, monkeypatch):
    fit = TreeLearner.fit

    def telling(self, state, task):
        told = fit(self, state, task)
        values = {"num_examples": len(task.indices), "metrics": told.metrics | {"loss": float(len(task.indices))}}
        return type(told)(told.arrays, **{"num_examples": 1, "metrics": told.metrics} | {what: values[what]})

    monkeypatch.setattr(TreeLearner, "fit", telling)
    result = replay("dp-forest", REPLAYS["dp-forest, report of a node"], pairs=20, seed=3)
    assert result.why == "the answers are the same, and what is published differs"


def pairs_of(name, count=60):
    rng = np.random.default_rng(4)
    return [REPLAYS[name](rng) for _ in range(count)]


def test_nodes_of_both_kinds_of_tables_are_replayed_in_any_round(monkeypatch):
    seen = set()
    fit = SumsLearner.fit

    def noted(self, state, task):
        seen.add((bool(self.model.schema.classes), len(state["reports"]), task.round_number))
        return fit(self, state, task)

    monkeypatch.setattr(SumsLearner, "fit", noted)
    for pair in pairs_of("dp-boosting, report of a node"):
        pair.second()
    assert {kind for kind, _, _ in seen} == {True, False}
    assert {released for _, released, _ in seen} >= {0, 1, 2, 3, 4}
    assert {asked for _, _, asked in seen} >= {1, 2, 3, 4, 5}
    assert any(asked != released + 1 for _, released, asked in seen)  # as no honest server asks


# --- bugs that are planted, and must be found -------------------------------------------------------------------------


def found(name, pairs=100):
    return replay(name, REPLAYS[name], pairs=pairs, seed=5, stops=True).is_refuted


def known_noise():
    """Return noise of seed 0 that says it was secure."""
    noise = seeded_noise(0)
    return type("Known", (), {"is_secure": True, "discrete_laplace": staticmethod(noise.discrete_laplace)})()


@pytest.mark.parametrize("name", ["dp-boosting, report of a node", "dp-naive-bayes, report of a node"])
def test_secure_noise_of_a_known_seed_is_found(name, monkeypatch):
    monkeypatch.setattr(sums_learner, "secure_noise", known_noise)
    assert found(name)


@pytest.mark.parametrize("name", ["dp-boosting, report of a node", "dp-naive-bayes, report of a node"])
def test_a_replaced_record_that_is_booked_once_is_found(name, monkeypatch):
    relation, unit = NeighboringRelation.ADD_REMOVE, PrivacyUnit.RECORD
    once = lambda epsilon, settings: PrivacySpent(epsilon, relation, unit, True)  # noqa: E731
    monkeypatch.setattr(sums_learner, "largest_loss", once)
    assert found(name)


def unweighted(self, size, curvature, most):
    return np.ones(len(size))


def half_a_unit(self, round_number):
    return UNIT // 2


@pytest.mark.parametrize(
    ("model", "of_model", "slip"),
    [
        ("dp-glm", NoisyGLM, {"_weights": unweighted}),
        ("dp-glm", NoisyGLM, {"unit": half_a_unit}),
        ("dp-cox", NoisyCox, {"unit": half_a_unit}),
    ],
    ids=["no weights", "half a unit", "half a unit of Cox"],
)
def test_records_of_a_regression_that_add_more_than_is_paid_for_are_found(model, of_model, slip, monkeypatch):
    for name, planted in slip.items():
        monkeypatch.setattr(of_model, name, planted)
    assert found(f"{model}, report of a node")


def test_the_first_rounds_epsilon_in_later_rounds_is_found(monkeypatch):
    noisy = SumsLearner._noisy
    monkeypatch.setattr(
        SumsLearner,
        "_noisy",
        lambda self, sums, sensitivity, task: noisy(self, sums, sensitivity, replace(task, round_number=1)),
    )
    assert found("dp-boosting, report of a node")
    assert found("dp-boosting, later rounds of a node")


def test_sums_that_count_thrice_from_the_third_round_on_are_found(monkeypatch):
    asked = CyclicBoosting.asked_by
    monkeypatch.setattr(
        CyclicBoosting,
        "asked_by",
        lambda self, model, X, target: asked(self, model, X, target) * (3 if model is not None and model.steps else 1),
    )
    assert found("dp-boosting, later rounds of a node")


@pytest.mark.parametrize("name", ["dp-boosting, a sum of shares", "dp-naive-bayes, a sum of shares"])
def test_shares_that_are_calibrated_to_more_nodes_than_report_are_found(name, monkeypatch):
    plan = sums_models.SumsPlan.from_settings

    def more_shares(config, *, first):
        return replace(plan(config, first=first), shares=config.clients + 1)

    monkeypatch.setattr(sums_models.SumsPlan, "from_settings", more_shares)
    assert found(name)
