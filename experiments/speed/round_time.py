"""Time a round: our embedded engine beside the hand-written two-process loop and Flower's Ray simulation.

    FEDLEARN_DATA=... python -m experiments.speed.round_time --workload w1 --model cnn --repeats 5 --ray

All systems do the same SGD steps on CIFAR-10 (batch 100, one local epoch, lr 0.1, no momentum):

- w1: 100 clients of 500 images, all of them in every round (500 steps a round);
- w2: 1,000 clients of 50 images, 100 of them in every round (100 steps a round).

They run in turn, A B C A B C, because other load on the machine comes and goes. A repeat's figure is its median round
after the first; the quoted figure is the median over repeats of the ratio to the loop *in the same repeat*. Seconds are
of the training part, from the instructions to the new state, without evaluation. Start-up is from process start to the
end of round 1, less one steady round. Processor time is that of all processes in a round; beside other programs it is
the steadier figure. Memory is the largest PSS of all processes, read in a run of its own that is not timed: every
reading stops the processes.

pfl-research and fluke run in environments of their own, ``--pfl-python`` and ``--fluke-python`` (``pfl_rounds.py`` and
``fluke_rounds.py`` say what must be in them).
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from experiments.watching import watched

WORKLOADS = {"w1": (100, 100), "w2": (1000, 100)}  # (clients, cohort)
MEMORY_ROUNDS = 2

Figures = dict[str, float]


def run_ours(workload: str, model: str, rounds: int, extra: list[str], *, look: bool) -> Figures:
    """Run `fedlearn simulate` and read its run folder."""
    clients, cohort = WORKLOADS[workload]
    out = Path(tempfile.mkdtemp()) / "run"
    command = [sys.executable, "-m", "fedlearn.simulate", "--dataset", "cifar10", "--quiet", "--out", str(out)]
    command += ["--clients", str(clients), "--cohort", str(cohort), "--rounds", str(rounds), "--model", model]
    command += ["--local-epochs", "1", "--batch-size", "100", "--lr", "0.1", "--workers", "2"]
    command += ["--set", "training.momentum=0.0", "--set", "training.lr_decay=0.0", *extra]
    command += ["--set", "evaluation.where=none"]
    seen = watched(command, memory=look)
    events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    committed = [event["time"] for event in events if event["event"] == "committed"]
    with (out / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    shutil.rmtree(out.parent)
    steady = median(float(row["training_seconds"]) for row in rows[1:])
    whole = median(float(row["training_seconds"]) + float(row["selection_seconds"]) for row in rows[1:])
    cpu = seen.cpu_between(committed[0], committed[-1]) / max(rounds - 1, 1)
    startup = committed[0] - seen.began - whole
    return {"round": steady, "with selection": whole, "cpu": cpu, "startup": startup, "pss": seen.pss}


def run_script(
    script: list[str], workload: str, model: str, rounds: int, *, look: bool, python: str = sys.executable
) -> Figures:
    """Run one of the other systems, which print JSON."""
    command = [python, *script, "--workload", workload, "--model", model, "--rounds", str(rounds), "--json"]
    seen = watched(command, memory=look)
    result: dict[str, Any] = json.loads(seen.printed.strip().splitlines()[-1])
    return {
        "round": result["median_steady_seconds"],
        "cpu": result["cpu_seconds"],
        "startup": result["startup_seconds"],
        "pss": seen.pss,
    }


def main() -> None:
    """Run all systems in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--workload", choices=WORKLOADS, default="w1")
    parser.add_argument("--model", choices=["cnn", "cnn-large"], default="cnn")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--ray", action="store_true", help="also Flower's Ray simulation; needs the ray extra")
    parser.add_argument("--our-ray", action="store_true", help="also `fedlearn simulate --engine ray`")
    parser.add_argument("--pfl-python", default="", help="also pfl-research, by the Python of an environment with it")
    parser.add_argument("--fluke-python", default="", help="also fluke")
    parser.add_argument("--stack", type=int, default=0, help="also ours with `training.stack` of so many nodes")
    parser.add_argument("--set", action="append", default=[], help="settings for our runs only")
    options = parser.parse_args()
    extra = [part for setting in options.set for part in ("--set", setting)]
    what = (options.workload, options.model)
    systems: dict[str, Callable[[int, bool], Figures]] = {
        "loop": lambda rounds, look: run_script(["experiments/speed/two_process_loop.py"], *what, rounds, look=look),
        "fedlearn": lambda rounds, look: run_ours(*what, rounds, extra, look=look),
    }
    if options.ray:
        systems["flower-ray"] = lambda rounds, look: run_script(
            ["-m", "experiments.speed.flower_ray"], *what, rounds, look=look
        )
    for name, python in (("pfl", options.pfl_python), ("fluke", options.fluke_python)):
        if python:
            script = ["-m", f"experiments.speed.{name}_rounds"]
            systems[name] = partial(_script_in, python, script, *what)
    if options.stack:
        stacked = ["--set", f"training.stack={options.stack}", *extra]
        systems["fedlearn-stack"] = lambda rounds, look: run_ours(*what, rounds, stacked, look=look)
    if options.our_ray:
        on_ray = ["--engine", "ray", *extra]
        systems["fedlearn-ray"] = lambda rounds, look: run_ours(*what, rounds, on_ray, look=look)
    pss = {name: run(MEMORY_ROUNDS, True)["pss"] for name, run in systems.items()}
    figures: dict[str, list[Figures]] = {name: [] for name in systems}
    for repeat in range(options.repeats):
        for name, run in systems.items():
            figures[name].append(run(options.rounds, False))
            print(f"repeat {repeat + 1} {name}: {figures[name][-1]}", file=sys.stderr, flush=True)
    print_table(figures, pss, title=f"{options.workload}, {options.model}, {os.cpu_count()} cores")


def _script_in(python: str, script: list[str], workload: str, model: str, rounds: int, look: bool) -> Figures:
    return run_script(script, workload, model, rounds, look=look, python=python)


def print_table(figures: dict[str, list[Figures]], pss: dict[str, float], *, title: str) -> None:
    """Print medians, and the ratios to the loop pair by pair; ours with and without selection."""
    table = Table(title=title)
    for name in (
        "system",
        "s/round",
        "x loop (min-max)",
        "with selection",
        "CPU s/round",
        "x loop",
        "start-up s",
        "PSS GB",
    ):
        table.add_column(name, justify="left" if name == "system" else "right")
    for name, rows in figures.items():
        loops = figures["loop"]
        table.add_row(
            name,
            f"{median(row['round'] for row in rows):.3f}",
            _ratios([row["round"] / loop["round"] for row, loop in zip(rows, loops, strict=True)]),
            _ratios([row["with selection"] / loop["round"] for row, loop in zip(rows, loops, strict=True)])
            if "with selection" in rows[0]
            else "",
            f"{median(row['cpu'] for row in rows):.3f}",
            _ratios([row["cpu"] / loop["cpu"] for row, loop in zip(rows, loops, strict=True)]),
            f"{median(row['startup'] for row in rows):.2f}",
            f"{pss[name] / 1e9:.2f}",
        )
    Console(width=140).print(table)


def _ratios(ratios: list[float]) -> str:
    return f"{median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


if __name__ == "__main__":
    main()
