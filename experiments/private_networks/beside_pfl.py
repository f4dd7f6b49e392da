"""Accuracy and processor time of rounds that protect nodes, beside pfl-research in an environment of its own.

    python -m experiments.private_networks.beside_pfl --pfl-python PYTHON --out runs/beside_pfl

CIFAR-10, 1,000 nodes of 50 images, 50 in each round, drawn uniformly; batch 10, one pass, lr 0.1; central Gaussian
noise and clipping norm of pfl's benchmark (clip 0.4; epsilon 2, delta 1e-6 over 1,500 rounds, as if of a million nodes,
1,000 a round), by `cnn`, node by node and in stacks of ten, and by the benchmark's own network. Seed by seed runs of
ours (one worker) and of pfl follow each other, each on one thread. Each run that has ended is a line of
FOLDER/cells.jsonl: the same command goes on from there. `--table` runs nothing. Processor seconds of a round leave out
start-up, round 1 and the evaluation; "whole" is all of a command.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
from itertools import product
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

from experiments.private_networks.kept import ended, keep
from experiments.watching import watched
from fedlearn.config.tables.data import DataSettings
from fedlearn.data import load_dataset, partition_table

NODES, COHORT, BATCH, RATE, CLIP = 1000, 50, 10, 0.1, 0.4
NOISE_MULTIPLIER = 0.6162 * COHORT / 1000  # 0.6162: epsilon 2, delta 1e-6, 1,500 rounds at rate 0.001
MODELS = {"cnn": "cnn", "pfl": "experiments.speed.pfl_cnn:PflCNN"}
ROUNDS = {"cnn": 30, "pfl": 6}
OURS = {"cnn": {"node by node": 1, "stacks of ten": 10}, "pfl": {"node by node": 1}}  # in words -> training.stack
KEY = ("model", "rounds", "seed", "system")


def ours(cell: dict[str, Any], folder: Path) -> dict[str, float]:
    """Return accuracy and processor seconds of `fedlearn simulate`."""
    out = folder / "run"
    flags = {
        "dataset": "cifar10", "out": out, "workers": 1, "model": MODELS[cell["model"]], "clients": NODES,
        "cohort": COHORT, "batch-size": BATCH, "rounds": cell["rounds"], "seed": cell["seed"], "local-epochs": 1,
        "lr": RATE, "private": "nodes", "epsilon": 2, "delta": 1e-6,
    }  # fmt: skip
    settings = {
        "training.momentum": 0.0, "training.lr_decay": 0.0, "evaluation.every": cell["rounds"], "privacy.clip": CLIP,
        "privacy.population": 1_000_000, "privacy.population_cohort": 1000,
        "privacy.noise_multiplier": NOISE_MULTIPLIER, "training.stack": OURS[cell["model"]][cell["system"]],
    }  # fmt: skip
    command = [sys.executable, "-m", "fedlearn.simulate", "--quiet"]
    command += [str(part) for name, value in flags.items() for part in (f"--{name}", value)]
    command += [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    seen = watched(command)
    events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    begin = next(each["time"] for each in events if each["event"] == "committed")
    end = max(each["time"] for each in events if each["event"] == "evaluating")  # the last round's, before its commit
    with (out / "metrics.csv").open() as file:
        accuracy = float(list(csv.DictReader(file))[-1]["accuracy"])
    cpu = seen.cpu_between(begin, end) / (cell["rounds"] - 1)
    return {"accuracy": accuracy, "cpu": cpu, "whole": seen.cpu}


def pfl(cell: dict[str, Any], folder: Path, python: str) -> dict[str, float]:
    """Return the same of pfl-research on the same shards."""
    dataset: Any = load_dataset("cifar10", "")
    shards = partition_table(dataset, DataSettings(), num_partitions=NODES, seed=cell["seed"])
    np.savez(
        folder / "data.npz", train=dataset.train.inputs, train_labels=dataset.train.labels, test=dataset.test.inputs,
        test_labels=dataset.test.labels, mean=np.array(dataset.mean, np.float32), std=np.array(dataset.std, np.float32),
        rows=np.stack([shards.indices(node) for node in range(NODES)]),
    )  # fmt: skip
    flags = {"model": cell["model"], "rounds": cell["rounds"], "cohort": COHORT, "batch": BATCH, "seed": cell["seed"],
             "lr": RATE, "clip": CLIP, "noise-multiplier": NOISE_MULTIPLIER}  # fmt: skip
    command = [python, "experiments/private_networks/pfl_run.py", str(folder / "data.npz")]
    seen = watched(command + [str(part) for name, value in flags.items() for part in (f"--{name}", value)])
    found: dict[str, float] = json.loads(seen.printed.strip().splitlines()[-1])
    return found | {"whole": seen.cpu}


def table(done: list[dict[str, Any]]) -> str:
    """Return a row for each network, number of rounds and way of ours, over the seeds that have ended beside pfl."""
    lines = [
        "| network | rounds | seeds | fedlearn | its accuracy | accuracy of pfl | CPU s a round | of pfl "
        "| ratio (lowest to highest) | ratio of whole commands |", "|---" * 10 + "|",
    ]  # fmt: skip
    cells = {tuple(each[name] for name in KEY): each for each in done}
    for model, rounds in sorted({key[:2] for key in cells}):
        seeds = sorted({key[2] for key in cells if key[:2] == (model, rounds)})
        for way in OURS[model]:
            pairs = [[cells.get((model, rounds, seed, system)) for system in (way, "pfl")] for seed in seeds]
            both = [(one, other) for one, other in pairs if one and other]
            if both:
                lines.append(f"| `{model}` | {rounds} | {len(both)} | {way} | {' | '.join(row(both))} |")
    return "\n".join(lines)


def row(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> list[str]:
    """Return the figures of pairs (ours, pfl's) in words."""

    def words(found: list[float], middle: float, digits: int) -> str:
        return f"{middle:.{digits}f} ({min(found):.{digits}f} to {max(found):.{digits}f})"

    figures = []
    for system in zip(*pairs, strict=True):
        found = [each["accuracy"] for each in system]
        figures.append(words(found, mean(found), 4))
    figures += [f"{median(each['cpu'] for each in system):.2f}" for system in zip(*pairs, strict=True)]
    for name in ("cpu", "whole"):
        found = [one[name] / other[name] for one, other in pairs]
        figures.append(words(found, median(found), 2))
    return figures


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pfl-python", default="python", help="Python of an environment with `pfl[pytorch]` 0.6")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--rounds", type=int, default=0, help="0: 30 of `cnn`, 6 of pfl's network")
    parser.add_argument("--out", type=Path, default=Path("runs/beside_pfl"))
    parser.add_argument("--table", action="store_true", help="run nothing")
    given = parser.parse_args()
    file = given.out / "cells.jsonl"
    done = ended(file)
    keys = [{name: each[name] for name in KEY} for each in done]
    for seed, model in [] if given.table else product(given.seeds, given.models):
        for system in (*OURS[model], "pfl"):
            cell = dict(zip(KEY, (model, given.rounds or ROUNDS[model], seed, system), strict=True))
            if cell in keys:
                continue
            with tempfile.TemporaryDirectory() as folder:
                place = Path(folder)
                found = pfl(cell, place, given.pfl_python) if system == "pfl" else ours(cell, place)
            done.append(keep(file, cell | found))
            print(done[-1], flush=True)
    print(table(done))


if __name__ == "__main__":
    main()
