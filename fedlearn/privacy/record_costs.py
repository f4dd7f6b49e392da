"""Costs of a run that protects single records by DP-SGD: rate, number of steps and noise, from declarations alone.

A node draws each batch by coins: each record takes part in a step with the same probability, independently of all
others (Poisson sampling). Steps, rate and the number by which a sum is divided follow from the declared number of
records, never from the true one, so the account holds whatever a node holds.

Source: Abadi et al. 2016 (arXiv:1607.00133); accounts of subsampled Gaussian noise: `fedlearn.privacy.accounts`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from fedlearn.core.errors import SettingError
from fedlearn.privacy.accounts import GaussianRounds, Guarantee, epsilon_of, noise_multiplier_for
from fedlearn.privacy.accounts.guarantee import sampled
from fedlearn.privacy.budget import NeighboringRelation, PrivacyUnit

if TYPE_CHECKING:
    from fedlearn.config import RunConfig

TRUST = "local noise"
SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class RecordPlan:
    """The steps of one node in a run, and the budget that they must keep to.

    Parameters
    ----------
    epsilon, delta : float
        Budget of the run.
    sampling_rate : float
        Probability with which a record is in a batch, in (0, 1].
    expected : float
        Expected size of a batch by the declared number of records: what each sum is divided by.
    steps : int
        Steps of one fit.
    fits : int
        Most rounds in which the node takes part.
    given : float, default=0.0
        Noise multiplier that the settings name; 0: the smallest that keeps to the budget.

    Examples
    --------
    >>> plan = RecordPlan(8.0, 1e-5, sampling_rate=0.2, expected=100.0, steps=5, fits=6, given=1.0)
    >>> plan.mechanism
    GaussianRounds(noise_multiplier=1.0, rounds=5, sampling_rate=0.2)
    """

    epsilon: float
    delta: float
    sampling_rate: float
    expected: float
    steps: int
    fits: int
    given: float = 0.0

    @classmethod
    def of(cls, config: RunConfig) -> RecordPlan:
        """Return the plan of a run.

        Raises
        ------
        SettingError
            If delta or the number of records is not declared.
        """
        privacy, training = config.privacy, config.training
        if not privacy.delta:
            raise SettingError("privacy.delta", 0.0, "Gaussian noise needs one: far below 1 / records, as 1e-6")
        if not privacy.records:
            why = "declare about how many records a client holds: it is public, and the true number stays unknown"
            raise SettingError("privacy.records", 0, why)
        batch = min(training.batch_size, privacy.records)
        return cls(
            privacy.epsilon,
            privacy.delta,
            sampling_rate=batch / privacy.records,
            expected=float(batch),
            steps=training.local_epochs * math.ceil(privacy.records / batch),
            fits=privacy.participations or config.rounds.total,
            given=privacy.noise_multiplier,
        )

    @property
    def mechanism(self) -> GaussianRounds:
        """The mechanism of one fit."""
        noise = self.given or noise_multiplier_for(
            self.epsilon, delta=self.delta, rounds=self.planned, sampling_rate=self.sampling_rate
        )
        return GaussianRounds(noise, self.steps, self.sampling_rate)

    @property
    def planned(self) -> int:
        """Steps of all fits together."""
        return self.steps * self.fits

    @property
    def guarantee(self) -> Guarantee:
        """What the whole run promises for a record of a node."""
        return Guarantee(
            self.epsilon,
            self.delta,
            NeighboringRelation.ADD_REMOVE,
            PrivacyUnit.RECORD,
            TRUST,
            sampled(PrivacyUnit.RECORD, self.sampling_rate),
        )

    def check(self) -> None:
        """Raise SettingError where the given noise costs more than the budget."""
        if self.given:
            cost = _epsilon(GaussianRounds(self.given, self.planned, self.sampling_rate), self.delta, "pld")
            if cost > self.epsilon * (1 + SLACK):
                raise SettingError(
                    "privacy.noise_multiplier", self.given,
                    f"{self.planned} steps at rate {self.sampling_rate:g} cost epsilon {cost:.4g}, and privacy.epsilon "
                    f"is {self.epsilon:g}: leave it out, and it is calibrated",
                )  # fmt: skip

    def spent_after(self, fits: int) -> float:
        """Return an upper bound on epsilon after some fits; that of all is exact, those before by Renyi divergences."""
        mechanism = self.mechanism
        rounds = min(fits, self.fits) * self.steps
        return min(_epsilon(GaussianRounds(mechanism.noise_multiplier, rounds, self.sampling_rate), self.delta, "rdp"),
                   self.epsilon)  # fmt: skip


@lru_cache(maxsize=4096)
def _epsilon(mechanism: GaussianRounds, delta: float, accountant: str) -> float:
    return epsilon_of([mechanism], delta=delta, accountant="pld" if accountant == "pld" else "rdp")
