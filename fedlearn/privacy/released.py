"""Sums as they leave the nodes: with the variance of their noise, which all that is made of them must take in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """The sums of one round, and the variance of the noise on each of them."""

    sums: NDArray[np.int64]
    variance: float
