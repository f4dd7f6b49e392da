"""Processor time of noise, clipping and accounts, for the 62,006 numbers of `cnn` and for 2.16 million.

    python -m experiments.private_networks.noise

Best of five, in milliseconds of processor time. A round of the workload W1 of `experiments/speed` has 500 SGD steps of
`cnn` on 100 images each.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedlearn.privacy import Noise, gaussian, secure_noise, seeded_noise, skellam
from fedlearn.privacy.accounts import GaussianRounds, epsilon_of, noise_multiplier_for
from fedlearn.privacy.factorization import CorrelatedNoise, square_root
from fedlearn.privacy.mechanisms.gaussian_share import gaussian_share, whole_steps
from fedlearn.privacy.mechanisms.skellam import steps_of

STEPS_OF_A_ROUND = 500


def milliseconds(work: Callable[[], object], times: int = 5) -> float:
    """Return the least processor time of several calls."""
    found = []
    for _ in range(times):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return 1000 * min(found)


def step_of_cnn() -> float:
    """Return the milliseconds of a training step of torch's layers of cnn's size."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    model = nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    images, labels = torch.randn(100, 3, 32, 32), torch.randint(10, (100,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return milliseconds(step, 20)


def clipped(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a vector, shortened to norm 1 where it is longer."""
    return np.asarray(vector * min(1.0, 1.0 / float((vector * vector).sum()) ** 0.5))


def shared(vector: NDArray[np.float64], noise: Noise) -> NDArray[np.int64]:
    """Return a vector in whole steps, shortened to norm 1, with its share of the noise of a hundred nodes."""
    steps = whole_steps(vector, clip=1.0, reach=2**15)
    return gaussian_share(steps, sensitivity=2**15, noise_multiplier=1.0, shares=100, noise=noise)


def main() -> None:
    """Print a line for each kind of work."""
    for numbers in (62_006, 2_160_000):
        values = np.random.default_rng(0).normal(size=numbers)
        steps = steps_of(values, clip=1.0, exponent=-14)
        lines: dict[str, Callable[[], object]] = {"clip a vector": partial(clipped, values)}
        for name, noise in (("seeded", seeded_noise(0)), ("secure", secure_noise())):
            row = CorrelatedNoise(square_root(100, 16), 16, clip=1.0, noise_multiplier=1.0)
            for _ in range(15):
                row.draw(numbers, seeded_noise(1))
            central = partial(gaussian, clip=1.0, noise_multiplier=1.0, noise=noise)
            share = partial(skellam, sensitivity=2**14, noise_multiplier=1.0, shares=100, noise=noise)
            lines[f"gaussian, {name}"] = partial(central, values)
            lines[f"a share of skellam, {name}"] = partial(share, steps)
            lines[f"a share of discrete gaussian in whole steps, {name}"] = partial(shared, values, noise)
            lines[f"a row of correlated noise, 16 bands, {name}"] = partial(row.draw, numbers, noise)
        for name, work in lines.items():
            print(f"{numbers:9,d} numbers: {name:45s} {milliseconds(work):9.2f} ms", flush=True)
    part = GaussianRounds(noise_multiplier_for(8.0, delta=1e-5, rounds=30, sampling_rate=0.2), 30, 0.2)
    epsilon_of([part], delta=1e-5)
    print(f"an account that is kept {milliseconds(lambda: epsilon_of([part], delta=1e-5)):45.3f} ms")
    print(
        f"a round of W1: {STEPS_OF_A_ROUND} steps of cnn by torch's layers {STEPS_OF_A_ROUND * step_of_cnn():29.0f} ms"
    )


if __name__ == "__main__":
    main()
