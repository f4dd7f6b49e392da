"""Adding integer noise to integers without leaving int64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LIMIT = 2**61  # of the numbers and of the sum; a quarter of int64, so that noise may be twice as large


def add(numbers: NDArray[np.int64], drawn: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return numbers + drawn, clipped to +-2^61; ``numbers`` lie within +-2^61 already.

    The noise is clipped at twice the limit of the sum. Noise beyond that clips the sum for every number, so the result
    is the exact sum, clipped: post-processing, which loses no privacy. A sum that wraps around would.
    """
    total: NDArray[np.int64] = np.clip(np.clip(drawn, -2 * LIMIT, 2 * LIMIT) + numbers, -LIMIT, LIMIT)
    return total
