"""What a torch module learns: a loss that is made smaller, and what is measured on examples.

Which one it is follows from the data; ``model.loss`` names another: a function (outputs, targets) -> mean loss, as
those of `torch.nn.functional`, or an `Objective` with metrics of its own.

Shapes: B batch, K classes, L length of a sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fedlearn.data.base import DataSpec
from fedlearn.errors import SettingError
from fedlearn.metrics import ACCURACY, LANGUAGE, LOSS, MAE, MSE, NEURAL_CLASSIFIER, NEURAL_REGRESSOR, Metrics
from fedlearn.models.base import confusion_of
from fedlearn.registry import Registry

Loss = Callable[[Tensor, Tensor], Tensor]


class Objective:
    """A loss and what is measured; derive from it, or from one of those below, and override what differs.

    Parameters
    ----------
    spec : DataSpec
        Of the data.
    loss : callable, optional
        (outputs, targets) -> mean loss, in place of `loss`.
    """

    metrics: Metrics

    def __init__(self, spec: DataSpec, loss: Loss | None = None) -> None:
        self.spec = spec
        self.own_loss = loss
        if loss is not None:
            self.metrics = self.metrics.of_other_loss()

    def targets(self, targets: NDArray[Any]) -> Tensor:
        """Return what is to be learned of a batch, as `loss` and `measure` are given it."""
        return torch.from_numpy(targets)

    def why_not(self, outputs: Tensor, targets: Tensor) -> str:
        """Return why the outputs do not fit the targets; empty if they do. Asked once, before the first round."""
        return ""

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return what a step makes smaller: a mean over the batch."""
        raise NotImplementedError(f"{type(self).__name__} has no loss")

    def measure(self, outputs: Tensor, targets: Tensor) -> dict[str, float]:
        """Return the sums over the batch of what `metrics` says is evaluated."""
        raise NotImplementedError(f"{type(self).__name__} measures nothing")

    def confusion(self, outputs: Tensor, targets: Tensor) -> NDArray[np.int64] | None:
        """Return (K, K) how often each class was taken for each in the batch; None where that means nothing."""
        return None


