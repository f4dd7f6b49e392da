"""FedRS: the logits of classes that a node does not have are scaled down, so that it does not unlearn them.

In the loss of a node logit k is multiplied by alpha if the node has no example of class k. With alpha = 1 it is FedAvg.

Source: Li, Zhan 2021, "FedRS: federated learning with restricted softmax for label distribution non-iid data"
(KDD 2021, doi:10.1145/3447548.3467254), eq. 5; there alpha is 0.5.
"""

from __future__ import annotations

from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor

from fedlearn.algorithms.logits import OfLogits
from fedlearn.extend import FedAvg, RunConfig, TorchModel


class FedRS(FedAvg):
    """Averages as `FedAvg` does, over nodes with a restricted softmax."""

    laws = ()
    learner = "fedrs"


class FedRSSGD(OfLogits):
    """Takes steps on the restricted softmax."""

    def __init__(
        self, model: TorchModel, config: RunConfig, *, alpha: Annotated[float, Field(ge=0, le=1)] = 0.5, **options: Any
    ) -> None:
        super().__init__(model, config, **options)
        self.alpha = alpha

    def changed(self, logits: Tensor, counts: Tensor) -> Tensor:
        """Return the logits; the logit of a class without examples on the node is multiplied by alpha."""
        return logits * torch.where(counts > 0, 1.0, self.alpha)
