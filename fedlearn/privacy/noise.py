"""Noise of privacy mechanisms: one interface, two sources.

*Secure*: exact samplers on the operating system's randomness (`exact`); the same noise cannot be drawn again.
*Seeded*: numpy; the seed is enough to subtract the noise, so it protects no one, and ``notice`` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedlearn.privacy import exact, exact_columns, exact_gaussian, exact_shares, exact_skellam

Shape: TypeAlias = int | tuple[int, ...]
LAPLACE_BITS = 40  # the secure continuous Laplace lies on a grid of scale * 2^-40
ROUNDED_FROM = 2.0**12  # scale from which the seeded discrete Gaussian is a rounded Gaussian: 1e-9 apart


class Noise(Protocol):
    """A source of noise. ``scale`` broadcasts to the shape (selection: over the rows); 0 = no noise.

    Attributes
    ----------
    is_secure : bool
        Whether the noise protects.
    notice : str
        Warning that every result must show; empty if there is none.

    Examples
    --------
    >>> noise = seeded_noise(0)
    >>> noise.discrete_laplace(0.0, 3)
    array([0, 0, 0])
    >>> noise.notice
    'seeded noise: reproducible, protects nobody'
    """

    @property
    def is_secure(self) -> bool:
        """Whether the noise protects."""

    @property
    def notice(self) -> str:
        """Warning that every result must show; empty if there is none."""

    def laplace(self, scale: ArrayLike, shape: Shape) -> NDArray[np.float64]:
        """Return noise of density exp(-abs(z) / scale) / (2 scale).

        Added to float64 values this noise leaks through rounding (Mironov 2012); ``mechanisms.laplace`` does not.
        """

    def discrete_laplace(self, scale: ArrayLike, shape: Shape) -> NDArray[np.int64]:
        """Return integers with probability proportional to exp(-abs(z) / scale)."""

    def discrete_gaussian(self, scale: ArrayLike, shape: Shape) -> NDArray[np.int64]:
        """Return integers with probability proportional to exp(-z^2 / (2 scale^2)); scale is below 2^44."""

    def skellam(self, scale: float, shape: Shape) -> NDArray[np.int64]:
        """Return differences of two Poisson numbers of mean scale^2 / 2 each; scale is at most 2^16.

        Sums of independent ones are Skellam numbers, too, and their variances add up.
        """

    def polya_share(self, scale: ArrayLike, shares: int, shape: Shape) -> NDArray[np.int64]:
        """Return integers; the sum of `shares` independent ones has the distribution of `discrete_laplace`."""

    def permute_and_flip(self, utilities: ArrayLike, scale: ArrayLike) -> NDArray[np.int64]:
        """Return the noisy argmax of each row, (rows,), under one-sided exponential noise of ``scale``.

        ``utilities`` is (rows, candidates); -inf = not a candidate; scale 0 = the first argmax.
        """

    def gumbel_max(self, utilities: ArrayLike, scale: ArrayLike) -> NDArray[np.int64]:
        """Return one candidate per row, (rows,), with probability proportional to exp(utility / scale)."""


def secure_noise() -> Noise:
    """Return noise for real data: unpredictable, exact, less than a microsecond per draw of many.

    Examples
    --------
    >>> secure_noise().is_secure
    True
    """
    return _SecureNoise()


def seeded_noise(seed: int | np.random.SeedSequence | np.random.Generator) -> Noise:
    """Return reproducible noise for experiments and tests, which protects no one.

    Parameters
    ----------
    seed : int, SeedSequence or Generator
        Seed; a Generator is used itself, and its state advances.

    Examples
    --------
    >>> seeded_noise(7).laplace(1.0, 2).tolist() == seeded_noise(7).laplace(1.0, 2).tolist()
    True
    """
    return _SeededNoise(np.random.default_rng(seed))


class _SecureNoise:
    """Samplers of ``exact``, and OpenDP's for the widest noise; without state, so it can be pickled and shared."""

    is_secure = True
    notice = ""

    def laplace(self, scale: ArrayLike, shape: Shape) -> NDArray[np.float64]:
        """See Noise; the noise lies on a grid of scale * 2^-40."""
        wide = _scales(scale, shape)
        unit = self.discrete_laplace(2.0**LAPLACE_BITS, wide.shape)
        return np.asarray(np.ldexp(unit.astype(np.float64), -LAPLACE_BITS) * wide)

    def discrete_laplace(self, scale: ArrayLike, shape: Shape) -> NDArray[np.int64]:
        """See Noise and ``exact.discrete_laplace``; beyond 2^62 it saturates."""
        wide = _scales(scale, shape)
        drawn = np.zeros(wide.shape, np.int64)
        ours = (wide > 0) & (wide < exact.WIDEST)
        drawn[ours] = exact.discrete_laplace(wide[ours])
        for each in np.unique(wide[wide >= exact.WIDEST]):
            here = wide == each
            drawn[here] = _opendp_laplace(float(each))(np.zeros(int(here.sum()), np.int64))
        return drawn

    def discrete_gaussian(self, scale: ArrayLike, shape: Shape) -> NDArray[np.int64]:
        """See Noise; one wide scale for all: ``exact_columns``, else ``exact_gaussian``."""
        wide = _scales(scale, shape, below=exact_gaussian.WIDEST_GAUSSIAN)
        if np.ndim(scale) == 0 and wide.size and float(wide.flat[0]) >= exact_columns.NARROWEST:
            return exact_columns.discrete_gaussian(float(wide.flat[0]), wide.size).reshape(wide.shape)
        drawn = np.zeros(wide.shape, np.int64)
        drawn[wide > 0] = exact_gaussian.discrete_gaussian(wide[wide > 0])
        return drawn

    def skellam(self, scale: float, shape: Shape) -> NDArray[np.int64]:
        """See Noise and ``exact_skellam.skellam``."""
        variance = _variance(scale)
        drawn = np.zeros(shape, np.int64)
        return exact_skellam.skellam(variance, drawn.size).reshape(drawn.shape) if variance else drawn

    def polya_share(self, scale: ArrayLike, shares: int, shape: Shape) -> NDArray[np.int64]:
        """See Noise and ``exact_shares.polya``; the difference of two Polya numbers."""
        if shares == 1:
            return self.discrete_laplace(scale, shape)
        wide = _scales(scale, shape)
        if (wide >= exact.WIDEST).any():
            raise ValueError(f"scale: a share of noise has a scale below {exact.WIDEST:g}, not {wide.max():g}")
        drawn = np.zeros(wide.shape, np.int64)
        noisy = wide > 0
        drawn[noisy] = exact_shares.polya(wide[noisy], shares) - exact_shares.polya(wide[noisy], shares)
        return drawn

    def permute_and_flip(self, utilities: ArrayLike, scale: ArrayLike) -> NDArray[np.int64]:
        """See Noise and ``exact.permute_and_flip``."""
        return _select(exact.permute_and_flip, utilities, scale)

    def gumbel_max(self, utilities: ArrayLike, scale: ArrayLike) -> NDArray[np.int64]:
        """See Noise and ``exact.exponential``."""
        return _select(exact.exponential, utilities, scale)


