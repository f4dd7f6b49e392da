"""The factor of a DP-SGD step of Opacus over plain SGD, on the `cnn` of this project; needs Opacus, not fedlearn.

PYTHON experiments/private_networks/opacus_step.py --batch 100 --repeats 9
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional


class CNN(nn.Module):
    """The network `cnn` by torch's own layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 6, 5), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (B, 10) of images (B, 3, 32, 32)."""
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2).flatten(1)
        logits: Tensor = self.fc3(functional.relu(self.fc2(functional.relu(self.fc1(x)))))
        return logits


def batch_of(size: int) -> tuple[Tensor, Tensor]:
    """Return images in torch's channels_last format, and labels."""
    torch.manual_seed(1)
    images = torch.randn(size, 3, 32, 32).to(memory_format=torch.channels_last)
    return images, torch.randint(0, 10, (size,))


def plain_step(size: int) -> Callable[[], object]:
    """Return a step of torch's SGD."""
    model, (x, y) = CNN(), batch_of(size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def seconds(step: Callable[[], object], times: int = 5) -> float:
    """Return processor seconds of a step."""
    begin = time.process_time()
    for _ in range(times):
        step()
    return (time.process_time() - begin) / times


def main() -> None:
    """Print the factor of each mode of Opacus: median of interleaved pairs, with the lowest and the highest."""
    from opacus import PrivacyEngine

    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=9)
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for mode in ("hooks", "functorch", "ew", "ghost"):
        model, (x, y) = CNN(), batch_of(given.batch)
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=given.batch)
        optimizer, criterion = torch.optim.SGD(model.parameters(), lr=0.01), nn.CrossEntropyLoss()
        made = PrivacyEngine(accountant="rdp").make_private(
            module=model, optimizer=optimizer, data_loader=loader, criterion=criterion, noise_multiplier=1.0,
            max_grad_norm=1.0, poisson_sampling=False, grad_sample_mode=mode,
        )  # fmt: skip
        private, stepping = made[0], made[1]
        loss_of = made[2] if mode == "ghost" else criterion

        def step(private=private, stepping=stepping, loss_of=loss_of, x=x, y=y) -> None:  # type: ignore[no-untyped-def]
            stepping.zero_grad()
            loss_of(private(x), y).backward()
            stepping.step()

        plain = plain_step(given.batch)
        step()
        plain()
        ratios = [seconds(step) / seconds(plain) for _ in range(given.repeats)]
        print(f"opacus, {mode}: {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


if __name__ == "__main__":
    main()
