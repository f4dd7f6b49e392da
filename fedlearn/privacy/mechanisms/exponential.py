"""The exponential mechanism: choose a candidate, likelier the higher its utility.

Source: McSherry, Talwar 2007 (the mechanism and its privacy); Dwork, Roth 2014, definition 3.4 and theorem 3.10. The
proof below covers the one-sided case, too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedlearn.privacy.mechanisms.interception import interceptable
from fedlearn.privacy.mechanisms.scale import noise_scale
from fedlearn.privacy.noise import Noise


@interceptable
def exponential(
    utilities: ArrayLike, *, sensitivity: float, epsilon: ArrayLike, noise: Noise, monotone: bool = False
) -> NDArray[np.int64]:
    """Return one candidate per row, (rows,), likelier the higher its utility.

    P(r) is proportional to exp(epsilon u_r / (2 sensitivity)), or exp(epsilon u_r / sensitivity) if ``monotone``.

    *Relation*: the one for which sensitivity and monotony hold. *Loss*: epsilon per row, pure; infinite = the first of
    the best.

    *Proof.* Going to a neighbor, exp(u_r / scale) changes by a factor of at most exp(s / scale), and the normalizing
    sum by at most the same the other way: a loss of 2 s / scale. If all utilities move the same way, by 0 to s,
    numerator and sum move the same way, too, and their quotient changes by at most exp(s / scale).

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
    >>> exponential([[1.0, 5.0, 3.0]], sensitivity=1.0, epsilon=math.inf, noise=seeded_noise(0))
    array([1])
    """
    reach = sensitivity if monotone else 2 * sensitivity
    return noise.gumbel_max(utilities, noise_scale(reach, epsilon))
