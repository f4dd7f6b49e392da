"""Measure cost and gain of bfloat16: test accuracy and processor time beside float32, seed by seed.

    FEDLEARN_DATA=... python -m experiments.speed.precision --model cnn-large --workload w1 --seeds 3 --rounds 2

All precisions train the same nodes from the same state, in turn, in one process of one thread (``--engine inline``),
so that all meet the same load. Processor time is that of rounds without evaluation. The line above the table tells
whether the processor has instructions for bfloat16: without them each product is converted first, and no time is won.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

import fedlearn
from client.learners.sgd import SGD
from fedlearn.engine.prepare import has_bfloat16

PRECISIONS = ("float32", "bfloat16-mixed", "bfloat16")
PATIENCE = 86_400.0  # seconds that a round may take
WORKLOADS = {"w1": 100, "w2": 1000}  # number of nodes that share the data


@contextmanager
def timed_fits() -> Iterator[list[float]]:
    """Yield a list that collects the processor seconds of each local training in this process."""
    seconds: list[float] = []
    fit = SGD.fit

    def timed(self: SGD, *given: object, **named: object) -> object:
        begun = time.process_time()
        try:
            return fit(self, *given, **named)  # type: ignore[arg-type]
        finally:
            seconds.append(time.process_time() - begun)

    SGD.fit = timed  # type: ignore[assignment, method-assign]
    try:
        yield seconds
    finally:
        SGD.fit = fit  # type: ignore[method-assign]


def measured(options: argparse.Namespace, precision: str, seed: int) -> tuple[float, float]:
    """Return the test accuracy after the last round, and the median processor seconds of a node's training."""
    with tempfile.TemporaryDirectory() as folder, timed_fits() as seconds:
        run = fedlearn.run(
            WORKLOADS[options.workload], model=options.model, data=options.dataset, cohort=options.cohort,
            rounds=options.rounds, batch_size=options.batch_size, lr=options.lr, local_epochs=1, seed=seed,
            out=str(Path(folder, "run")), progress=False,
            settings={
                "training.precision": precision, "engine.name": "inline", "evaluation.every": options.rounds,
                "rounds.reporting_deadline": PATIENCE,
            },
        )  # fmt: skip
        return float(run.summary["accuracy"]), median(seconds)


def main() -> None:
    """Run all precisions in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", default="cnn-large")
    parser.add_argument("--dataset", default="cifar10")
    parser.add_argument("--workload", choices=list(WORKLOADS), default="w1")
    parser.add_argument("--cohort", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=100)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {precision: [] for precision in PRECISIONS}
    for seed in range(1, options.seeds + 1):
        for precision in PRECISIONS:
            accuracy, seconds = measured(options, precision, seed)
            found[precision].append((accuracy, seconds))
            print(f"seed {seed} {precision}: {accuracy:.4f}, {seconds:.3f} s a node", file=sys.stderr, flush=True)
    has = "has" if has_bfloat16() else "has NO"
    table = Table(title=f"{options.model}, {options.dataset}; this processor {has} instructions for bfloat16")
    for column in ("precision", "accuracy, mean over seeds", "its largest difference", "x CPU (min-max)"):
        table.add_column(column)
    plain = found[PRECISIONS[0]]
    for precision, pairs in found.items():
        ratios = [mine[1] / its[1] for mine, its in zip(pairs, plain, strict=True)]
        apart = max(abs(mine[0] - its[0]) for mine, its in zip(pairs, plain, strict=True))
        mean = sum(accuracy for accuracy, _ in pairs) / len(pairs)
        spread = f"{median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
        table.add_row(precision, f"{mean:.4f}", f"{apart:.4f}", spread)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
