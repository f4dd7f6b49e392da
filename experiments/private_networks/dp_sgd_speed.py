"""The factor of a DP-SGD step over plain SGD by torch's layers, on `cnn`, with the noise; and that of Opacus.

    python -m experiments.private_networks.dp_sgd_speed --opacus PYTHON

PYTHON is an interpreter of an environment with Opacus. Processor seconds of interleaved pairs on one thread. The last
rows are whole fits of the learner, with Poisson batches, coins, noise and momentum, by the number of their steps.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch

from client.learners.dp_sgd import DPSGD
from client.learners.learner import LocalTask
from experiments.private_networks.opacus_step import CNN, batch_of, plain_step, seconds
from fedlearn.config import config_from
from fedlearn.data.cifar10 import SPEC
from fedlearn.data.data_spec import Examples
from fedlearn.models import load_model
from fedlearn.models.per_example import clipped_sum_of
from fedlearn.models.per_example.by_transform import ByTransform
from fedlearn.models.torch.torch_model import TorchModel
from fedlearn.privacy import gaussian, secure_noise, seeded_noise

RECORDS = 1000


def fit_of(noise: str, batch: int) -> tuple[Callable[[], object], int]:
    """Return a whole fit of the learner on made-up images, and its number of steps."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (RECORDS, 32, 32, 3), dtype=np.uint8)
    train = Examples(images, rng.integers(0, 10, RECORDS))
    model = load_model("cnn", SPEC, "", "")
    assert isinstance(model, TorchModel)
    config = config_from({
        "model.name": "cnn", "data.dataset": "cifar10", "training.learner": "dp-sgd", "privacy.protects": "records",
        "privacy.epsilon": 8.0, "privacy.delta": 1e-5, "privacy.records": RECORDS, "privacy.noise": noise,
        "training.batch_size": batch, "training.local_epochs": 5, "rounds.total": 3,
    })  # fmt: skip
    learner, state = DPSGD.from_settings(model, config), model.initial_state(seed=1)
    task = LocalTask(train, np.arange(RECORDS), 1, 1, 0, {})
    return lambda: learner.fit(state, task), learner.plan.steps


def main() -> None:
    """Print the factors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--opacus", default="", help="interpreter of an environment with Opacus")
    given = parser.parse_args()
    torch.set_num_threads(1)
    ours = load_model("cnn", SPEC, "", "")
    assert isinstance(ours, TorchModel)
    plain_layers = TorchModel(CNN, SPEC)
    ways = {
        "cnn": clipped_sum_of(ours, given.batch),
        "cnn by torch's layers": clipped_sum_of(plain_layers, given.batch),
        "cnn by torch's layers, vmap": ByTransform(plain_layers, given.batch),
    }
    plain = plain_step(given.batch)
    for name, way in ways.items():
        x, y = batch_of(way.places)
        taken = torch.arange(way.places) < given.batch
        for noise in (seeded_noise(1), secure_noise()):

            def step(way=way, x=x, y=y, taken=taken, noise=noise) -> None:  # type: ignore[no-untyped-def]
                total = way(x, y, taken, clip=1.0).numpy()
                noisy = gaussian(total, clip=1.0, noise_multiplier=1.0, noise=noise) / given.batch
                change = torch.from_numpy(noisy.astype(np.float32))
                parts = change.split([each.numel() for each in way.model.parameters])
                with torch.no_grad():
                    for each, part in zip(way.model.parameters, parts, strict=True):
                        each.add_(part.view_as(each), alpha=-0.01)

            step()
            plain()
            ratios = [seconds(step) / seconds(plain) for _ in range(given.repeats)]
            kind = "secure" if noise.is_secure else "seeded"
            print(f"{name}, {type(way).__name__}, {kind} noise: {median(ratios):.2f} "
                  f"({min(ratios):.2f} to {max(ratios):.2f})", flush=True)  # fmt: skip
    for kind in ("seeded", "secure"):
        fit, steps = fit_of(kind, given.batch)
        fit()
        ratios = [seconds(fit, 1) / steps / seconds(plain) for _ in range(given.repeats)]
        print(
            f"cnn, a whole fit, {kind} noise: {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", flush=True
        )
    if given.opacus:
        script = Path(__file__).with_name("opacus_step.py")
        numbers = ["--batch", str(given.batch), "--repeats", str(given.repeats)]
        subprocess.run([given.opacus, str(script), *numbers], check=True)


if __name__ == "__main__":
    main()
