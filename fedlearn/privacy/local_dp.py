"""Costs of a run in which nodes protect themselves whole, by noise that they add to their own change.

*Local noise*: a node adds all of it, so its report is private by itself. *Distributed noise*: it adds a share, and the
sum of at least `shares` reports is private, of which nobody sees less. Either way a round in which a node takes part is
one Gaussian mechanism, between the node's change and zeros in its place. What a node has spent follows from the rounds
in which it has taken part, which its own ledger counts; no amplification by sampling is claimed, as those who select
nodes know which they are.

Source: the zero-out relation is that of Kairouz et al. 2021 (arXiv:2103.00039), section 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import SettingError
from fedlearn.privacy.accounts import GaussianRounds, Guarantee, epsilon_of, noise_multiplier_for
from fedlearn.privacy.accounts.skellam_account import skellam_multiplier_for
from fedlearn.privacy.budget import NeighboringRelation, PrivacyUnit
from fedlearn.privacy.clipping import SLACK
from fedlearn.privacy.honest_count import honest_shares
from fedlearn.privacy.mechanisms import gaussian, gaussian_share, skellam
from fedlearn.privacy.mechanisms.gaussian_share import share_deviation, whole_steps
from fedlearn.privacy.mechanisms.skellam import share_scale
from fedlearn.privacy.noise import Noise

if TYPE_CHECKING:
    from fedlearn.config import RunConfig

FITS = 1e-9  # relative: a calibrated noise multiplier fits its own budget up to rounding
FAR = 8.0  # standard deviations
WIDEST = 2.0**16  # steps: the widest Skellam noise that is drawn exactly
Flat = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class OwnNoise:
    """The noise that a node adds to its change, and the budget to which its rounds must keep.

    Parameters
    ----------
    epsilon, delta : float
        Budget of a node for the run.
    clip : float
        Largest L2 norm of a node's change.
    rounds : int
        Most rounds in which one node takes part.
    shares : int, default=0
        Reports with honest noise in the smallest sum; 0 for local noise.
    reach : int, default=0
        Steps of the public grid in clip, where changes are sent as whole numbers: with distributed noise.
    given : float, default=0.0
        Noise multiplier that the settings name; 0: the smallest that keeps to the budget.
    is_skellam : bool, default=False
        Whether shares are of Skellam noise, which is accounted by Renyi divergences; else they are discrete Gaussian.

    Examples
    --------
    >>> noise = OwnNoise(8.0, 1e-5, clip=0.5, rounds=30)
    >>> round(noise.multiplier, 5), round(noise.spent_after(1), 3), round(noise.spent_after(99), 3)
    (3.28759, 1.149, 8.0)
    """

    epsilon: float
    delta: float
    clip: float
    rounds: int
    shares: int = 0
    reach: int = 0
    given: float = 0.0
    is_skellam: bool = False

    @classmethod
    def of(cls, config: RunConfig) -> OwnNoise:
        """Return the noise of a run; raise SettingError if delta is not declared, or colluders leave no share."""
        privacy = config.privacy
        if not privacy.delta:
            raise SettingError("privacy.delta", 0.0, "Gaussian noise needs one: far below 1 / clients, as 1e-6")
        rounds = privacy.participations or config.rounds.total
        is_shared = privacy.trust == "distributed"
        return cls(
            privacy.epsilon,
            privacy.delta,
            clip=privacy.clip,
            rounds=rounds,
            shares=honest_shares(config) if is_shared else 0,
            reach=1 << (config.secure.bits - 1) if is_shared else 0,
            given=privacy.noise_multiplier,
            is_skellam=is_shared and privacy.shares == "skellam",
        )

    @property
    def multiplier(self) -> float:
        """Standard deviation of the noise that protects, divided by clip: of a report, or of the smallest sum."""
        if self.is_skellam and not self.given:
            return skellam_multiplier_for(self.epsilon, delta=self.delta, rounds=self.rounds)
        return self.given or noise_multiplier_for(self.epsilon, delta=self.delta, rounds=self.rounds)

    @property
    def mechanism(self) -> GaussianRounds:
        """The mechanism of one round in which the node takes part."""
        return GaussianRounds(self.multiplier, 1, is_skellam=self.is_skellam)

    @property
    def guarantee(self) -> Guarantee:
        """What the whole run promises for a node."""
        trust = f"at least {self.shares} clients of a sum keep their noise to themselves" if self.shares else "no trust"
        sampling = f"no sampling assumed, zeros in the client's place, {self.rounds} rounds of a client at most"
        return Guarantee(self.epsilon, self.delta, NeighboringRelation.ADD_REMOVE, PrivacyUnit.NODE, trust, sampling)

    @property
    def deviation(self) -> float:
        """Standard deviation of one share of the noise, in steps of the grid.

        Raises
        ------
        SettingError
            If it is too small for the proof.
        """
        try:
            if not self.is_skellam:
                return share_deviation(self.reach, self.multiplier, self.shares)
            scale = share_scale(self.reach, self.multiplier, self.shares)
        except ValueError as error:
            raise SettingError("secure.bits", self.reach.bit_length(), f"{error}; use more bits") from None
        if scale > WIDEST:
            raise SettingError(
                "secure.bits", self.reach.bit_length(),
                f"a share of Skellam noise would be {scale:,.0f} steps wide, and {WIDEST:,.0f} are drawn at most: use "
                f"{math.ceil(math.log2(scale / WIDEST))} bits fewer, or privacy.shares = 'gaussian'",
            )  # fmt: skip
        return scale

    def check(self) -> None:
        """Raise SettingError where the noise that is given costs more than the budget, or the grid is too coarse."""
        cost = self._cost(self.rounds) if self.given else 0.0
        if cost > self.epsilon * (1 + FITS):
            raise SettingError(
                "privacy.noise_multiplier", self.given,
                f"{self.rounds} rounds of a client cost epsilon {cost:.4g}, and privacy.epsilon is {self.epsilon:g}: "
                "leave it out, and it is calibrated",
            )  # fmt: skip
        if self.shares:
            _ = self.deviation  # which refuses a grid that is too coarse

    def spent_after(self, rounds: int) -> float:
        """Return an upper bound on epsilon of a node after so many rounds in which it took part, in nats."""
        return min(self._cost(min(rounds, self.rounds)), self.epsilon) if rounds else 0.0

    def _cost(self, rounds: int) -> float:
        return _epsilon(replace(self.mechanism, rounds=rounds), self.delta)

    def largest_norm(self, entries: int) -> float:
        """Return an L2 norm of so many entries that an honest report with local noise exceeds with 1e-14 at most.

        The norm of d standard Gaussian numbers exceeds sqrt(d) + t with a probability of at most exp(-t^2 / 2).
        """
        return self.clip * (1 + SLACK) * (1 + self.multiplier * (math.sqrt(entries) + FAR))

    def added_to(self, change: Flat, noise: Noise) -> Flat:
        """Return a clipped change with local noise, (entries,)."""
        return gaussian(change, clip=self.clip * (1 + SLACK), noise_multiplier=self.multiplier, noise=noise)

    def share_added_to(self, change: Flat, noise: Noise) -> NDArray[np.int64]:
        """Return a change in whole steps, shortened to clip, with a share of the noise, (entries,)."""
        steps = whole_steps(change, clip=self.clip, reach=self.reach)
        share = skellam if self.is_skellam else gaussian_share
        return share(steps, sensitivity=self.reach, noise_multiplier=self.multiplier, shares=self.shares, noise=noise)


@lru_cache(maxsize=4096)
def _epsilon(mechanism: GaussianRounds, delta: float) -> float:
    return epsilon_of([mechanism], delta=delta)
