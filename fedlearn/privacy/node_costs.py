"""Costs of a run that protects whole nodes: noise, sampling and what has been spent after each round.

Each node clips its change; a trusted server adds noise to the sum of a round and divides it by the expected number of
nodes. What one node changes in one round has an L2 norm of at most `privacy.clip`, so each committed round is one
Gaussian answer.

*With the Poisson selector* each node takes part with the same probability, independently of all others: add or remove
one node; the account claims the amplification. *With a fixed cohort* nothing is claimed of the draw: the promise is
that one node's reports come or do not come while the others are drawn alike. Where another node would be drawn in its
place, a sum moves by twice as much: `NodePlan.replaced` says what the promise is then.

*With a separation* nothing is claimed of the draw, and the noise of rounds is correlated
(`fedlearn.privacy.factorization`): all rounds together are one Gaussian answer C x + z, of the sensitivity of C for
participations so far apart, which each node enforces. The first t rows of C are what t rounds have answered.

*With a population* the noise keeps the promise to its nodes, and `spent_by_round` is what these nodes get of it.

Source: McMahan et al. 2018 (arXiv:1710.06963); "reports come or do not come" is the zero-out relation of Kairouz et al.
2021 (arXiv:2103.00039), section 2; correlated noise: Choquette-Choo et al. 2023 (arXiv:2306.08153).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from fedlearn.core.errors import SettingError
from fedlearn.privacy.accounts import GaussianRounds, Guarantee, epsilon_of, epsilons_by_round, noise_multiplier_for
from fedlearn.privacy.accounts.guarantee import sampled
from fedlearn.privacy.budget import NeighboringRelation, PrivacyUnit
from fedlearn.privacy.factorization.inverse_banded import Factorization
from fedlearn.privacy.factorization.planning import best_factorization
from fedlearn.privacy.population import Study

if TYPE_CHECKING:
    from fedlearn.config import RunConfig

TRUST = "trusted server"
FIXED = "no sampling assumed, the draw of the others held fixed"
WAITING = FIXED + "; each client waits {separation} rounds from one turn to its next, which its own memory enforces"
SLACK = 1e-9  # relative: a calibrated noise multiplier fits its own budget up to rounding


@dataclass(frozen=True, slots=True)
class NodePlan:
    """The noise of a run, and the budget that its rounds must keep to.

    Parameters
    ----------
    epsilon, delta : float
        Budget of the run.
    clip : float
        Largest L2 norm of one node's change.
    rounds : int
        Rounds that the run is to commit.
    expected : int
        Expected number of nodes of a round, which is public: what each sum is divided by.
    sampling_rate : float, default=1.0
        Probability with which a node takes part in a round; 1 where no amplification is claimed.
    given : float, default=0.0
        Noise multiplier that the settings name, or that the run began with; 0: the smallest that keeps to the budget.
    separation : int, default=1
        Fewest rounds from one participation of a node to its next.
    correlation : Banded or InverseBanded, optional
        Matrix C that correlates the noise of rounds, with a row for each; None: it is independent.
    study : Study, optional
        Population for which the noise is meant; None: it is meant for these nodes.
    clients : int, default=0
        Number of nodes of the run.

    Examples
    --------
    >>> plan = NodePlan(8.0, 1e-5, clip=0.5, rounds=30, expected=20)
    >>> round(plan.noise_multiplier, 5), round(plan.spent_after(1), 3), round(plan.spent_after(30), 3)
    (3.28759, 1.149, 8.0)
    """

    epsilon: float
    delta: float
    clip: float
    rounds: int
    expected: int
    sampling_rate: float = 1.0
    given: float = 0.0
    separation: int = 1
    correlation: Factorization | None = None
    study: Study | None = None
    clients: int = 0

    @classmethod
    def of(cls, config: RunConfig) -> NodePlan:
        """Return the plan of a run; raise SettingError if delta is not declared."""
        privacy = config.privacy
        if not privacy.delta:
            raise SettingError("privacy.delta", 0.0, "Gaussian noise needs one: far below 1 / clients, as 1e-6")
        is_sampled, separation = config.samples_poisson, privacy.separation
        return cls(
            privacy.epsilon,
            privacy.delta,
            clip=privacy.clip,
            rounds=config.rounds.total,
            expected=config.goal_count,
            sampling_rate=config.goal_count / config.clients if is_sampled and not privacy.population else 1.0,
            given=privacy.noise_multiplier,
            separation=separation,
            correlation=_best(config.rounds.total, separation, privacy.bands) if separation > 1 else None,
            study=_study_of(config) if privacy.population else None,
            clients=config.clients,
        )

    @property
    def noise_multiplier(self) -> float:
        """Standard deviation of the noise that is drawn for a round, divided by clip."""
        if self.study is not None and not self.given:
            return self.study.noise_multiplier(self.epsilon, self.delta, self.rounds)
        if self.given or self.correlation is None:
            return self.given or noise_multiplier_for(
                self.epsilon, delta=self.delta, rounds=self.rounds, sampling_rate=self.sampling_rate
            )
        one = noise_multiplier_for(self.epsilon, delta=self.delta, rounds=1)
        return one * self.correlation.sensitivity(self.separation)

    @property
    def mechanism(self) -> GaussianRounds:
        """The mechanism of all rounds."""
        return self._after(self.rounds)

    def _after(self, rounds: int) -> GaussianRounds:
        """Return the mechanism of the first rounds."""
        if self.correlation is None:
            return GaussianRounds(self.noise_multiplier, rounds, self.sampling_rate)
        return GaussianRounds(self.noise_multiplier / self.correlation.first(rounds).sensitivity(self.separation), 1)

    @property
    def guarantee(self) -> Guarantee:
        """What the whole run promises for a node."""
        sampling = FIXED if self.sampling_rate == 1 else sampled(PrivacyUnit.NODE, self.sampling_rate)
        sampling = sampling if self.correlation is None else WAITING.format(separation=self.separation)
        return Guarantee(self.epsilon, self.delta, NeighboringRelation.ADD_REMOVE, PrivacyUnit.NODE, TRUST, sampling)

    def check(self) -> None:
        """Raise SettingError where the noise that is given costs more than the budget."""
        if self.correlation is not None and self.rounds > self.correlation.rounds:
            raise SettingError(
                "rounds.total", self.rounds,
                f"the noise of this run was correlated for {self.correlation.rounds} rounds: take no more of them",
            )  # fmt: skip
        paid = self.mechanism if self.study is None else self.study.mechanism(self.noise_multiplier, self.rounds)
        cost = epsilon_of([paid], delta=self.delta) if self.given else 0.0
        if cost > self.epsilon * (1 + SLACK):
            raise SettingError(
                "privacy.noise_multiplier", self.given,
                f"{self.rounds} rounds cost epsilon {cost:.4g}, and privacy.epsilon is {self.epsilon:g}: leave it out, "
                "and it is calibrated; a run that has begun keeps its noise, so take no more rounds than it began with",
            )  # fmt: skip

    def spent_after(self, rounds: int) -> float:
        """Return an upper bound on epsilon after so many committed rounds, in nats."""
        return self.spent_by_round()[rounds - 1] if rounds else 0.0

    def spent_by_round(self) -> list[float]:
        """Return an upper bound on epsilon after each round, (rounds,), in nats."""
        if self.correlation is None:
            return epsilons_by_round(self.mechanism, delta=self.delta)
        return [epsilon_of([self._after(number)], delta=self.delta) for number in range(1, self.rounds + 1)]

    def replaced(self, rounds: int) -> float:
        """Return epsilon after so many rounds where another node is drawn in a node's place: sums move by 2 clip."""
        once = self._after(rounds).without_sampling()
        moved = replace(once, noise_multiplier=once.noise_multiplier / 2)
        return epsilon_of([moved], delta=self.delta)

    def keeping(self, noise_multiplier: float, correlation: Factorization | None = None) -> NodePlan:
        """Return the plan of a run that goes on with the noise it began with."""
        return replace(self, given=noise_multiplier, correlation=correlation or self.correlation)


def _study_of(config: RunConfig) -> Study:
    nodes, expected = config.privacy.population, config.goal_count
    cohort = config.privacy.population_cohort or max(round(nodes * expected / config.clients), 1)
    return Study(nodes, cohort, expected)


@cache
def _best(rounds: int, separation: int, most_bands: int) -> Factorization:
    return best_factorization(rounds, separation, most_bands)
