"""Model, data, training: what the two apps share."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """Two convolutions and three linear layers, with dropout; images of 3 x 32 x 32."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Dropout(0.1), nn.Linear(120, 84), nn.ReLU(),
            nn.Linear(84, 10),
        )  # fmt: skip

    def forward(self, images: Tensor) -> Any:
        """Return the logits, (B, 10)."""
        return self.layers(images)


@cache
def images_and_labels(data: str) -> tuple[Tensor, Tensor]:
    """Return all images and labels: scikit-learn's digits, or a Parquet file in the form of CIFAR-10."""
    if data == "digits":
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
        small = torch.tensor(images / 8 - 1, dtype=torch.float32).reshape(-1, 1, 8, 8)
        return nn.functional.interpolate(small, size=32).repeat(1, 3, 1, 1), torch.tensor(labels)
    from datasets import load_dataset

    rows = load_dataset("parquet", data_files=data, split="train")
    pixels = np.stack([np.asarray(image) for image in rows["img"]])
    return torch.tensor(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1, torch.tensor(rows["label"])


def loaders(data: str, part: int, parts: int, batch_size: int) -> tuple[Any, Any]:
    """Return batches of a node's training examples, in random order, and of its test examples."""
    images, labels = images_and_labels(data)
    mine = np.array_split(np.random.RandomState(0).permutation(len(labels)), parts)[part]
    rest, test = np.split(mine, [int(0.8 * len(mine))])
    train_set, test_set = (TensorDataset(images[rows], labels[rows]) for rows in (rest, test))
    return DataLoader(train_set, batch_size=batch_size, shuffle=True), DataLoader(test_set, batch_size=batch_size)


def train(net: nn.Module, batches: Any, epochs: int, lr: float) -> float:
    """Train in place; return the mean loss."""
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    net.train()
    total = 0.0
    for _ in range(epochs):
        for images, labels in batches:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
    return total / (epochs * len(batches))


def test(net: nn.Module, batches: Any) -> tuple[float, float]:
    """Return loss and accuracy."""
    net.eval()
    loss, right = 0.0, 0
    with torch.no_grad():
        for images, labels in batches:
            logits = net(images)
            loss += nn.functional.cross_entropy(logits, labels, reduction="sum").item()
            right += int((logits.argmax(1) == labels).sum())
    count = len(batches.dataset)
    return loss / count, right / count
