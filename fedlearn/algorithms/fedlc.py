"""FedLC: the logits of classes of which a node has few examples are lowered in its loss, so that it learns them more.

In the loss of a node logit k is lowered by tau n_k^(-1/4), with its number n_k of examples of the class. A class that
the node does not have is left out of its softmax. With tau = 0 only the latter is left of it.

In print the sum in the denominator is over the other classes than the example's own: such a loss has no lower bound.
Here the sum is over all classes that the node has, as in Flower's code.

Source: Zhang et al. 2022, "Federated learning with label distribution skew via logits calibration" (arXiv:2209.00189),
eq. 8; there tau is tuned, 1 for CIFAR-10.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedlearn.algorithms.logits import OfLogits
from fedlearn.extend import FedAvg, NonNegative, RunConfig, TorchModel


class FedLC(FedAvg):
    """Averages as `FedAvg` does, over nodes with calibrated logits."""

    laws = ()
    learner = "fedlc"


class FedLCSGD(OfLogits):
    """Takes steps on calibrated logits."""

    def __init__(self, model: TorchModel, config: RunConfig, *, tau: NonNegative = 1.0, **options: Any) -> None:
        super().__init__(model, config, **options)
        self.tau = tau

    def changed(self, logits: Tensor, counts: Tensor) -> Tensor:
        """Return the lowered logits: minus infinity for a class that the node does not have."""
        return logits - torch.where(counts > 0, self.tau * counts.clamp(min=1) ** -0.25, torch.inf)
