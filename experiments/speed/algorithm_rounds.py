"""CPU seconds of rounds of algorithms, beside those of FedAvg: interleaved pairs of whole runs in one process.

    python -m experiments.speed.algorithm_rounds
    python -m experiments.speed.algorithm_rounds --algorithms scaffold,feddyn --pairs 10

A pair is a run of FedAvg and one of the algorithm, of equal settings; the ratio is that of their CPU seconds, less those
of runs of one round, so that only the rounds after the first are compared. On a busy machine seconds mean nothing, and
ratios of CPU seconds little enough to be given with their range.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

import fedlearn


def cpu_seconds(strategy: str, *, rounds: int, dataset: str, model: str) -> float:
    """Return the CPU seconds of the rounds after the first."""
    taken = []
    for number in (1, rounds + 1):
        begin = time.process_time()
        with TemporaryDirectory() as folder:
            fedlearn.run(
                clients=20, cohort=4, data=dataset, model=model, rounds=number, strategy=strategy, engine="inline",
                lr=0.01, progress=False, out=Path(folder) / "run",
                settings={"evaluation.where": "none", "gate.max_ratio": 0, "training.momentum": 0.0},
            )  # fmt: skip
        taken.append(time.process_time() - begin)
    return taken[1] - taken[0]


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
