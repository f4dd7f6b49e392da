"""Audit cases of the mechanisms: two neighboring inputs each, which use the whole sensitivity.

Each case is the worst one known: the mechanism's loss equals its claim there, so that any slip shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy.accounts.epsilons import epsilon_of
from fedlearn.privacy.accounts.repeated_gaussian import GaussianRounds
from fedlearn.privacy.mechanisms import (
    disjoint_parts,
    exponential,
    geometric,
    laplace,
    noisy_quantile,
    permute_and_flip,
    polya_share,
)
from fedlearn.privacy.noise import Noise, seeded_noise

Release: TypeAlias = Callable[[int, Noise], NDArray[Any]]  # (draws, noise) -> (draws,) or (draws, k) outputs


@dataclass(frozen=True, slots=True)
class AuditCase:
    """A claim, and how to draw outputs on two neighboring data sets."""

    claimed: float | GaussianRounds  # nats, or the mechanism whose account is the claim
    first: Release
    second: Release
    cost: int = 1  # cost of a draw, relative to a vectorized mechanism: the number of draws is divided by it
    delta: float = 0.0

    @property
    def epsilon(self) -> float:
        """The claim in nats, at delta."""
        return (
            epsilon_of([self.claimed], delta=self.delta) if isinstance(self.claimed, GaussianRounds) else self.claimed
        )


def _laplace(values: list[float]) -> Release:
    return lambda draws, noise: laplace(np.tile(values, (draws, 1)), sensitivity=1.0, epsilon=1.0, noise=noise)


def _geometric(counts: list[int]) -> Release:
    return lambda draws, noise: geometric(np.tile(counts, (draws, 1)), epsilon=1.0, noise=noise)


def _shares(counts: list[int], *, shares: int, reports: int) -> Release:
    """Return the function that draws sums of reports with a share of noise each; shares are always seeded."""

    def draw(draws: int, noise: Noise) -> NDArray[Any]:
        seeded = seeded_noise(np.random.SeedSequence()) if noise.is_secure else noise
        empty, wide = np.zeros((draws, len(counts)), np.int64), np.tile(counts, (draws, 1))
        each = [wide] + [empty] * (reports - 1)  # the record is one of the first node
        sent = [polya_share(part, epsilon=1.0, shares=shares, noise=seeded) for part in each]
        return np.asarray(np.sum(sent, axis=0))

    return draw


def _exponential(utilities: list[float], *, monotone: bool) -> Release:
    return lambda draws, noise: exponential(
        np.tile(utilities, (draws, 1)), sensitivity=1.0, epsilon=1.0, noise=noise, monotone=monotone
    )


def _permute_and_flip(utilities: list[float], *, monotone: bool) -> Release:
    return lambda draws, noise: permute_and_flip(
        np.tile(utilities, (draws, 1)), sensitivity=1.0, epsilon=1.0, noise=noise, monotone=monotone
    )


def _median(values: list[float]) -> Release:
    def one(noise: Noise) -> float:
        return noisy_quantile(values, quantile=0.5, bounds=(0.0, 1.0), epsilon=1.0, noise=noise, candidates=2)

    return lambda draws, noise: np.array([one(noise) for _ in range(draws)])


def _parts(rows: int) -> Release:
    """Return the function that draws how many of the first three records share a part, (draws, 3), largest first."""

    def draw(draws: int, noise: Noise) -> NDArray[Any]:
        rng = np.random.default_rng(int(noise.discrete_laplace(2.0**40, 1)[0]) % 2**32)
        parts = (disjoint_parts(rows, count=3, rng=rng)[:3] for _ in range(draws))
        return np.array([np.sort(np.bincount(each, minlength=3))[::-1] for each in parts])

    return draw


_MANY = [0.0] * 30  # other candidates: the less likely the changing one, the closer the loss is to the claim

MECHANISM_CASES: dict[str, AuditCase] = {
    "laplace, one number": AuditCase(1.0, _laplace([0.0]), _laplace([1.0])),
    "laplace, two sums": AuditCase(1.0, _laplace([0.0, 0.0]), _laplace([0.5, 0.5])),
    "geometric": AuditCase(1.0, _geometric([3, 0]), _geometric([4, 0])),
    "shares of noise, the sum of all": AuditCase(
        1.0, _shares([3, 0], shares=3, reports=3), _shares([4, 0], shares=3, reports=3)
    ),
    "exponential": AuditCase(
        1.0, _exponential([*_MANY, 0.0], monotone=False), _exponential([*[-1.0] * 30, 1.0], monotone=False)
    ),
    "exponential, monotone": AuditCase(
        1.0, _exponential([*_MANY, 0.0], monotone=True), _exponential([*_MANY, 1.0], monotone=True)
    ),
    # Two candidates: the lower one wins with probability exp(-gap / scale) / 2, so the loss is the claim itself.
    "permute-and-flip": AuditCase(
        1.0, _permute_and_flip([0.0, 2.0], monotone=False), _permute_and_flip([1.0, 1.0], monotone=False)
    ),
    "permute-and-flip, monotone": AuditCase(
        1.0, _permute_and_flip([0.0, 1.0], monotone=True), _permute_and_flip([0.0, 0.0], monotone=True)
    ),
    # One more record says nothing about the parts of the others, as each draws its own: the loss is 0.
    "parts, where the others are": AuditCase(0.1, _parts(3), _parts(4), cost=20),
    # Two candidates, 0 and 1, equally good for a lone value between them. A record added at 1 makes 0 worse by a half
    # and 1 better by a half: the case above.
    "noisy quantile": AuditCase(1.0, _median([0.5]), _median([0.5, 1.0]), cost=5),
}

MECHANISM_PLANTED_BUGS: dict[str, AuditCase] = {
    "planted: one share of three does not come": AuditCase(
        1.0, _shares([3, 0], shares=3, reports=2), _shares([4, 0], shares=3, reports=2)
    ),
}
"""Cases whose loss exceeds the claim: the auditor must refute them."""
