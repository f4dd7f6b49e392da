"""Audit cases of Gaussian noise: single answers, sampled rounds, shares, correlated rounds; and what goes wrong there.

The claims are epsilons at a delta so large that an audit by experiment can come near them. Columns of one call are the
draws: their noise is independent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.auditing.cases import AuditCase, Release
from fedlearn.privacy.accounts.repeated_gaussian import GaussianRounds
from fedlearn.privacy.adaptive_clip import AdaptiveClip
from fedlearn.privacy.factorization.banded import square_root
from fedlearn.privacy.factorization.correlated_noise import CorrelatedNoise
from fedlearn.privacy.mechanisms import gaussian, gaussian_share, skellam
from fedlearn.privacy.noise import Noise

DELTA = 0.03
RATE, ROUNDS, SAMPLED = 0.3, 4, GaussianRounds(0.8, 4, 0.3)
BANDS, LENGTH = 3, 7


def _one(values: list[float], *, noise_multiplier: float = 1.0) -> Release:
    def draw(draws: int, noise: Noise) -> NDArray[Any]:
        return gaussian(np.tile(values, (draws, 1)), clip=1.0, noise_multiplier=noise_multiplier, noise=noise)

    return draw


def _shares(step: int, *, reports: int, share: Callable[..., NDArray[Any]] = skellam) -> Release:
    """Return the function that draws sums of reports with a third of the noise each; steps of a grid, 40 a clip."""

    def draw(draws: int, noise: Noise) -> NDArray[Any]:
        sent = [
            share(
                np.full(draws, step if number == 0 else 0), sensitivity=40, noise_multiplier=1.0, shares=3, noise=noise
            )
            for number in range(reports)
        ]
        return np.asarray(np.sum(sent, axis=0))

    return draw


Participation = Callable[[int, Noise], NDArray[np.bool_]]  # draws -> (draws, rounds): in which rounds the unit is


def _sampled(draws: int, noise: Noise) -> NDArray[np.bool_]:
    return _rng(noise).random((draws, ROUNDS)) < RATE


def _fixed(draws: int, noise: Noise) -> NDArray[np.bool_]:
    """Return one round of four for every draw: a cohort whose turn everybody knows."""
    return np.tile([True, False, False, True], (draws, 1))


def _rng(noise: Noise) -> np.random.Generator:
    return np.random.default_rng(int(noise.discrete_gaussian(2.0**40, 1)[0]) % 2**32)


def _rounds(value: float, participation: Participation, *, is_reused: bool = False) -> Release:
    """Return the function that draws the sums of all rounds, in which the unit sends the value where it takes part."""

    def draw(draws: int, noise: Noise) -> NDArray[Any]:
        sums = np.where(participation(draws, noise), value, 0.0)
        if not is_reused:
            return gaussian(sums, clip=1.0, noise_multiplier=SAMPLED.noise_multiplier, noise=noise)
        drawn = gaussian(np.zeros((draws, 1)), clip=1.0, noise_multiplier=SAMPLED.noise_multiplier, noise=noise)
        return np.diff(sums + drawn)  # the noise of two rounds is the same: it is gone in their difference

    return draw


def _divided(values: list[float], *, expected: int | None) -> Release:
    """Return the function that draws a noisy mean, divided by the expected number of units or by those who came."""

    def draw(draws: int, noise: Noise) -> NDArray[Any]:
        by = expected or len(values)
        means = np.full((draws, 1), sum(values) / by)
        return gaussian(means, clip=1.0 / (expected or 3), noise_multiplier=1.0, noise=noise)

    return draw


def _correlated(rounds: tuple[int, ...]) -> Release:
    """Return the function that draws the answers of all rounds, of which a unit of value 1 is in some."""

    def draw(draws: int, noise: Noise) -> NDArray[Any]:
        state = CorrelatedNoise(square_root(LENGTH, BANDS), BANDS, clip=1.0, noise_multiplier=1.0)
        sums = [np.full(draws, float(number in rounds)) for number in range(LENGTH)]
        answers = np.stack([state.added(each, state.draw(draws, noise)) for each in sums], axis=1)
        return answers @ state.factorization.matrix().T  # what an attacker looks at: C x + z

    return draw


def _resumed(value: float, *, keeps_rows: bool) -> Release:
    """Return the function that draws two rounds' answers, the second one three times, after kills.

    A run that keeps the row of a round that was told repeats its answer; one that draws it again tells the sum thrice.
    """

    def draw(draws: int, noise: Noise) -> NDArray[Any]:
        state = CorrelatedNoise(square_root(2, 2), 2, clip=1.0, noise_multiplier=1.0)
        first = state.added(np.zeros(draws), state.draw(draws, noise))
        rows = [replace(state).draw(draws, noise) for _ in range(1 if keeps_rows else 3)]
        second = [state.added(np.full(draws, value), row) for row in rows]
        return np.stack([first, np.mean(second, axis=0)], axis=1) @ state.factorization.matrix().T

    return draw


def _within(is_there: bool, *, is_exact: bool = False) -> Release:
    """Return the function that draws the sum of one node's change and of whether it was within the clipping norm."""
    steps = AdaptiveClip(0.5, noise_multiplier=1.0, expected=20, first=1.0)
    vector = steps.joined(np.array([1.0]), 0.5, 1.0) if is_there else np.zeros(2)

    def draw(draws: int, noise: Noise) -> NDArray[Any]:
        noisy = gaussian(np.tile(vector, (draws, 1)), clip=1.0, noise_multiplier=1.0, noise=noise)
        return np.where([False, is_exact], vector, noisy)

    return draw


