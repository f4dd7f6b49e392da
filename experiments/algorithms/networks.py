"""A small network with norms, so that FedBN has something to keep."""

from __future__ import annotations

from math import prod

from torch import Tensor, nn

from fedlearn.data.data_spec import DataSpec


class NormedMLP(nn.Module):
    """One hidden layer of 64 units with batch normalization; input (B, C, H, W), output (B, K) logits.

    Parameters
    ----------
    spec : DataSpec
        The data's spec.
    """

    def __init__(self, spec: DataSpec) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(prod(spec.shape), 64), nn.BatchNorm1d(64), nn.ReLU())
        self.head = nn.Linear(64, spec.classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits."""
        logits: Tensor = self.head(self.body(inputs))
        return logits
