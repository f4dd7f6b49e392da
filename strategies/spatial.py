"""Between the mean of the senders and the unbiased estimate: how to divide an entry by those who sent it.

Where nodes send random shares of their change, the mean over the senders (`survivors`) is right if all nodes agree, and
``size / count`` times what was sent over all nodes (`rand-k`) if they have nothing in common. The spatial decoder
divides an entry sent by m of n nodes by ``T(m) = 1 + n (m - 1) / (2 (n - 1))``, which lies in between, and makes up for
it by the factor beta that keeps the expectation: ``beta / n * sum_i x_ij / T(M_j)``.

Source: Jhunjhunwala et al. 2021 (arXiv:2110.07751), Rand-k-Spatial (Avg), section 3. With unequal weights, m is the
share of the weight that sent the entry, times n; the expectation is then kept approximately.
"""

from __future__ import annotations

import math

import numpy as np

from fedlearn.core.state import Array
from strategies.masked_mean import Float64, MaskedSum


def spatial_factor(name: str, reports: MaskedSum) -> Float64:
    """Return the factor of the mean over the senders, shape (size,) or (1,)."""
    nodes, weight = int(reports.reports[0]), float(reports.reports[1])
    share = reports.weights[name] / weight  # of the nodes that sent each entry, by weight
    return unbiased_factor(nodes, float(share.mean())) * share / divisor(nodes, nodes * share)


def divisor(nodes: int, senders: Array) -> Float64:
    """Return T(m), for m of at least one: by weight, a light node alone is less.

    >>> divisor(5, np.array([1.0, 3.0, 5.0])).tolist()
    [1.0, 2.25, 3.5]
    """
    above_one: Float64 = np.maximum(senders - 1, 0, dtype=np.float64)
    return 1 + nodes * above_one / (2 * max(nodes - 1, 1))


def unbiased_factor(nodes: int, share: float) -> float:
    """Return beta, where every node sends this share: ``1 / (share * E[1 / T(M)])``, M over those of one sender.

    The others send independently: M - 1 is binomial of (nodes - 1, share).
    """
    others = nodes - 1
    if share >= 1:
        return float(divisor(nodes, np.array([float(nodes)]))[0])
    log_choose = [math.lgamma(others + 1) - math.lgamma(k + 1) - math.lgamma(others - k + 1) for k in range(nodes)]
    k = np.arange(nodes)
    probability = np.exp(np.array(log_choose) + k * math.log(share) + (others - k) * math.log1p(-share))
    return float(1 / (share * np.sum(probability / divisor(nodes, k + 1.0))))