def _case(claimed: GaussianRounds, first: Release, second: Release) -> AuditCase:
    return AuditCase(claimed, first, second, delta=DELTA)


ONE = GaussianRounds(1.0, 1)

GAUSSIAN_CASES: dict[str, AuditCase] = {
    "gaussian, one number": _case(ONE, _one([0.0]), _one([1.0])),
    "gaussian, a vector": _case(ONE, _one([0.0] * 4), _one([0.5] * 4)),
    "skellam, the sum of all shares": _case(ONE, _shares(0, reports=3), _shares(40, reports=3)),
    "discrete Gaussian shares, the sum of all": _case(
        ONE, _shares(0, reports=3, share=gaussian_share), _shares(40, reports=3, share=gaussian_share)
    ),
    "gaussian rounds, Poisson sampling": _case(SAMPLED, _rounds(1.0, _sampled), _rounds(0.0, _sampled)),
    "noisy mean, divided by the expected number": _case(
        ONE, _divided([-1.0, -1.0], expected=3), _divided([-1.0, -1.0, -1.0], expected=3)
    ),
    "a change and whether it was within the clipping norm": _case(ONE, _within(True), _within(False)),
    "correlated noise, all turns of a unit": _case(ONE, _correlated((0, 3, 6)), _correlated(())),
    "correlated noise, a round told again": _case(ONE, _resumed(1.0, keeps_rows=True), _resumed(0.0, keeps_rows=True)),
}

GAUSSIAN_PLANTED_BUGS: dict[str, AuditCase] = {
    "planted: half of the Gaussian noise": _case(
        ONE, _one([0.0], noise_multiplier=0.5), _one([1.0], noise_multiplier=0.5)
    ),
    "planted: clipped parameter by parameter": _case(ONE, _one([0.0] * 4), _one([1.0] * 4)),
    "planted: two of three shares do not come": _case(ONE, _shares(0, reports=1), _shares(40, reports=1)),
    "planted: two of three discrete Gaussian shares do not come": _case(
        ONE, _shares(0, reports=1, share=gaussian_share), _shares(40, reports=1, share=gaussian_share)
    ),
    "planted: a fixed cohort accounted as sampled": _case(SAMPLED, _rounds(1.0, _fixed), _rounds(0.0, _fixed)),
    "planted: three rounds accounted as one": _case(ONE, _one([0.0] * 3), _one([1.0] * 3)),
    "planted: noise of a round used again": _case(
        SAMPLED, _rounds(1.0, _sampled, is_reused=True), _rounds(0.0, _sampled, is_reused=True)
    ),
    "planted: divided by those who came": _case(
        ONE, _divided([-1.0, -1.0], expected=None), _divided([-1.0, -1.0, 1.0], expected=None)
    ),
    "planted: the number within the clipping norm without noise": _case(
        ONE, _within(True, is_exact=True), _within(False, is_exact=True)
    ),
    "planted: noise of a study accounted as of these nodes": _case(
        ONE, _one([0.0], noise_multiplier=0.2), _one([1.0], noise_multiplier=0.2)
    ),
    "planted: a row of noise drawn again after a kill": _case(
        ONE, _resumed(1.0, keeps_rows=False), _resumed(0.0, keeps_rows=False)
    ),
    "planted: turns closer than the separation": _case(ONE, _correlated((0, 1, 2, 3, 4, 5, 6)), _correlated(())),
}
"""Cases whose loss exceeds the claim: the auditor must refute them."""
