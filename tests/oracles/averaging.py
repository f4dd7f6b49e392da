"""What a strategy makes of one entry, entry by entry, in plain Python: slow and obvious.

A report is (weight, values, sent): values and the boolean mask `sent` have the parameter's shape. Results are float64
and not rounded to the parameter's dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Report = tuple[float, np.ndarray, np.ndarray]
Combine = Callable[[list[tuple[float, float]]], float]


def mean(sent: list[tuple[float, float]]) -> float:
    return sum(weight * value for weight, value in sent) / sum(weight for weight, _ in sent)


def median(sent: list[tuple[float, float]]) -> float:
    return float(np.median([value for _, value in sent]))


def trimmed_mean(sent: list[tuple[float, float]], *, trim: float = 0.1) -> float:
    values = sorted(value for _, value in sent)
    cut = int(trim * len(values))
    return float(np.mean(values[cut : len(values) - cut]))


def combined(old: np.ndarray, reports: Sequence[Report], combine: Combine, *, update: bool) -> np.ndarray:
    """Return the old value where no node sent one, elsewhere `combine` of the sent (weight, value) pairs."""
    after = np.array(old, np.float64)
    for entry in np.ndindex(old.shape):
        sent = [(weight, float(values[entry])) for weight, values, mask in reports if mask[entry]]
        if sent:
            after[entry] = combine(sent) + (float(old[entry]) if update else 0.0)
    return after


class MomentumOracle:
    """Hsu et al. 2019: v = beta v + change; x = x + lr v; for the entries that somebody sent."""

    def __init__(self, *, lr: float = 1.0, beta: float = 0.9) -> None:
        self.lr, self.beta = lr, beta
        self.velocity: dict[str, np.ndarray] = {}

    def __call__(self, name: str, old: np.ndarray, reports: Sequence[Report], *, update: bool) -> np.ndarray:
        velocity = self.velocity.setdefault(name, np.zeros(old.shape))
        change = combined(old, reports, mean, update=update) - old
        after = np.array(old, np.float64)
        for entry in np.ndindex(old.shape):
            if any(mask[entry] for _, _, mask in reports):
                velocity[entry] = self.beta * velocity[entry] + change[entry]
                after[entry] += self.lr * velocity[entry]
        return after


class AdamOracle:
    """Reddi et al. 2021, algorithm 2 (FedAdam), for the entries that somebody sent."""

    def __init__(self, *, lr: float = 0.01, beta1: float = 0.9, beta2: float = 0.99, tau: float = 1e-3) -> None:
        self.lr, self.beta1, self.beta2, self.tau = lr, beta1, beta2, tau
        self.first: dict[str, np.ndarray] = {}
        self.second: dict[str, np.ndarray] = {}

    def __call__(self, name: str, old: np.ndarray, reports: Sequence[Report], *, update: bool) -> np.ndarray:
        first = self.first.setdefault(name, np.zeros(old.shape))
        second = self.second.setdefault(name, np.zeros(old.shape))
        change = combined(old, reports, mean, update=update) - old
        after = np.array(old, np.float64)
        for entry in np.ndindex(old.shape):
            if any(mask[entry] for _, _, mask in reports):
                first[entry] = self.beta1 * first[entry] + (1 - self.beta1) * change[entry]
                second[entry] = self.beta2 * second[entry] + (1 - self.beta2) * change[entry] ** 2
                after[entry] += self.lr * first[entry] / (np.sqrt(second[entry]) + self.tau)
        return after
