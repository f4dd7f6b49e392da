"""The geometric mechanism on counts: Laplace noise for integers, exact by construction.

Source: Ghosh, Roughgarden, Sundararajan 2012 (Universally utility-maximizing privacy mechanisms), the alpha-geometric
mechanism with alpha = exp(-epsilon).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedlearn.privacy.mechanisms import integers
from fedlearn.privacy.mechanisms.interception import interceptable
from fedlearn.privacy.mechanisms.scale import by_row, noise_scale
from fedlearn.privacy.noise import Noise


@interceptable
def geometric(counts: ArrayLike, *, sensitivity: int = 1, epsilon: ArrayLike, noise: Noise) -> NDArray[np.int64]:
    """Return counts + integers z of probability proportional to exp(-abs(z) epsilon / sensitivity); same shape.

    *Relation*: the one for which the sensitivity holds. *Loss*: epsilon, pure.

    *Proof.* The probability of a result r is proportional to exp(-norm1(r - counts) epsilon / sensitivity); by the
    triangle inequality the norm changes by at most the sensitivity between neighbors. Integers: no rounding anywhere,
    and what leaves +-2^61 is clipped, before and after.

    Parameters
    ----------
    counts : array-like of int
        Any shape; the first axis counts the rows.
    sensitivity : int, default=1
        The largest change of all counts together, in the L1 norm; 1 for a histogram when a record is added or removed,
        2 when it is replaced.
    epsilon : float or array-like
        Cost, above 0, in nats; one number, or one per row, which is the cost of that row. Infinite: no noise.
    noise : Noise
        Source of the randomness.

    Examples
    --------
    >>> from fedlearn.privacy import seeded_noise
    >>> geometric([31, 7, 12], epsilon=50.0, noise=seeded_noise(0))
    array([31,  7, 12])
    """
    exact = np.asarray(counts)
    if exact.size and not np.issubdtype(exact.dtype, np.integer):
        raise ValueError(f"counts: must be integers, not {exact.dtype}; use laplace for other numbers")
    if sensitivity != int(sensitivity):
        raise ValueError(f"sensitivity = {sensitivity!r}: counts change by whole numbers")
    scale = by_row(noise_scale(sensitivity, epsilon), exact.shape)
    within = np.clip(exact.astype(np.int64), -integers.LIMIT, integers.LIMIT)
    return integers.add(within, noise.discrete_laplace(scale, exact.shape))
