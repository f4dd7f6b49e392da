"""What secure sums cost: bytes of a report and of the protocol, and processor time, beside runs without them.

python -m experiments.speed.secure_sums --model cnn-large --clients 100 --cohort 100 --rounds 1
python -m experiments.speed.secure_sums --secured secure.group_size=4 --secured compression.codec=drop:0.1
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

WAYS = {"off": "off", "unmasked": "unmasked", "masked": "masked"}


def main(
    model: Annotated[str, typer.Option(help="As fedlearn simulate --model.")] = "cnn",
    dataset: Annotated[str, typer.Option(help="As fedlearn simulate --dataset.")] = "cifar10",
    clients: Annotated[int, typer.Option(help="Nodes.")] = 100,
    cohort: Annotated[int, typer.Option(help="Nodes in a round.")] = 20,
    rounds: Annotated[int, typer.Option(help="Rounds.")] = 2,
    epochs: Annotated[int, typer.Option(help="Local epochs.")] = 5,
    repeats: Annotated[int, typer.Option(help="Runs of each kind, in turns.")] = 3,
    settings: Annotated[list[str] | None, typer.Option("--set", help="Further settings, KEY=VALUE.")] = None,
    secured: Annotated[list[str] | None, typer.Option(help="Settings of the runs with secure sums alone.")] = None,
) -> None:
    """Run all three ways in turns; print medians, and smallest to largest."""
    given = [
        f"--model={model}", f"--dataset={dataset}", f"--clients={clients}", f"--cohort={cohort}", f"--rounds={rounds}",
        f"--local-epochs={epochs}", "--set=evaluation.where=none", *(f"--set={each}" for each in settings or ()),
    ]  # fmt: skip
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for repeat in range(repeats):
        for way in list(WAYS) if repeat % 2 else reversed(WAYS):
            further = [] if way == "off" else [f"--set={each}" for each in secured or ()]
            found[way].append(_run([*given, *further, f"--secure-sums={way}"]))
    assert found["masked"][0]["model_sha256"] == found["unmasked"][0]["model_sha256"]
    print("| secure.sums | processor time | bytes of reports | other bytes, of those of reports |\n|---|---|---|---|")
    for way, runs in found.items():
        ratios = sorted(
            run["cpu_seconds"] / plain["cpu_seconds"] for run, plain in zip(runs, found["off"], strict=True)
        )
        run, plain = runs[0], found["off"][0]
        up = run["bytes_up"] / plain["bytes_up"]
        other = (run["bytes_protocol"] + run["bytes_down"] - plain["bytes_protocol"] - plain["bytes_down"]) / run[
            "bytes_up"
        ]
        print(f"| {way} | {median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f}) | {up:.3f} | {other:.4f} |")


def _run(words: list[str]) -> dict[str, Any]:
    """Run the command; return its summary."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "run")
        command = [sys.executable, "-m", "fedlearn", "simulate", "--quiet", f"--out={out}", *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        summary: dict[str, Any] = json.loads((out / "summary.json").read_text())
        return summary


if __name__ == "__main__":
    typer.run(main)
