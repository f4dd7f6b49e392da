"""A private quantile of numbers within declared bounds.

Source: Smith 2011 (Privacy-preserving statistical estimation with optimal convergence rates), private quantile:
selection with the distance in rank as utility. Here on public, evenly spaced candidates and by permute-and-flip: an
answer is one of a list that is known in advance, so its last digits reveal nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fedlearn.privacy.mechanisms.permute_and_flip import permute_and_flip
from fedlearn.privacy.noise import Noise


def noisy_quantile(
    values: ArrayLike,
    *,
    quantile: float,
    bounds: tuple[float, float],
    epsilon: float,
    noise: Noise,
    candidates: int = 4097,
) -> float:
    """Return a number in ``bounds`` with about a share ``quantile`` of the values below it.

    The answer is one of ``candidates`` evenly spaced numbers from bound to bound. An infinite epsilon gives the exact
    quantile of the clipped values (linear interpolation). Near the ends (quantile 0 or 1) every candidate beyond the
    last value is as good as that value, so the answer is no better than the bounds are tight.

    *Utility* of a candidate c: minus the distance of n * quantile from the ranks that c can have, which go from the
    number of values below c to the number of values not above c. *Sensitivity*: max(quantile, 1 - quantile).
    *Relation*: add or remove one record. *Loss*: epsilon, pure; under replacement 2 epsilon.

    *Proof.* A record that is added moves both ranks of c by 1 if it lies below, neither if it lies above, the upper
    one if it equals c; and n * quantile by ``quantile``. So the distance changes by at most max(quantile, 1 -
    quantile), for every c; not always the same way, so the choice is not monotone. The rest is the proof of
    permute-and-flip.

    Parameters
    ----------
    values : array-like of shape (n,)
        Clipped to the bounds; n may be 0.
    quantile : float
        Share of the values below the answer, in [0, 1].
    bounds : tuple of two floats
        Declared range, the lower one first.
    epsilon : float
        Cost, above 0, in nats.
    noise : Noise
        Source of the randomness.
    candidates : int, default=4097
        Number of possible answers, 2 or more.

    Examples
    --------
    >>> from fedlearn.privacy import seeded_noise
    >>> values = np.linspace(0, 1, 1001)
    >>> round(noisy_quantile(values, quantile=0.5, bounds=(0, 10), epsilon=50.0, noise=seeded_noise(0)), 1)
    0.5
    """
    low, high = bounds
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(f"bounds = {bounds!r}: must be finite, the lower one first")
    if not 0 <= quantile <= 1:
        raise ValueError(f"quantile = {quantile!r}: must be in [0, 1]")
    if candidates < 2:
        raise ValueError(f"candidates = {candidates!r}: must be 2 or more")
    known = np.asarray(values, np.float64).ravel()
    if np.isnan(known).any():
        raise ValueError("values: must not be NaN; leave missing values out")
    ordered = np.sort(np.clip(known, low, high))
    if np.isinf(epsilon) and epsilon > 0 and ordered.size:
        return float(np.quantile(ordered, quantile))
    grid = np.linspace(low, high, candidates)
    below = np.searchsorted(ordered, grid, side="left")
    not_above = np.searchsorted(ordered, grid, side="right")
    wanted = ordered.size * quantile
    utilities = -np.maximum(np.maximum(below - wanted, wanted - not_above), 0.0)
    sensitivity = max(quantile, 1 - quantile)
    chosen = permute_and_flip(utilities[None, :], sensitivity=sensitivity, epsilon=epsilon, noise=noise)
    return float(grid[chosen[0]])
