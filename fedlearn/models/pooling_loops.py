"""The loops of `pooling.py`; a module of its own, as it imports numba.

Shapes: N images, h and w a pooled image's height and width, C channels; x is (N, >= 2 h, >= 2 w, C).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.compiled import compiled

Images = NDArray[Any]
NUMBERS, PLACES = "float32[:,:,:,::1]", "uint8[:,:,:,::1]"


@compiled(f"void({NUMBERS}, {NUMBERS}, {PLACES})")
def pool(x: Images, pooled: Images, which: Images) -> None:
    """Write the largest number of each four, and which it is; of equal ones the first, of NaN the last, as torch does.

    `value != value` asks for NaN: with `np.isnan` the loop has branches, and takes four times as long.
    """
    images, height, width, channels = pooled.shape
    for n in range(images):
        for h in range(height):
            for w in range(width):
                for c in range(channels):
                    largest, place = x[n, 2 * h, 2 * w, c], np.uint8(0)
                    value = x[n, 2 * h, 2 * w + 1, c]
                    if value > largest or value != value:
                        largest, place = value, np.uint8(1)
                    value = x[n, 2 * h + 1, 2 * w, c]
                    if value > largest or value != value:
                        largest, place = value, np.uint8(2)
                    value = x[n, 2 * h + 1, 2 * w + 1, c]
                    if value > largest or value != value:
                        largest, place = value, np.uint8(3)
                    pooled[n, h, w, c], which[n, h, w, c] = largest, place


@compiled(f"void({NUMBERS}, {PLACES}, {NUMBERS})")
def put_back(gradient: Images, which: Images, x: Images) -> None:
    """Write each gradient where its number came from, and zeros elsewhere."""
    images, height, width, channels = gradient.shape
    zero = np.float32(0)
    for n in range(images):
        for h in range(height):
            for w in range(width):
                for c in range(channels):
                    value, place = gradient[n, h, w, c], which[n, h, w, c]
                    x[n, 2 * h, 2 * w, c] = value if place == 0 else zero
                    x[n, 2 * h, 2 * w + 1, c] = value if place == 1 else zero
                    x[n, 2 * h + 1, 2 * w, c] = value if place == 2 else zero
                    x[n, 2 * h + 1, 2 * w + 1, c] = value if place == 3 else zero
        x[n, 2 * height :] = zero
        x[n, :, 2 * width :] = zero
