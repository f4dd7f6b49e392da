"""Exact discrete Gaussian noise from the operating system's randomness, for many numbers at once.

Source: Canonne, Kamath, Steinke 2020 (arXiv:2004.00010), algorithm 3.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy.exact import ENTRIES, Bits, coins, discrete_laplace, system_bits

WIDEST_GAUSSIAN = 2.0**44  # upper limit of the scales: proposals, a few hundred scales wide, are exact in float64


def discrete_gaussian(scale: NDArray[np.float64], bits: Bits = system_bits) -> NDArray[np.int64]:
    """Return one integer for each scale, (n,), of probability proportional to exp(-z^2 / (2 scale^2)).

    ``scale`` is above 0 and below `WIDEST_GAUSSIAN`. Each try

     1. proposes a discrete Laplace number Y of scale t = floor(scale) + 1;
     2. keeps Y if a coin of probability exp(-x), x = (abs(Y) - scale^2 / t)^2 / (2 scale^2), shows heads.

    *Proof.* Y is proposed with a probability proportional to exp(-abs(Y) / t), and -abs(Y) / t - x = -Y^2 / (2
    scale^2) - scale^2 / (2 t^2), of which the last term is the same for all Y. A try succeeds with a probability
    above 0.6 for scales above 1.

    *Coins.* x in float64: with a = abs(Y) / scale and b = scale / t <= 1, x is (a - b)^2 / 2. Three roundings move the
    difference by (a - b) 2^-53 + b 2^-52 at most, square and division x by 2^-51 of it. In all exp(-x) moves by at most
    exp(-x) (x 2^-50 + sqrt(2 x) 2^-52) < 2^-50, which leaves room for numpy's exp within `exact.ERROR`. An undecided
    coin is flipped on the exact rational x of the float64 scale.
    """
    whole = np.floor(scale) + 1  # t
    drawn = np.zeros(len(scale), np.int64)
    waiting = np.arange(len(scale))
    while waiting.size:
        here = waiting[:ENTRIES]
        proposed = discrete_laplace(whole[here], bits)
        kept = _kept(np.abs(proposed), scale[here], whole[here], bits)
        drawn[here[kept]] = proposed[kept]
        waiting = np.concatenate([here[~kept], waiting[here.size :]])
    return drawn


def _kept(
    size: NDArray[np.int64], scale: NDArray[np.float64], whole: NDArray[np.float64], bits: Bits
) -> NDArray[np.bool_]:
    """Return coins of probability exp(-x) for the proposals of these sizes, (n,)."""
    square = scale * scale
    with np.errstate(under="ignore"):
        probability = np.exp(-((size - square / whole) ** 2) / (2 * square))

    def x(at: tuple[np.intp, ...]) -> Fraction:
        exact = Fraction(float(scale[at])) ** 2
        return (int(size[at]) - exact / int(whole[at])) ** 2 / (2 * exact)

    return coins(probability, x, bits)
