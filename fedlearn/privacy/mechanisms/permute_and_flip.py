"""Permute-and-flip: private selection that is never worse than the exponential mechanism.

Source: McKenna, Sheldon 2020 (arXiv:2010.12603), algorithm 1: the mechanism, its privacy, and that its expected error
is never above the exponential mechanism's. As report noisy max with one-sided exponential noise: Ding, Kifer,
Saghaian, Steinke, Wang, Xiao, Zhang 2021 (arXiv:2105.07260).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedlearn.privacy.mechanisms.interception import interceptable
from fedlearn.privacy.mechanisms.scale import noise_scale
from fedlearn.privacy.noise import Noise


@interceptable
def permute_and_flip(
    utilities: ArrayLike, *, sensitivity: float, epsilon: ArrayLike, noise: Noise, monotone: bool = False
) -> NDArray[np.int64]:
    """Return one candidate per row, (rows,), likelier the higher its utility.

    The noisy maximum under one-sided exponential noise of scale 2 sensitivity / epsilon, or sensitivity / epsilon if
    ``monotone``.

    *Relation*: the one for which sensitivity and monotony hold. *Loss*: epsilon per row, pure; infinite = the first of
    the best.

    *Proof.* Fix the noise of all candidates but r, and let t be the largest of their noisy utilities: r wins if its
    own noise exceeds t - u_r. Going to a neighbor, t - u_r grows by at most 2 s (by s if all utilities move the same
    way), and P(noise > a + b) >= exp(-b / scale) P(noise > a) for every a and every b >= 0, the exponential
    distribution being memoryless. Averaging over the fixed noise gives the claim.

    Parameters
    ----------
    utilities : array-like of shape (rows, candidates)
        Larger is better; -inf = not a candidate, which must not depend on the data.
    sensitivity : float
        The largest change of any one candidate's utility (maximum norm).
    epsilon : float or array-like
        Cost, above 0, in nats; one number or one per row. Infinite: no noise.
    noise : Noise
        Source of the randomness.
    monotone : bool, default=False
        Whether adding a record moves all utilities of a row the same way, or not at all, as counts do. Replacing a
        record is never monotone.

    Examples
    --------
    >>> import math
    >>> from fedlearn.privacy import seeded_noise
    >>> permute_and_flip([[1.0, 5.0, 3.0]], sensitivity=1.0, epsilon=math.inf, noise=seeded_noise(0))
    array([1])
    """
    reach = sensitivity if monotone else 2 * sensitivity
    return noise.permute_and_flip(utilities, noise_scale(reach, epsilon))
