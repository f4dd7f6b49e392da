"""An additive model: a start, and for each round a partition with a step for each of its cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedlearn.private_trees.sums.losses import Loss
from fedlearn.private_trees.sums.partitions import Partitions
from fedlearn.private_trees.sums.views import Codes

FloatArray = NDArray[np.float64]
LARGEST_STEP = 1.5  # in units of the loss
SPREAD = 1.0  # what steps are expected to be, in units of the loss


@dataclass(frozen=True, slots=True, eq=False)
class AdditiveModel:
    """All that boosting publishes; the score of a record is the start and the steps of its cells, added up."""

    start: FloatArray  # (outputs,)
    chosen: tuple[int, ...]  # (rounds,) numbers of partitions
    steps: tuple[FloatArray, ...]  # of each round (cells, outputs)

    def score(self, codes: Codes, partitions: Partitions) -> FloatArray:
        """Return (rows, outputs) scores of codes (views, rows)."""
        total = np.tile(self.start, (codes.shape[1], 1))
        for partition, step in zip(self.chosen, self.steps, strict=True):
            total += step[partitions.cell_of(partition, codes)]
        return total


def step_of(released: FloatArray, loss: Loss, variance: float) -> FloatArray:
    """Return (cells, outputs) the Newton step of released sums (cells, 2 outputs), in records.

    Shrunk to what the noise leaves: gradient * curvature / (curvature^2 + curvature + variance / SPREAD^2), which is
    the mean of the step given the noisy gradient, if steps are normal with spread SPREAD and the curvature is right.
    Post-processing of what was published.

    Parameters
    ----------
    released
        Sums of gradients, then those of curvatures.
    loss
        Says what to multiply them with.
    variance
        Of the noise on one sum, in records.
    """
    gradient = released[:, : loss.outputs] * loss.gradient_in
    curvature = np.maximum(released[:, loss.outputs :] * loss.curvature_in, 0.0)
    noise = variance * loss.gradient_in**2
    below = curvature**2 + curvature + noise / SPREAD**2
    step = np.divide(gradient * curvature, below, out=np.zeros_like(gradient), where=below > 0)
    return np.asarray(loss.unit * np.clip(step, -LARGEST_STEP, LARGEST_STEP))
