"""Measure CPU seconds of a round of each algorithm beside FedAvg's, in interleaved pairs of runs in one process.

    python -m experiments.speed.algorithm_rounds
    python -m experiments.speed.algorithm_rounds --algorithms scaffold,feddyn --pairs 10

A pair is a run of FedAvg and one of the algorithm, of equal settings; the ratio is that of their CPU seconds from the
first commit to the last. On a busy machine seconds mean nothing, and ratios of CPU seconds are given with their range.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

import fedlearn


class Stamps:
    """Notes the CPU seconds of the process at each commit."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def take(self, event: Mapping[str, Any]) -> None:
        """Note a commit."""
        if event["event"] == "committed":
            self.seconds.append(time.process_time())

    def close(self) -> None:
        """Return without showing anything."""


def cpu_seconds(strategy: str, *, rounds: int, dataset: str, model: str) -> float:
    """Return the CPU seconds of the rounds after the first."""
    stamps = Stamps()
    with TemporaryDirectory() as folder:
        fedlearn.run(
            clients=20, cohort=4, data=dataset, model=model, rounds=rounds + 1, strategy=strategy, engine="inline",
            lr=0.01, progress=False, out=Path(folder) / "run", log=stamps,
            settings={"evaluation.where": "none", "gate.max_ratio": 0, "training.momentum": 0.0},
        )  # fmt: skip
    return stamps.seconds[-1] - stamps.seconds[0]


def main(
    algorithms: Annotated[str, typer.Option(help="Their names, separated by commas.")] = "scaffold,ditto",
    pairs: Annotated[int, typer.Option(min=1, help="Runs of each.")] = 5,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds that are measured.")] = 4,
    dataset: Annotated[str, typer.Option(help="As of fedlearn simulate.")] = "cifar10",
    model: Annotated[str, typer.Option(help="As of fedlearn simulate.")] = "cnn",
) -> None:
    """Print the ratio of each algorithm's CPU seconds to FedAvg's: median, least and most of the pairs."""
    for name in algorithms.split(","):
        ratios = []
        for _ in range(pairs):
            plain, other = (cpu_seconds(each, rounds=rounds, dataset=dataset, model=model) for each in ("fedavg", name))
            ratios.append(other / plain)
        middle = statistics.median(ratios)
        print(
            f"{name}: {middle:.3f} times FedAvg's CPU ({min(ratios):.3f} to {max(ratios):.3f}, {pairs} pairs)",
            flush=True,
        )


if __name__ == "__main__":
    typer.run(main)
