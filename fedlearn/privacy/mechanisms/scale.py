"""From sensitivity and epsilon to the scale of the noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


def noise_scale(sensitivity: float, epsilon: ArrayLike) -> FloatArray:
    """Return sensitivity / epsilon, rounded up so that the quotient is never too small; 0 where epsilon is infinite.

    ``sensitivity`` is finite and above 0; ``epsilon`` a positive number or an array of them.
    """
    if not (np.isfinite(sensitivity) and sensitivity > 0):
        raise ValueError(f"sensitivity = {sensitivity!r}: must be finite and above 0")
    wanted = np.asarray(epsilon, np.float64)
    if not (wanted > 0).all():
        raise ValueError(f"epsilon = {epsilon!r}: must be above 0 (math.inf = no noise)")
    with np.errstate(over="ignore"):
        scale = np.nextafter(sensitivity / wanted, np.inf)
    if np.isinf(scale).any():
        raise ValueError(f"epsilon = {epsilon!r}: too small, sensitivity / epsilon overflows")
    return np.where(np.isinf(wanted), 0.0, scale)


def by_row(numbers: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Broadcast one number per row, or one for all, to an array of this shape, whose first axis counts the rows."""
    return np.broadcast_to(numbers.reshape(numbers.shape + (1,) * (len(shape) - numbers.ndim)), shape)
