"""Processor time of a Cox model of ten clients beside lifelines on all rows in one table, in turns.

    pip install 'fedlearn[pooled]'
    OMP_NUM_THREADS=1 python -m experiments.statistics.cox_speed

100,000 rows, 20 covariates, 1,000 times of the grid, ten clients in the clear, in one process. What is measured is the
processor time of the rounds of `fedlearn.run` (`cpu_seconds` of its summary), and of `CoxPHFitter.fit`, each in a
process that has done the same with few rows.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

COVARIATES, TIMES, CLIENTS = 20, 1000, 10


def made(rows: int) -> pd.DataFrame:
    """Return made records, whose times are whole numbers."""
    rng = np.random.default_rng(1)
    x = np.clip(rng.normal(0, 0.3, (rows, COVARIATES)), -1, 1)
    times = rng.exponential(400 * np.exp(-(x @ np.linspace(-0.5, 0.5, COVARIATES))))
    ends = rng.uniform(1, TIMES - 1, rows)
    frame = pd.DataFrame(x, columns=[f"x{place}" for place in range(COVARIATES)])
    return frame.assign(event=times <= ends, time=np.ceil(np.minimum(times, ends)))


def ours(rows: int) -> Callable[[], list[float]]:
    """Return the function that is measured: a run of ten clients. It returns its seconds, then its coefficients."""
    import fedlearn
    from fedlearn.data import from_frame

    frame = made(rows)
    bounds = {f"x{place}": (-1, 1) for place in range(COVARIATES)}
    data = from_frame(
        frame.assign(event=np.where(frame.event, "yes", "no")), target="time", target_bounds=(0, TIMES - 1),
        bounds=bounds, categories={"event": ["no", "yes"]}, test_share=0.0,
    )  # fmt: skip
    settings = {"engine.name": "inline", "model.options.event": "event"}

    def run() -> list[float]:
        with tempfile.TemporaryDirectory() as folder:
            found = fedlearn.run(clients=CLIENTS, data=data, model="cox", settings=settings, out=folder, progress=False)
            answer: Any = found.model()
            rounds, sent = found.summary["rounds"], found.summary["bytes_up"]
            print(f"{rounds} rounds, {sent / rounds / CLIENTS:,.0f} bytes up a round and client", file=sys.stderr)
            return [found.summary["cpu_seconds"], *map(float, answer.table("coefficients")["coef"])]

    return run


def theirs(rows: int) -> Callable[[], list[float]]:
    """Return the function that is measured: a fit of lifelines on all rows. It returns what `ours` does."""
    from lifelines import CoxPHFitter

    frame = made(rows)

    def run() -> list[float]:
        begun = time.process_time()
        found = CoxPHFitter().fit(frame, "time", "event").params_
        return [time.process_time() - begun, *map(float, found)]

    return run


def measured(name: str) -> None:
    """Print the processor time of one of both, and its coefficients."""
    warnings.simplefilter("ignore")
    of = {"ours": ours, "lifelines": theirs}[name]
    of(2000)()
    print(*of(100_000)())


def main() -> None:
    """Measure both in turns, and print the ratio of medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", choices=["ours", "lifelines"], help="measure one of both once")
    parser.add_argument("--repeats", type=int, default=4)
    given = parser.parse_args()
    if given.of:
        measured(given.of)
        return
    seconds: dict[str, list[float]] = {"ours": [], "lifelines": []}
    found: dict[str, list[float]] = {}
    for _ in range(given.repeats):
        for name in seconds:
            command = [sys.executable, "-m", "experiments.statistics.cox_speed", "--of", name]
            first, *rest = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
            seconds[name].append(float(first))
            found[name] = [float(each) for each in rest]
    for name, each in seconds.items():
        print(f"{name}: {median(each):.2f} s ({min(each):.2f} to {max(each):.2f} of {len(each)})")
    print(f"{median(seconds['ours']) / median(seconds['lifelines']):.2f} times")
    print(f"coefficients differ by {np.abs(np.subtract(found['ours'], found['lifelines'])).max():.1e}")


if __name__ == "__main__":
    main()
