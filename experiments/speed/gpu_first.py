"""Time rounds on a GPU by the number of nodes in one computation, beside the processor's cores.

    FEDLEARN_DATA=... python -m experiments.speed.gpu_first

CIFAR-10, three workloads: `cnn` and `cnn-large` with 10 of 100 nodes in a round, and the published benchmark of
pfl-research with 50 of 1,000. Each run has four rounds; a cell is the median training time of the last three. One
process computes on the device, then eight that share it, best under NVIDIA's MPS (``nvidia-cuda-mps-control -d``). Rows
of one device and ``training.stack`` show the beginning of the run's SHA-256. ``--pfl-python PYTHON``, an interpreter
with `pfl` 0.6, adds whole rounds of pfl-research on the same device, as it has no others.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import fedlearn

ROUNDS = 4
SHARING = 8  # processes
MODELS = "experiments.speed.pfl_cnn:PflCNN"
WORKLOADS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {  # stacks, settings
    "cnn": ((1, 5, 10), {"clients": 100, "cohort": 10}),
    "cnn-large": ((1, 5, 10), {"clients": 100, "cohort": 10, "model": "cnn-large", "batch_size": 50}),
    "pfl": (
        (1, 10, 50),
        {"clients": 1000, "cohort": 50, "model": MODELS, "batch_size": 10, "local_epochs": 1, "lr": 0.1},
    ),
}


def main() -> None:
    """Print a row for each workload, device and stack."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--device", default="cuda", help="of the stacks")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1, help="workers of the run on the processor")
    parser.add_argument("--pfl-python", metavar="PYTHON", help="time pfl-research beside the workload `pfl`, too")
    options = parser.parse_args()
    print("| workload | device | nodes in one computation | s a round | times | SHA-256 |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.workloads:
            stacks, settings = WORKLOADS[name]
            on_it = {"engine.name": "inline", "engine.device": options.device}
            runs = [(options.device, stack, {**on_it, "training.stack": stack}) for stack in stacks]
            share = -(-settings["cohort"] // SHARING)  # a cohort's nodes for each process
            shared = {"engine.workers": SHARING, "engine.device": options.device, "training.stack": share}
            runs.append((f"{options.device}, {SHARING} workers", share, shared))
            runs.append((f"processor, {options.cores} workers", 1, {"engine.workers": options.cores}))
            first = 0.0
            for device, stack, how in runs:
                seconds, sha256 = measured(settings, how, Path(folder, f"{name}-{device}-{stack}"))
                first = first or seconds
                row = (name, device, stack, f"{seconds:.2f}", f"{first / seconds:.1f}", sha256[:12])
                print("|", " | ".join(map(str, row)), "|", flush=True)
            if name == "pfl" and options.pfl_python:
                seconds = seconds_of_pfl(options.pfl_python)
                row = (name, f"{options.device}, pfl-research", 1, f"{seconds:.2f}", f"{first / seconds:.1f}", "")
                print("|", " | ".join(map(str, row)), "|", flush=True)


def measured(settings: dict[str, Any], how: dict[str, Any], out: Path) -> tuple[float, str]:
    """Return the median training seconds of a round, and the SHA-256 of the run."""
    run = fedlearn.run(
        dataset="cifar10", rounds=ROUNDS, progress=False, out=out, **settings,
        settings={"evaluation.every": ROUNDS, "training.momentum": 0.0, "compression.send": "update", **how},
    )  # fmt: skip
    return median(run.history["training_seconds"].tolist()[1:]), run.sha256


def seconds_of_pfl(python: str) -> float:
    """Return the median seconds of a whole round of pfl-research with the workload `pfl`."""
    command = [python, "-m", "experiments.speed.pfl_rounds", "--workload", "pfl", "--model", "pfl", "--batch", "10"]
    command += ["--processes", "1", "--rounds", str(ROUNDS), "--json"]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return float(json.loads(told)["median_steady_seconds"])


if __name__ == "__main__":
    main()
