"""Noise of a study: that of a population which is larger than the nodes of the simulation.

A paper says what a federation of a million nodes would reach, and simulates a thousand of them. The noise on the mean
of a round is then that of the population's cohort, so a simulated cohort's sum gets less: noise_multiplier * expected /
cohort clipping norms. The promise is the population's. These nodes themselves have far less of one, and every result
says how much.

Source: McMahan et al. 2018 (arXiv:1710.06963), section 4; as "noise cohort size" in pfl-research (arXiv:2404.06430).
"""

from __future__ import annotations

from dataclasses import dataclass

from fedlearn.privacy.accounts import GaussianRounds, Guarantee, epsilon_of, epsilons_by_round, noise_multiplier_for
from fedlearn.privacy.accounts.guarantee import sampled
from fedlearn.privacy.budget import NeighboringRelation, PrivacyUnit


@dataclass(frozen=True, slots=True)
class Study:
    """A population, of which the nodes of a simulation are a few.

    Parameters
    ----------
    nodes : int
        Number of nodes of the population.
    cohort : int
        Expected number of them in a round, by Poisson sampling.
    expected : int
        Expected number of simulated nodes in a round.

    Examples
    --------
    >>> Study(1_000_000, 1000, 50).scale
    0.05
    """

    nodes: int
    cohort: int
    expected: int

    @property
    def scale(self) -> float:
        """Noise on the simulated sum, relative to that on the population's."""
        return self.expected / self.cohort

    @property
    def rate(self) -> float:
        """Probability with which a node of the population takes part in a round."""
        return self.cohort / self.nodes

    def noise_multiplier(self, epsilon: float, delta: float, rounds: int) -> float:
        """Return the noise on the simulated sum, in clipping norms, that keeps the population's promise."""
        of_all = noise_multiplier_for(epsilon, delta=delta, rounds=rounds, sampling_rate=self.rate)
        return of_all * self.scale

    def mechanism(self, noise_multiplier: float, rounds: int) -> GaussianRounds:
        """Return the population's mechanism where the simulated sum has so much noise."""
        of_all = float(f"{noise_multiplier / self.scale:.12g}")  # as it was calibrated, and its account kept
        return GaussianRounds(of_all, rounds, self.rate)

    def epsilons(self, noise_multiplier: float, rounds: int, delta: float) -> list[float]:
        """Return an upper bound on the population's epsilon after each round, (rounds,), in nats."""
        return epsilons_by_round(self.mechanism(noise_multiplier, rounds), delta=delta)

    def epsilon(self, noise_multiplier: float, rounds: int, delta: float) -> float:
        """Return an upper bound on the population's epsilon after all rounds, in nats."""
        return epsilon_of([self.mechanism(noise_multiplier, rounds)], delta=delta)

    def guarantee(self, epsilon: float, delta: float, trust: str) -> Guarantee:
        """Return the population's promise, which is none to the nodes of the simulation."""
        sampling = sampled(PrivacyUnit.NODE, self.rate)
        return Guarantee(epsilon, delta, NeighboringRelation.ADD_REMOVE, PrivacyUnit.NODE, trust, sampling)

    def __str__(self) -> str:
        """Return the population in words."""
        return f"as if of {self.nodes:,} clients, {self.cohort:,} a round"
