"""A node's share of geometric noise: the sum over nodes is private, a single node's report is not.

Source: Goryczka, Xiong 2017 (doi:10.1109/TDSC.2015.2484326), who compare ways to distribute noise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedlearn.privacy.mechanisms import integers
from fedlearn.privacy.mechanisms.interception import interceptable
from fedlearn.privacy.mechanisms.scale import by_row, noise_scale
from fedlearn.privacy.noise import Noise


@interceptable
def polya_share(
    counts: ArrayLike, *, sensitivity: int = 1, epsilon: ArrayLike, shares: int, noise: Noise
) -> NDArray[np.int64]:
    """Return counts + the difference of two Polya numbers of shape 1 / shares; same shape.

    *Relation*: the one for which the sensitivity holds. *Loss*: epsilon, pure, if **only the sum** of at least
    ``shares`` such results is seen, and the noise of none of them is known. A single result, or a sum of fewer results,
    loses more: without secure sums shares do not protect.

    *Proof.* With a = exp(-epsilon / sensitivity), a Polya number of shape r has the generating function
    ((1 - a) / (1 - a z))^r. The sum of ``shares`` independent ones of shape 1 / shares has that of shape 1, which is a
    geometric number; the difference of two geometric numbers is proportional to a^abs(z), the noise of `geometric`. So
    the sum of exactly ``shares`` results has the distribution of `geometric` on the sum of the counts, whose
    sensitivity is that of one node's counts. The noise of further results is independent of it: adding it is
    post-processing.

    Parameters
    ----------
    counts : array-like of int
        Any shape; the first axis counts the rows.
    sensitivity : int, default=1
        The largest change of all counts together, in the L1 norm, by one record of one node.
    epsilon : float or array-like
        Cost of the *sum*, above 0, in nats; one number, or one per row. Infinite: no noise.
    shares : int
        Smallest number of results in the sum, 1 or more; 1 is `geometric`.
    noise : Noise
        Source of the randomness.

    Examples
    --------
    >>> from fedlearn.privacy import seeded_noise
    >>> polya_share([31, 7, 12], epsilon=50.0, shares=10, noise=seeded_noise(0))
    array([31,  7, 12])
    """
    exact = np.asarray(counts)
    if exact.size and not np.issubdtype(exact.dtype, np.integer):
        raise ValueError(f"counts: must be integers, not {exact.dtype}")
    if shares != int(shares) or shares < 1:
        raise ValueError(f"shares = {shares!r}: must be a whole number from 1 on")
    scale = by_row(noise_scale(sensitivity, epsilon), exact.shape)
    within = np.clip(exact.astype(np.int64), -integers.LIMIT, integers.LIMIT)
    return integers.add(within, noise.polya_share(scale, int(shares), exact.shape))
