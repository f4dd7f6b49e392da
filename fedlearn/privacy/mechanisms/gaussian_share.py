"""The Gaussian mechanism on a sum of whole numbers to which each node adds a share of the noise.

Sources: Kairouz, Liu, Steinke 2021 (arXiv:2102.06387), for sums of discrete Gaussian numbers; Peikert 2010
(doi:10.1007/978-3-642-14623-7_5), theorem 3.1, for discrete Gaussian numbers as rounded ones.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedlearn.privacy.mechanisms import integers
from fedlearn.privacy.mechanisms.interception import interceptable
from fedlearn.privacy.noise import Noise

ROUNDING = 9.0  # variance, in steps, of the rounding of a Gaussian number that a discrete one is; see the proof
NARROWEST = 4.0  # least standard deviation of a share, in steps


@interceptable
def gaussian_share(
    steps: ArrayLike, *, sensitivity: float, noise_multiplier: float, shares: int = 1, noise: Noise
) -> NDArray[np.int64]:
    """Return whole numbers + one share of the discrete Gaussian noise that protects their sum; same shape.

    *Relation*: the unit's whole numbers, of an L2 norm of at most ``sensitivity``, or zeros in their place. *Loss*, of
    the sum of at least ``shares`` results of which no noise is known: that of ``GaussianRounds(noise_multiplier, 1)``,
    as of `gaussian`, so privacy loss distributions and the exact account hold.

    *Proof.* S^2 = z^2 D^2 + 9, D the sensitivity and z the noise multiplier; each of m shares is discrete Gaussian of
    variance q^2 = S^2 / m, q >= 4. By Poisson's summation formula the sum of exp(-(j - x)^2 / (2 h^2)) over all whole j
    is h sqrt(2 pi) (1 + t) for every real x, with abs(t) <= 2.01 exp(-2 pi^2 h^2) for h >= 1.

    (1) *The sum of the shares is a discrete Gaussian number of variance S^2*, but for factors of probabilities: that of
    k under the sum of two, of variances a^2 and b^2, is exp(-k^2 / (2 (a^2 + b^2))) times such a sum with h^2 = a^2 b^2
    / (a^2 + b^2). Adding the next share to k others has h^2 = q^2 k / (k + 1) >= 8, so each addition changes a
    probability by a factor within exp(+-2^-224), and m of them within exp(+-m 2^-224).

    (2) *A discrete Gaussian number is a rounded Gaussian number*: let Y be Gaussian of mean u, a whole number, and
    variance S^2 - 9, and X a discrete Gaussian number around Y, of variance 9. The probability of X = k is the integral
    of the density of Y times exp(-(k - y)^2 / 18), divided by a sum with h = 3; without the division it is exactly that
    of a Gaussian density of variance S^2. So it is that of u plus a discrete Gaussian number of variance S^2, but for
    a factor within exp(+-2^-250). X is post-processing of Y, and Y + v against Y, for whole v of norm D, is the
    Gaussian mechanism of noise multiplier z, as S^2 - 9 >= z^2 D^2.

    So the answers of T rounds of d numbers have probabilities within a factor exp(+-T d m 2^-223) of post-processing of
    T Gaussian mechanisms: epsilon and delta grow by less than 2^-120 for all T d m below 2^100. Noise of more results
    than ``shares`` is independent, and so post-processing; so is a sum modulo any number.

    Parameters
    ----------
    steps : array-like of int
        Any shape: values in steps of a public grid, as `whole_steps` makes them.
    sensitivity : float
        D: largest L2 norm of one unit's steps, above 0.
    noise_multiplier : float
        z: standard deviation of the sum's noise, divided by the sensitivity, above 0.
    shares : int, default=1
        m: smallest number of results in the sum, 1 or more.
    noise : Noise
        Source of the randomness.

    Raises
    ------
    ValueError
        If a share would be narrower than 4 steps: the grid is too coarse.

    Examples
    --------
    >>> from fedlearn.privacy import seeded_noise
    >>> noises = [seeded_noise(number) for number in range(4)]
    >>> sent = [gaussian_share([3, 0], sensitivity=64, noise_multiplier=2.0, shares=4, noise=each) for each in noises]
    >>> sum(sent).shape
    (2,)
    """
    exact = np.asarray(steps)
    if exact.size and not np.issubdtype(exact.dtype, np.integer):
        raise ValueError(f"steps: must be integers, not {exact.dtype}; whole_steps rounds to a grid")
    scale = share_deviation(sensitivity, noise_multiplier, shares)
    within = np.clip(exact.astype(np.int64), -integers.LIMIT, integers.LIMIT)
    return integers.add(within, noise.discrete_gaussian(scale, exact.shape))


def share_deviation(sensitivity: float, noise_multiplier: float, shares: int) -> float:
    """Return the standard deviation of one share of the noise, in steps, rounded up; for errors see `gaussian_share`.

    >>> round(share_deviation(64.0, 2.0, 4) ** 2 * 4 - 9, 6)
    16384.0
    """
    if shares != int(shares) or shares < 1:
        raise ValueError(f"shares = {shares!r}: must be a whole number from 1 on")
    for name, value in (("sensitivity", sensitivity), ("noise_multiplier", noise_multiplier)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} = {value!r}: must be finite and above 0")
    deviation = math.sqrt(((noise_multiplier * sensitivity) ** 2 + ROUNDING) / shares) * (1 + 2.0**-50)
    if deviation < NARROWEST:
        raise ValueError(
            f"a share of the noise is {deviation:.3g} steps wide, and needs {NARROWEST:g}: use a finer grid"
        )
    return deviation


def whole_steps(values: ArrayLike, *, clip: float, reach: int) -> NDArray[np.int64]:
    """Return one unit's vector in whole steps of clip / reach, with an L2 norm of at most ``reach`` steps.

    The vector is shortened to ``clip``, where it is longer, and rounded to the nearest steps. Where rounding has made
    it longer than ``reach``, it is shortened by as much and rounded again, until it fits: the bound holds for every
    vector, with no term for rounding. (Kairouz, Liu, Steinke 2021 draw a random rounding again until it fits a bound
    that is longer by rounding.) Numbers that are not finite make it 0: no unit can make a sum fail.

    Parameters
    ----------
    values : array-like of float
        Any shape.
    clip : float
        Largest L2 norm, above 0.
    reach : int
        Steps of the grid in ``clip``, from 1 to 2^30.

    Examples
    --------
    >>> whole_steps([3.0, 4.0], clip=1.0, reach=1024)
    array([614, 819])
    >>> whole_steps([1.0] * 3, clip=1.0, reach=2)  # 1.15 each, and [1, 1, 1] is shorter than 2
    array([1, 1, 1])
    """
    if reach != int(reach) or not 1 <= reach <= 2**30:
        raise ValueError(f"reach = {reach!r}: must be a whole number from 1 to 2^30")
    if not (math.isfinite(clip) and clip > 0):
        raise ValueError(f"clip = {clip!r}: must be finite and above 0")
    vector = np.asarray(values, np.float64)
    largest = float(np.abs(vector).max(initial=0.0))
    if not (0 < largest < math.inf):  # NaN, too
        return np.zeros(vector.shape, np.int64)
    norm = largest * float(np.linalg.norm(vector / largest))
    unit = vector / max(norm, clip)  # at most 1 long
    length = float(reach)
    while True:
        steps: NDArray[np.int64] = np.rint(unit * length).astype(np.int64)
        square = int(np.square(steps).sum())
        if square <= reach**2:
            return steps
        length *= min(reach / math.sqrt(square), 1 - 2.0**-20)
