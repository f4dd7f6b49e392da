"""Tail bounds of honest noise on counts: a report beyond them can be refused, except with a small probability.

Let z_1 ... z_L be independent noise of `geometric`, of scale b = sensitivity / epsilon: P(z) is proportional to
a^abs(z), a = exp(-1 / b). Or let each be a `polya_share` of it: then z + w has that distribution, where w is the sum of
the other shares, independent of z and symmetric.

*One number.* P(abs(z) > t) <= 2 a^t / (1 + a) <= 2 exp(-t / b) for geometric noise. A share goes beyond twice as often
at most: given z > t, w >= 0 with probability 1/2 at least, so P(z > t) <= 2 P(z + w > t), and likewise below. Over all
L numbers: P(max abs(z_i) > t) <= 4 L exp(-t / b), which is the risk at t = b ln(4 L / risk).

*All together.* With s = exp(-1 / 2b), E exp(abs(z) / 2b) = (1 + s)^2 / (1 + s^2) <= 2 for geometric noise. For a share
it is no more: w has mean 0 and exp(abs(.)) is convex, so E exp(abs(z) / 2b) <= E exp(abs(z + w) / 2b) (Jensen, given
z). By Markov P(sum abs(z_i) > T) <= 2^L exp(-T / 2b), which is the risk at T = 2b (L ln 2 + ln(1 / risk)).

Clipping, as mechanisms do, makes no number larger.
"""

from __future__ import annotations

import math


def largest_noise(scale: float, *, numbers: int, risk: float) -> float:
    """Return a bound on the absolute noise of each of several numbers; any exceeds it with probability `risk` at most.

    Parameters
    ----------
    scale
        Sensitivity / epsilon of the geometric noise, of which each number has the whole or a share.
    numbers
        Number of noisy numbers, 1 or more.
    risk
        Probability, above 0.

    >>> round(largest_noise(2.0, numbers=1000, risk=1e-12))
    72
    """
    return scale * math.log(4 * numbers / risk)


def largest_norm(scale: float, *, numbers: int, risk: float) -> float:
    """Return a bound on the L1 norm of the noise of several numbers, exceeded with probability `risk` at most.

    The parameters are those of `largest_noise`. The mean of the norm is about `scale * numbers`.

    >>> round(largest_norm(2.0, numbers=1000, risk=1e-12))
    2883
    """
    return 2 * scale * (numbers * math.log(2) + math.log(1 / risk))
