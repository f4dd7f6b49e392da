"""The Skellam mechanism on whole numbers: noise of many nodes adds up to noise of the same kind, without any error.

Source: Agarwal, Kairouz, Liu 2021 (arXiv:2110.04995), corollary 3.6.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedlearn.privacy.mechanisms import integers
from fedlearn.privacy.mechanisms.interception import interceptable
from fedlearn.privacy.noise import Noise


@interceptable
def skellam(
    steps: ArrayLike, *, sensitivity: float, noise_multiplier: float, shares: int = 1, noise: Noise
) -> NDArray[np.int64]:
    """Return whole numbers + Skellam noise, one share of what protects the sum of ``shares`` such results; same shape.

    *Relation*: add or remove one unit, which changes the sum of the steps by at most ``sensitivity`` in the L2 norm.
    *Loss*, of the sum of at least ``shares`` results of which no noise is known: at each whole order a > 1 the Renyi
    divergence of ``GaussianRounds(noise_multiplier, 1)``, a / (2 z^2), so `epsilon_of_skellam` holds; no amplification
    by sampling is claimed. With one share it holds of the result itself.

    *Proof.* The variance of the sum of the noise is m = z^2 D^2 + 4, D the sensitivity. By the corollary the
    divergence is at most a D^2 / (2 m) (1 + (2 a - 1) / (2 a m) + 3 D1 / (a m D^2)), D1 the sensitivity in the L1
    norm. Steps are whole, so D1 <= D^2, and the bracket is at most 1 + 4 / m <= m / (z^2 D^2). Variances of
    independent Skellam numbers add up, and the noise of more results than ``shares`` is post-processing.

    Parameters
    ----------
    steps : array-like of int
        Any shape: values in steps of a public grid, as `steps_of` makes them.
    sensitivity : float
        Largest L2 norm of one unit's steps, above 0.
    noise_multiplier : float
        Standard deviation of the sum's noise, divided by the sensitivity, above 0.
    shares : int, default=1
        Smallest number of results in the sum, 1 or more.
    noise : Noise
        Source of the randomness.

    Examples
    --------
    >>> from fedlearn.privacy import seeded_noise
    >>> noises = [seeded_noise(number) for number in range(4)]
    >>> sum(skellam([3, 0], sensitivity=5, noise_multiplier=2.0, shares=4, noise=each) for each in noises).shape
    (2,)
    """
    exact = np.asarray(steps)
    if exact.size and not np.issubdtype(exact.dtype, np.integer):
        raise ValueError(f"steps: must be integers, not {exact.dtype}; steps_of rounds to a grid")
    if shares != int(shares) or shares < 1:
        raise ValueError(f"shares = {shares!r}: must be a whole number from 1 on")
    for name, value in (("sensitivity", sensitivity), ("noise_multiplier", noise_multiplier)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} = {value!r}: must be finite and above 0")
    within = np.clip(exact.astype(np.int64), -integers.LIMIT, integers.LIMIT)
    return integers.add(within, noise.skellam(share_scale(sensitivity, noise_multiplier, int(shares)), exact.shape))


def share_scale(sensitivity: float, noise_multiplier: float, shares: int) -> float:
    """Return the standard deviation of one share of the noise, in steps, rounded up.

    >>> share_scale(10.0, 1.0, 4) ** 2
    26.0...
    """
    return math.nextafter(math.sqrt(((noise_multiplier * sensitivity) ** 2 + 4) / shares), math.inf) * (1 + 2.0**-50)


def steps_of(values: ArrayLike, *, clip: float, exponent: int) -> NDArray[np.int64]:
    """Return one unit's vector in whole steps of 2^exponent, with an L2 norm of at most clip / 2^exponent.

    The vector is shortened to clip - sqrt(d) 2^exponent / 2 *before* it is rounded, where it is longer; rounding
    moves each of its d numbers by half a step. Numbers that are not finite make it 0: no unit can make a sum fail.

    Raises
    ------
    ValueError
        If the steps are too coarse for the clipping norm: sqrt(d) 2^exponent >= 2 clip.

    Examples
    --------
    >>> steps_of([3.0, 4.0], clip=1.0, exponent=-10)
    array([614, 819])
    """
    vector = np.asarray(values, np.float64)
    room = clip * (1 - 2.0**-40) - math.sqrt(vector.size) * math.ldexp(0.5, exponent)
    if not room > 0:
        raise ValueError(f"exponent = {exponent}: the grid is too coarse for clip = {clip:g} on {vector.size} numbers")
    if not np.isfinite(vector).all():
        return np.zeros(vector.shape, np.int64)
    largest = float(np.abs(vector).max(initial=0.0))
    norm = largest * float(np.linalg.norm(vector / largest)) if largest else 0.0
    short = vector * (room / norm) if norm > room else vector
    return np.rint(np.ldexp(short, -exponent)).astype(np.int64)
