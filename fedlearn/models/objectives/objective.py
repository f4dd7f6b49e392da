"""Base class of objectives: a loss, and the metrics that are measured on examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedlearn.core.metrics import Metrics
from fedlearn.data.data_spec import DataSpec
from fedlearn.models.predicted import Predicted
from fedlearn.models.scores.metric_inputs import Predictions

Loss = Callable[[Any, Tensor], Tensor]


class Objective:
    """A loss and its metrics; derive from this class, or from one for classes or numbers, and override what differs.

    Parameters
    ----------
    spec : DataSpec
        Shape, classes and bounds of the data.
    loss : callable, optional
        Function (outputs, targets) -> mean loss, in place of the method `loss`.
    """

    metrics: Metrics

    def __init__(self, spec: DataSpec, loss: Loss | None = None) -> None:
        self.spec = spec
        self.own_loss = loss
        if loss is not None:
            self.metrics = self.metrics.of_other_loss()

    def targets(self, targets: NDArray[Any]) -> Tensor:
        """Return the targets of a batch as a tensor, in the form that `loss` and `measure` take."""
        return torch.from_numpy(targets)

    def why_not(self, outputs: Any, targets: Tensor) -> str:
        """Return why the outputs do not fit the targets; empty if they fit. Called once, before the first round."""
        return ""

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        """Return the loss that a step reduces: a mean over the batch."""
        raise NotImplementedError(f"{type(self).__name__} has no loss")

    def divisor(self, targets: Tensor) -> float:
        """Return what the mean of `loss` divides by: by default the number of examples."""
        return float(len(targets))

    def measure(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        """Return the sum over the batch of each metric that `metrics` lists as evaluated."""
        raise NotImplementedError(f"{type(self).__name__} measures nothing")

    def evaluated(self, outputs: Any, targets: Tensor) -> tuple[dict[str, float], dict[str, float]]:
        """Return the sums of `measure`, and what each is divided by, where that is not the number of examples."""
        return self.measure(outputs, targets), {}

    def score(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        """Return metrics of all outputs of a set at once, which are no sums over examples, as AUROC; by default none.

        Each is declared in `metrics` as evaluated, with ``is_score=True``. Outputs are those of all batches, joined;
        targets are as `loss` gets them. A score that is not defined is left out, or NaN. Where nodes measure, each
        scores its own examples, and the mean is that of the nodes which have the score, weighted by their examples.
        """
        return {}

    def predictions(self, outputs: Any, targets: Tensor) -> Predictions | None:
        """Return the predictions for the scores of libraries; None where the outputs are none that are known."""
        return None

    def answers(self, outputs: Any, targets: Tensor) -> Predicted | None:
        """Return what the outputs say of new examples; None where they are none that are known.

        Targets are zeros in the form that `loss` gets; they only tell the shape of an answer.
        """
        return None

    def confusion(self, outputs: Any, targets: Tensor) -> NDArray[np.int64] | None:
        """Return the confusion matrix of the batch, (K, K), true classes by predicted ones; None without one."""
        return None

    def metrics_of(self, outputs: Any, targets: Tensor) -> Metrics:
        """Return the part of `metrics` that can be measured on outputs of this kind."""
        return self.metrics


def no_tensor(outputs: object) -> str:
    """Return the line that refuses outputs which are no tensor."""
    kind = type(outputs).__name__
    return f"it returns a {kind}, which should be one tensor: return that alone, or take a model.loss of yours"