class _SeededNoise:
    """Samplers of numpy on float64."""

    is_secure = False
    notice = "seeded noise: reproducible, protects nobody"

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def laplace(self, scale: ArrayLike, shape: Shape) -> NDArray[np.float64]:
        """See Noise."""
        wide = _scales(scale, shape)
        return np.asarray(self._rng.laplace(size=wide.shape) * wide)

    def discrete_laplace(self, scale: ArrayLike, shape: Shape) -> NDArray[np.int64]:
        """See Noise; the difference of two geometric numbers (Ghosh et al. 2012)."""
        wide = _scales(scale, shape)
        with np.errstate(divide="ignore"):
            stop = -np.expm1(-1 / wide)  # 1 where the scale is 0: both numbers are then 1
        return np.asarray(self._rng.geometric(stop, wide.shape) - self._rng.geometric(stop, wide.shape))

    def discrete_gaussian(self, scale: ArrayLike, shape: Shape) -> NDArray[np.int64]:
        """See Noise; rounded Gaussian numbers where the scale is large, else by the inverse of the distribution."""
        wide = _scales(scale, shape, below=exact_gaussian.WIDEST_GAUSSIAN)
        drawn = np.rint(self._rng.standard_normal(wide.shape) * wide).astype(np.int64)
        for each in np.unique(wide[(wide > 0) & (wide < ROUNDED_FROM)]):
            here = wide == each
            most = int(np.ceil(12 * each)) + 1
            numbers = np.arange(-most, most + 1)
            below = np.cumsum(np.exp(-((numbers / each) ** 2) / 2))
            drawn[here] = numbers[np.searchsorted(below, self._rng.random(int(here.sum())) * below[-1], side="right")]
        return drawn

    def skellam(self, scale: float, shape: Shape) -> NDArray[np.int64]:
        """See Noise."""
        mean = _variance(scale) / 2
        return np.asarray(self._rng.poisson(mean, shape) - self._rng.poisson(mean, shape), np.int64)

    def polya_share(self, scale: ArrayLike, shares: int, shape: Shape) -> NDArray[np.int64]:
        """See Noise; the difference of two negative binomial numbers."""
        wide = _scales(scale, shape)
        with np.errstate(divide="ignore"):
            stop = -np.expm1(-1 / wide)
        first, second = (self._rng.negative_binomial(1 / shares, stop, wide.shape) for _ in "12")
        return np.asarray(first - second)

    def permute_and_flip(self, utilities: ArrayLike, scale: ArrayLike) -> NDArray[np.int64]:
        """See Noise; literally the noisy maximum."""
        return _select(self._noisy_max(self._rng.standard_exponential), utilities, scale)

    def gumbel_max(self, utilities: ArrayLike, scale: ArrayLike) -> NDArray[np.int64]:
        """See Noise; literally the maximum under Gumbel noise."""
        return _select(self._noisy_max(lambda size: self._rng.gumbel(size=size)), utilities, scale)

    @staticmethod
    def _noisy_max(draw: Callable[[tuple[int, ...]], NDArray[np.float64]]) -> _Selection:
        return lambda utilities, scale: np.argmax(utilities + scale[:, None] * draw(utilities.shape), axis=1)


