"""Adding integer noise to integers without leaving int64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LIMIT = 2**61  # of what is added and of the sum; a quarter of int64, so that the noise may reach twice as far


def add(numbers: NDArray[np.int64], drawn: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return numbers + drawn, clipped to +-2^61; ``numbers`` lie within +-2^61 already.

    The noise is clipped twice as far out as the sum. Noise beyond that clips the sum whatever the number is, so the
    result is the exact sum, clipped: post-processing, which cannot lose privacy. A sum that wraps around would.
    """
    total: NDArray[np.int64] = np.clip(np.clip(drawn, -2 * LIMIT, 2 * LIMIT) + numbers, -LIMIT, LIMIT)
    return total
