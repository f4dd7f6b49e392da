"""Objectives whose outputs have the shape of the targets: errors of numbers, and several labels an example."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from fedlearn.data.base import DataSpec
from fedlearn.models.axes import are_alike, learns_images, named_logits, wrong_shape
from fedlearn.models.objectives.base import Loss, Objective, no_tensor
from fedlearn.models.objectives.losses import LOSSES_OF_NUMBERS, OF_PROBABILITIES, is_one_of
from fedlearn.models.scores.predictions import Predictions, of_labels, of_numbers
from fedlearn.words.metric import ACCURACY, ALL_RIGHT, LOSS, MAE, MSE
from fedlearn.words.metrics import LABELS, NEURAL_REGRESSOR, Metrics


class Regression(Objective):
    """Squared error of (B, ...) numbers; in the loss, declared bounds of the targets are scaled to -1 and 1.

    Metrics are in the unit of the targets. With a loss of the user's, runs are judged by that loss, unless it is one of
    torch's losses of numbers: outputs that are logits have no error in the unit of the targets.
    """

    metrics = NEURAL_REGRESSOR

    def __init__(self, spec: DataSpec, loss: Loss | None = None) -> None:
        super().__init__(spec, loss)
        low, high = spec.target_bounds or (-1.0, 1.0)
        self.center, self.unit = (low + high) / 2, (high - low) / 2
        self.takes_any = loss is not None and not is_one_of(LOSSES_OF_NUMBERS, loss)
        if self.takes_any:
            self.metrics = self.metrics.judged_by_loss()

    def targets(self, targets: NDArray[Any]) -> Tensor:
        """Return the targets as float32 numbers, (B, ...); images as (B, C, H, W)."""
        numbers = torch.from_numpy((targets - self.center) / self.unit).to(torch.float32)
        return numbers.permute(0, 3, 1, 2) if learns_images(self.spec) else numbers

    def why_not(self, outputs: Any, targets: Tensor) -> str:
        """Return what is wrong with the shape of the outputs; axes of length 1 make no difference."""
        if self.takes_any or type(self).loss is not Regression.loss:
            return ""
        return _why_not_alike(named_logits(outputs), targets)

    def metrics_of(self, outputs: Any, targets: Tensor) -> Metrics:
        """Return the metrics; only the loss where the user has an own loss and the outputs have another shape."""
        return self.metrics.of_loss_alone() if self.takes_any and _why_not_alike(outputs, targets) else self.metrics

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        """Return the mean squared error."""
        loss = self.own_loss or functional.mse_loss
        as_it_is = self.takes_any and _why_not_alike(outputs, targets)
        return loss(outputs if as_it_is else _shaped(outputs, targets), targets)

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        """Return the sums over the batch of absolute and squared error, each a mean over an example's numbers."""
        own = {LOSS.name: self.loss(outputs, targets).item() * len(targets)} if self.takes_any else {}
        if own and _why_not_alike(outputs, targets):
            return own
        error = (_shaped(outputs, targets) - targets).reshape(len(targets), -1).double() * self.unit
        return {**own, MAE.name: error.abs().mean(1).sum().item(), MSE.name: error.square().mean(1).sum().item()}

    def predictions(self, outputs: Any, targets: Tensor) -> Predictions | None:
        """Return the numbers in the unit of the targets; None where the outputs have another shape."""
        if self.takes_any and _why_not_alike(outputs, targets):
            return None
        return of_numbers(_shaped(outputs, targets), targets, center=self.center, unit=self.unit)


class Labels(Objective):
    """Several labels per example, each present or absent: a binary cross-entropy of outputs and targets, both (B, ...).

    Parameters
    ----------
    loss : callable
        Binary cross-entropy of logits, or of probabilities.
    """

    metrics = LABELS

    def __init__(self, spec: DataSpec, loss: Loss) -> None:
        super().__init__(spec, loss)
        self.threshold = 0.5 if is_one_of(OF_PROBABILITIES, loss) else 0.0

    def targets(self, targets: NDArray[Any]) -> Tensor:
        """Return 1 for each present label, else 0, as float32 (B, ...); images as (B, C, H, W)."""
        labels = torch.from_numpy(targets).to(torch.float32)
        return labels.permute(0, 3, 1, 2) if learns_images(self.spec) else labels

    def why_not(self, outputs: Any, targets: Tensor) -> str:
        """Return what is wrong with the shape of the outputs; axes of length 1 make no difference."""
        return _why_not_alike(named_logits(outputs), targets)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        """Return the mean binary cross-entropy."""
        assert self.own_loss is not None
        return self.own_loss(_shaped(outputs, targets), targets)

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        """Return the sums of the loss, of the share of right labels, and of examples whose labels are all right."""
        right = ((_shaped(outputs, targets) > self.threshold) == (targets > 0.5)).reshape(len(targets), -1)
        return {
            LOSS.name: self.loss(outputs, targets).item() * len(targets),
            ACCURACY.name: right.double().mean(1).sum().item(),
            ALL_RIGHT.name: int(right.all(1).sum()),
        }

    def predictions(self, outputs: Any, targets: Tensor) -> Predictions | None:
        """Return labels and their probabilities."""
        return of_labels(_shaped(outputs, targets), targets, self.threshold)


def _why_not_alike(outputs: Any, targets: Tensor) -> str:
    if not isinstance(outputs, Tensor):
        return no_tensor(outputs)
    return "" if are_alike(outputs.shape, targets.shape) else wrong_shape(outputs, targets, targets.shape)


def _shaped(outputs: Any, targets: Tensor) -> Tensor:
    """Return outputs, or the logits in them, in the shape of the targets; raise ValueError where they do not fit."""
    outputs = named_logits(outputs)
    if isinstance(outputs, Tensor) and outputs.shape == targets.shape:
        return outputs
    if why_not := _why_not_alike(outputs, targets):
        raise ValueError(why_not)
    return outputs.reshape(targets.shape)  # type: ignore[no-any-return]
