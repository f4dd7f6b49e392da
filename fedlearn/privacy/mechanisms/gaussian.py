"""The Gaussian mechanism on a sum of clipped vectors, safe against floating-point rounding.

Source: Dwork, Roth 2014, theorem A.1; in whole numbers: Canonne, Kamath, Steinke 2020 (arXiv:2004.00010). The attack
that the grid avoids: Mironov 2012.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from fedlearn.privacy.mechanisms import integers
from fedlearn.privacy.mechanisms.interception import interceptable
from fedlearn.privacy.mechanisms.scale import FloatArray
from fedlearn.privacy.noise import Noise

GRID_BITS = 39  # the noise is at least 2^39 grid steps wide
SUMMING = 2.0**-20  # relative growth of the sensitivity by sums in float64


@interceptable
def gaussian(values: ArrayLike, *, clip: float, noise_multiplier: float, noise: Noise) -> FloatArray:
    """Return values + Gaussian noise of standard deviation noise_multiplier * clip, same shape as ``values``.

    *Relation*: add or remove one unit, whose vector has an L2 norm of at most ``clip``. *Loss*: that of
    ``GaussianRounds(noise_multiplier, 1)``; see `fedlearn.privacy.accounts`.

    *Proof.* Let g be a power of two, fixed by clip and noise multiplier alone. The sum is rounded to multiples of g,
    which moves each of its d numbers by at most g / 2 with or without the unit. In steps of g the change is at most
    D = clip (1 + 2^-20) / g + sqrt(d) in the L2 norm; 2^-20 covers the rounding of float64 sums of n vectors in a
    tree of depth h, n h <= 2^31. Then the steps are clipped at 2^61, which brings no two sums further apart.
    Independent integers of probability proportional to exp(-z^2 / (2 s^2)), s = noise_multiplier D, are added *in
    integers*. Renyi divergences are at most those of a Gaussian of this s (Canonne, Kamath, Steinke 2020, theorem 4).
    For accounts by privacy loss distributions: s is at least 2^39, so each integer has a total variation distance
    below 2^-80 from a Gaussian number rounded to an integer, and integers plus rounded Gaussians are a Gaussian
    mechanism's answer, rounded: post-processing. So the account of T answers holds at a delta that is larger by d T
    (1 + exp(epsilon)) 2^-80 at most. Multiplying by g comes after, and loses no privacy. The price is noise larger by
    a relative 1e-6.

    Parameters
    ----------
    values : array-like of float
        One sum of vectors, any shape, finite, added up in float64. All numbers that one unit changes belong into one
        call: a call for each parameter of a model would be as many mechanisms.
    clip : float
        Largest L2 norm of one unit's vector, finite and above 0.
    noise_multiplier : float
        Standard deviation of the noise, divided by clip; 0: no noise, and no privacy.
    noise : Noise
        Source of the randomness.

    Examples
    --------
    >>> from fedlearn.privacy import seeded_noise
    >>> gaussian([0.5, 2.0], clip=1.0, noise_multiplier=0.0, noise=seeded_noise(0))
    array([0.5, 2. ])
    """
    exact = np.asarray(values, np.float64)
    if not np.isfinite(exact).all():
        raise ValueError("values: must be finite")
    if not (math.isfinite(clip) and clip > 0):
        raise ValueError(f"clip = {clip!r}: must be finite and above 0")
    if not (math.isfinite(noise_multiplier) and noise_multiplier >= 0):
        raise ValueError(f"noise_multiplier = {noise_multiplier!r}: must be finite and 0 or more (0 = no noise)")
    if not exact.size or not noise_multiplier:
        return exact.copy()
    exponent = math.frexp(noise_multiplier * clip)[1] - 1 - GRID_BITS
    with np.errstate(over="ignore"):  # beyond float64 is beyond the limit, too
        steps = np.clip(np.rint(np.ldexp(exact, -exponent)), -integers.LIMIT, integers.LIMIT).astype(np.int64)
    drawn = noise.discrete_gaussian(noise_multiplier * _sensitivity(clip, exponent, exact.size), exact.shape)
    return np.ldexp(integers.add(steps, drawn).astype(np.float64), exponent)


def _sensitivity(clip: float, exponent: int, numbers: int) -> float:
    """Return the L2 sensitivity of the rounded sum, in steps of 2^exponent, rounded up."""
    return math.nextafter(math.ldexp(clip, -exponent) * (1 + SUMMING) + math.sqrt(numbers), math.inf)
