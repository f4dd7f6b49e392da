"""An additive model: a start, and for each round the steps of a partition's cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedlearn.private_trees.sums.losses import Loss
from fedlearn.private_trees.sums.record_partitions import Partitions
from fedlearn.private_trees.sums.views import Codes

FloatArray = NDArray[np.float64]
LARGEST_STEP = 1.5  # in units of the loss
SPREAD = 1.0  # expected size of steps, in units of the loss


@dataclass(frozen=True, slots=True, eq=False)
class AdditiveModel:
    """The release of boosting; the score of a record is the start plus the steps of its cells."""

    start: FloatArray  # (outputs,)
    chosen: tuple[int, ...]  # (rounds,) numbers of partitions
    steps: tuple[FloatArray, ...]  # (cells, outputs) of each round

    def score(self, codes: Codes, partitions: Partitions) -> FloatArray:
        """Return (rows, outputs) scores of codes (views, rows)."""
        total = np.tile(self.start, (codes.shape[1], 1))
        for partition, step in zip(self.chosen, self.steps, strict=True):
            total += step[partitions.cell_of(partition, codes)]
        return total


def step_of(released: FloatArray, loss: Loss, variance: float) -> FloatArray:
    """Return (cells, outputs) the Newton step of released sums (cells, 2 outputs), in records.

    The step is shrunk by the noise: gradient * curvature / (curvature^2 + curvature + variance / SPREAD^2). This is the
    mean of the step given the noisy gradient, if steps are normal with spread SPREAD and the curvature is exact. It is
    post-processing of published sums.

    Parameters
    ----------
    released
        Sums of gradients, then sums of curvatures.
    loss
        Loss, with the factors of gradients and curvatures.
    variance
        Variance of the noise on one sum, in records.
    """
    gradient = released[:, : loss.outputs] * loss.gradient_in
    curvature = np.maximum(released[:, loss.outputs :] * loss.curvature_in, 0.0)
    noise = variance * loss.gradient_in**2
    below = curvature**2 + curvature + noise / SPREAD**2
    step = np.divide(gradient * curvature, below, out=np.zeros_like(gradient), where=below > 0)
    return np.asarray(loss.unit * np.clip(step, -LARGEST_STEP, LARGEST_STEP))
