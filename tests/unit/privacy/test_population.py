"""Studies: the population's promise, and what is left of it for the nodes of the simulation."""

from __future__ import annotations

import pytest

from fedlearn.config import config_from
from fedlearn.core.errors import SettingError
from fedlearn.privacy.accounts import GaussianRounds, epsilon_of
from fedlearn.privacy.node_costs import NodePlan
from fedlearn.privacy.population import Study

REFERENCE = {
    "privacy.protects": "nodes", "privacy.epsilon": 2.0, "privacy.delta": 1e-6, "privacy.clip": 0.4, "clients": 1000,
    "rounds.cohort": 50, "rounds.total": 1500, "privacy.population": 10**6, "privacy.population_cohort": 1000,
}  # fmt: skip


ALL = {**REFERENCE, "privacy.population_cohort": 10**6}  # in every round: a closed form


@pytest.mark.long
def test_noise_on_the_mean_is_that_of_the_populations_cohort():
    plan = NodePlan.of(config_from(REFERENCE))
    assert plan.noise_multiplier / plan.expected == pytest.approx(0.6162 / 1000, rel=1e-3)  # pfl's reference setting


def test_for_these_nodes_no_sampling_is_claimed_and_almost_nothing_is_left():
    plan = NodePlan.of(config_from(ALL))
    alone = epsilon_of([GaussianRounds(plan.noise_multiplier, 1500)], delta=1e-6)
    assert plan.spent_after(1500) == alone > 10_000 * plan.epsilon
    assert "no sampling assumed" in str(plan.guarantee)


def test_without_a_cohort_the_population_takes_part_at_the_same_rate():
    plan = NodePlan.of(config_from({**REFERENCE, "privacy.population_cohort": 0}))
    assert plan.study == Study(10**6, 50_000, 50)


def test_noise_that_is_given_is_checked_against_the_populations_budget():
    plan = NodePlan.of(config_from(ALL))
    plan.keeping(plan.noise_multiplier).check()
    with pytest.raises(SettingError, match="1500 rounds cost epsilon"):
        plan.keeping(plan.noise_multiplier * 0.9).check()