_Selection: TypeAlias = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.int64]]


def _select(selection: _Selection, utilities: ArrayLike, scale: ArrayLike) -> NDArray[np.int64]:
    """Check the utilities; return the selection's choice in rows with noise, and the first argmax in the others."""
    table = np.asarray(utilities, np.float64)
    if table.ndim != 2:
        raise ValueError(f"utilities has {table.ndim} dimensions: must be (rows, candidates)")
    wide = _scales(scale, len(table))
    if not table.size:
        if len(table):
            raise ValueError("utilities has no candidates: give each row at least one")
        return np.empty(0, np.int64)
    top = table.max(axis=1)
    if not np.isfinite(top).all():  # the maximum of a row with a NaN is NaN
        raise ValueError("utilities: each row must have a finite maximum (no NaN, no +inf, not all -inf)")
    chosen: NDArray[np.int64] = table.argmax(axis=1)
    noisy = wide > 0
    chosen[noisy] = selection(table[noisy], wide[noisy])
    return chosen


def _scales(scale: ArrayLike, shape: Shape, *, below: float = np.inf) -> NDArray[np.float64]:
    wide = np.broadcast_to(np.asarray(scale, np.float64), shape)
    if not (np.isfinite(wide) & (wide >= 0)).all():
        raise ValueError("scale: must be finite and 0 or more (0 = no noise)")
    if not (wide < below).all():
        raise ValueError(f"scale = {wide.max():g}: must be below {below:g}; take a coarser grid")
    return wide


def _variance(scale: float) -> float:
    """Return the square of a scale of Skellam noise, rounded up."""
    variance = float(np.nextafter(scale * scale, np.inf)) if scale else 0.0
    if not (scale >= 0 and variance <= 2**32 + 1):
        raise ValueError(f"scale = {scale!r}: must be from 0 to 2^16 (0 = no noise); take a coarser grid")
    return variance


@lru_cache(maxsize=256)
def _opendp_laplace(scale: float) -> Callable[[NDArray[np.int64]], Any]:
    """Return OpenDP's exact discrete Laplace on vectors; imported here because the import takes seconds."""
    import opendp.prelude as dp

    dp.enable_features("contrib")  # OpenDP's word for: proved by its contributors, not yet vetted by its committee
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return dp.m.make_laplace(*space, scale=scale)
