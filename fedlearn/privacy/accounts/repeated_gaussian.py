"""One Gaussian mechanism that is repeated: all that an account needs to know."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class GaussianRounds:
    """A Gaussian mechanism, repeated with the same parameters.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise, divided by the L2 sensitivity: the largest change of a sum when one unit is
        added or removed. Above 0.
    rounds : int
        Number of repetitions, 0 or more.
    sampling_rate : float, default=1.0
        Probability with which each unit takes part in a repetition, independently of all others (Poisson sampling), in
        (0, 1]. The draws must be secret. 1 claims no amplification.
    is_skellam : bool, default=False
        Whether the noise is Skellam's (`fedlearn.privacy.skellam`): of its Renyi divergences those of whole orders
        alone are the Gaussian's. It has a sampling rate of 1.

    Raises
    ------
    ValueError
        If a parameter is outside of its range.

    Examples
    --------
    >>> GaussianRounds(1.1, 30, sampling_rate=0.2).gaussian_mu
    4.9792...
    """

    noise_multiplier: float
    rounds: int
    sampling_rate: float = 1.0
    is_skellam: bool = field(default=False, repr=False)  # its text is a key of what is kept, none of Skellam noise

    def __post_init__(self) -> None:
        """Raise ValueError for a parameter outside of its range; store plain numbers."""
        noise, rate = _number(self.noise_multiplier), _number(self.sampling_rate)
        if not 0 < noise < math.inf:
            raise ValueError(f"noise_multiplier = {self.noise_multiplier!r}: must be finite and above 0")
        if isinstance(self.rounds, bool) or not isinstance(self.rounds, int) or self.rounds < 0:
            raise ValueError(f"rounds = {self.rounds!r}: must be a whole number from 0 on")
        if not 0 < rate <= 1:
            raise ValueError(f"sampling_rate = {self.sampling_rate!r}: must be above 0 and at most 1")
        if not isinstance(self.is_skellam, bool) or (self.is_skellam and rate < 1):
            raise ValueError(f"is_skellam = {self.is_skellam!r}: of Skellam noise no amplification is known")
        object.__setattr__(self, "noise_multiplier", noise)
        object.__setattr__(self, "sampling_rate", rate)

    @property
    def gaussian_mu(self) -> float:
        """The mu of Gaussian differential privacy that holds without any sampling: sqrt(rounds) / noise_multiplier.

        Source: Dong, Roth, Su 2022 (arXiv:1905.02383), theorem 1 and corollary 2.
        """
        return math.sqrt(self.rounds) / self.noise_multiplier

    def without_sampling(self) -> GaussianRounds:
        """Return the same rounds with no claim of amplification."""
        return replace(self, sampling_rate=1.0)


def _number(value: object) -> float:
    """Return a real number as a float; NaN for anything else."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def merged(parts: Iterable[GaussianRounds]) -> tuple[GaussianRounds, ...]:
    """Return the parts in a fixed order, those with equal noise and rate added up, those of no rounds left out.

    >>> merged([GaussianRounds(2.0, 3), GaussianRounds(1.0, 1, 0.5), GaussianRounds(2.0, 4)])[1]
    GaussianRounds(noise_multiplier=2.0, rounds=7, sampling_rate=1.0)
    """
    rounds: dict[tuple[float, float, bool], int] = {}
    for part in parts:
        key = part.noise_multiplier, part.sampling_rate, part.is_skellam
        rounds[key] = rounds.get(key, 0) + part.rounds
    return tuple(
        GaussianRounds(noise, count, rate, is_skellam)
        for (noise, rate, is_skellam), count in sorted(rounds.items())
        if count
    )
