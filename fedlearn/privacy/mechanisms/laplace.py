"""The Laplace mechanism on numbers, safe against floating-point rounding.

Source: Dwork, McSherry, Nissim, Smith 2006, proposition 1; Dwork, Roth 2014, definition 3.3 and theorem 3.6. On a grid:
Balcer, Vadhan 2018; Canonne, Kamath, Steinke 2020 (arXiv:2004.00010). The attack this avoids: Mironov 2012.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fedlearn.privacy.mechanisms import integers
from fedlearn.privacy.mechanisms.interception import interceptable
from fedlearn.privacy.mechanisms.scale import FloatArray, by_row, noise_scale
from fedlearn.privacy.noise import Noise

GRID_BITS = 32  # the grid is at most 2^-32 sensitivities fine, for any epsilon above 2^-16


@interceptable
def laplace(values: ArrayLike, *, sensitivity: float, epsilon: ArrayLike, noise: Noise) -> FloatArray:
    """Return values + Laplace noise, same shape as ``values``.

    *Relation*: the one for which the sensitivity holds. *Loss*: epsilon, pure.

    *Proof.* Let g be a power of two, fixed by sensitivity and epsilon alone. Values are clipped to 2^61 g and rounded
    to multiples of g, which moves each of the d numbers by at most g / 2: in steps of g the change is at most D =
    sensitivity / g + d in the L1 norm. Integer noise z with probability proportional to exp(-abs(z) epsilon / D) is
    added *in integers*, without error; the probability of any result changes by at most exp(epsilon). Multiplying by g
    and clipping come after, and cannot lose privacy. The price is noise larger by d g / sensitivity (2.4e-7 for a
    thousand values).

    Parameters
    ----------
    values : array-like of float
        Any shape, finite; the first axis counts the rows.
    sensitivity : float
        The largest change of all values together, in the L1 norm.
    epsilon : float or array-like
        Cost, above 0, in nats; one number, or one per row: then one unit may change each row by `sensitivity`, and each
        row has its own cost. Infinite: no noise.
    noise : Noise
        Source of the randomness.

    Examples
    --------
    >>> import math
    >>> from fedlearn.privacy import seeded_noise
    >>> laplace([0.5, 2.0], sensitivity=1.0, epsilon=math.inf, noise=seeded_noise(0))
    array([0.5, 2. ])
    """
    exact = np.asarray(values, np.float64)
    if not np.isfinite(exact).all():
        raise ValueError("values: must be finite")
    scale = noise_scale(sensitivity, epsilon)
    if not exact.size or not scale.any():
        return exact.copy()
    exponent = _grid_exponent(sensitivity, float(scale.max()))
    with np.errstate(over="ignore"):  # beyond float64 is beyond the limit, too
        steps = np.clip(np.rint(np.ldexp(exact, -exponent)), -integers.LIMIT, integers.LIMIT).astype(np.int64)
    widest = np.nextafter(np.ldexp(sensitivity, -exponent) + exact.size, np.inf)
    drawn = noise.discrete_laplace(by_row(noise_scale(float(widest), epsilon), exact.shape), exact.shape)
    published = np.ldexp(integers.add(steps, drawn).astype(np.float64), exponent)
    return np.where(by_row(scale, exact.shape) > 0, published, exact)


def _grid_exponent(sensitivity: float, scale: float) -> int:
    """Return k of the grid 2^k: 32 bits below the sensitivity, less far below where the noise dwarfs it."""
    return int(np.floor(np.log2(max(sensitivity, np.ldexp(scale, -16))))) - GRID_BITS
