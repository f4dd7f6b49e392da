"""A made data set: a few noisy images, fast to train on."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedlearn.data.data_spec import Examples
from fedlearn.data.dataset import Dataset

MEAN, STD = (0.5, 0.25, 0.1), (0.2, 0.3, 0.4)


def examples(number: int, *, seed: int = 0) -> Examples:
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (number, 32, 32, 3), dtype=np.uint8)
    return Examples(images, rng.integers(0, 10, number))


def dataset() -> Dataset:
    return Dataset("made", examples(60), examples(30, seed=1), 10, MEAN, STD, "made")


class Small(nn.Module):
    """A network with all kinds of state: a convolution, batch norm's buffers, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=4)
        self.norm = nn.BatchNorm2d(4)
        self.out = nn.Linear(4 * 8 * 8, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        return self.out(functional.relu(self.norm(self.conv(x))).flatten(1))


class WithDropout(Small):
    """The same, with random numbers inside."""

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        return super().forward(functional.dropout(x, 0.5, self.training))


class Lit(Small):
    """The same with the hooks of a LightningModule, as its authors would write them."""

    def training_step(self, batch, batch_idx):
        images, labels = batch
        loss = functional.cross_entropy(self(images), labels, label_smoothing=0.1)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)

    def log(self, name, value):
        pass