class Classification(Objective):
    """Cross-entropy in nats of (B, K) logits and (B,) labels; with sequences, of (B, L, K) and (B, L)."""

    metrics = NEURAL_CLASSIFIER

    def why_not(self, outputs: Tensor, targets: Tensor) -> str:
        """Return what is wrong with the outputs: their shape, or fewer of them than there are classes."""
        if not isinstance(outputs, Tensor):
            return _no_tensor(outputs)
        wanted = (*targets.shape, self.spec.classes)
        fits = outputs.ndim == len(wanted) and outputs.shape[:-1] == targets.shape and outputs.shape[-1] >= wanted[-1]
        return "" if fits else f"its outputs have shape {tuple(outputs.shape)}, which should be {wanted}"

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross-entropy."""
        outputs, targets = _flat(outputs, targets)
        return functional.cross_entropy(outputs, targets) if self.own_loss is None else self.own_loss(outputs, targets)

    def measure(self, outputs: Tensor, targets: Tensor) -> dict[str, float]:
        """Return loss and number of right answers; of a sequence, the mean loss and the share of right answers."""
        length = targets.numel() // len(targets)
        outputs, targets = _flat(outputs, targets)
        if self.own_loss is None:
            loss = functional.cross_entropy(outputs, targets, reduction="sum").item()
        else:
            loss = self.own_loss(outputs, targets).item() * len(targets)
        correct = int((outputs.argmax(1) == targets).sum())
        return {LOSS.name: loss / length, ACCURACY.name: correct / length}

    def confusion(self, outputs: Tensor, targets: Tensor) -> NDArray[np.int64] | None:
        """Return how often each class was taken for each; None of tokens, and where an example has not one label."""
        classes = self.spec.classes
        if targets.ndim != 1 or targets.is_floating_point() or self.spec.vocabulary == classes:
            return None
        if outputs.ndim != 2 or len(outputs) != len(targets) or outputs.shape[1] < classes:
            return None  # of an objective that was derived from this one
        return confusion_of(targets.cpu().numpy(), outputs.argmax(1).cpu().numpy(), classes)


class NextToken(Classification):
    """Cross-entropy of the token that comes next, after each one of a sequence or after the last."""

    metrics = LANGUAGE


class Regression(Objective):
    """Squared error of (B, ...) numbers; where their bounds are declared, from -1 to 1 in the loss.

    What is measured is in the unit of the targets.
    """

    metrics = NEURAL_REGRESSOR

    def __init__(self, spec: DataSpec, loss: Loss | None = None) -> None:
        super().__init__(spec, loss)
        low, high = spec.target_bounds or (-1.0, 1.0)
        self.center, self.unit = (low + high) / 2, (high - low) / 2

    def targets(self, targets: NDArray[Any]) -> Tensor:
        """Return the numbers, (B, ...) float32."""
        return torch.from_numpy((targets - self.center) / self.unit).to(torch.float32)

    def why_not(self, outputs: Tensor, targets: Tensor) -> str:
        """Return what is wrong with the shape of the outputs; one number may stand in a dimension of its own."""
        if not isinstance(outputs, Tensor):
            return _no_tensor(outputs)
        fits = outputs.shape[:1] == targets.shape[:1] and outputs.numel() == targets.numel()
        wanted = tuple(targets.shape)
        return "" if fits else f"its outputs have shape {tuple(outputs.shape)}, which should be {wanted}"

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean squared error."""
        loss = self.own_loss or functional.mse_loss
        return loss(outputs.reshape(targets.shape), targets)

    def measure(self, outputs: Tensor, targets: Tensor) -> dict[str, float]:
        """Return absolute and squared error in the unit of the targets, each the mean over an example's numbers."""
        error = (outputs.reshape(len(targets), -1) - targets.reshape(len(targets), -1)).double() * self.unit
        return {MAE.name: error.abs().mean(1).sum().item(), MSE.name: error.square().mean(1).sum().item()}


def _no_tensor(outputs: object) -> str:
    kind = type(outputs).__name__
    return f"it returns a {kind}, which should be one tensor: return that alone, or take a model.loss of yours"


OBJECTIVES = Registry(
    "model.loss",
    {
        "cross-entropy": "fedlearn.models.objectives:Classification",
        "next-token": "fedlearn.models.objectives:NextToken",
        "mse": "fedlearn.models.objectives:Regression",
        "mae": "torch.nn.functional:l1_loss",
        "huber": "torch.nn.functional:huber_loss",
    },
)


def objective_for(spec: DataSpec, given: object = "") -> Objective:
    """Return what a module learns from a data set.

    Parameters
    ----------
    given
        Empty: what goes with the data. Else a name in `OBJECTIVES`, a ``module:name``, or the object itself: a class of
        `Objective`; a loss (outputs, targets) -> mean, or the class of a loss module, for what goes with the data.

    Raises
    ------
    SettingError
        Where it is none of these.
    """
    if not given:
        return _of_data(spec)(spec)
    found = OBJECTIVES.load(given) if isinstance(given, str) else given
    if isinstance(found, Objective):
        return found
    if isinstance(found, type) and issubclass(found, Objective):
        return found(spec)
    if isinstance(found, type) and issubclass(found, nn.Module):
        found = found()
    if not callable(found) or isinstance(found, type):
        raise SettingError("model.loss", given, "it is neither a function (outputs, targets) nor an Objective")
    return _of_data(spec)(spec, found)


def _of_data(spec: DataSpec) -> type[Classification | Regression]:
    if not spec.classes:
        return Regression
    return NextToken if spec.vocabulary == spec.classes else Classification


def _flat(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the outputs and labels of sequences as those of single examples."""
    return (outputs, targets) if targets.ndim == 1 else (outputs.flatten(0, -2), targets.flatten())
