"""The larger CNN of the FedAvg experiments: 2,156,490 parameters.

Source: the MNIST CNN of McMahan et al. 2017 (arXiv:1602.05629), section 3, on 3 x 32 x 32 images.
Shapes: B batch.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class CNNLarge(nn.Module):
    """Two padded 5x5 convolutions and two linear layers; input (B, 3, 32, 32), output (B, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 64, 5, padding=2)
        self.fc1 = nn.Linear(64 * 8 * 8, 512)
        self.fc2 = nn.Linear(512, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits.

        Pooling before relu gives the same bytes as after it, forwards and backwards, at a tenth less time and memory.
        """
        x = functional.relu(functional.max_pool2d(self.conv1(x), 2))  # (B, 32, 16, 16)
        x = functional.relu(functional.max_pool2d(self.conv2(x), 2))  # (B, 64, 8, 8)
        x = functional.relu(self.fc1(x.flatten(1)))  # (B, 512)
        logits: Tensor = self.fc2(x)  # (B, 10)
        return logits
