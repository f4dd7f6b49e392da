"""Compare the bytes that ``fedlearn plan`` foretells with those that the run sends, for fifteen settings.

    FEDLEARN_DATA=... python -m experiments.sweeps.foretold --out runs/foretold

Each row is foretold first, then run, and both are read from JSON. The exit code is 1 if any row is off by more than
two percent. The settings take in each part of the chains of codecs, both directions, masked sums, evaluation on nodes,
an algorithm that sends more than the state, an asynchronous schedule, and anchors at three participations, of which
the expected number is foretold.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedlearn.report.numbers import bits, size
from fedlearn.report.tables import Table
from fedlearn.runs.files import write_atomically

MOST_OFF = 0.02
DIGITS = "--dataset digits --clients 20 --cohort 10 --rounds 10 --local-epochs 1 --batch-size 10"
ANCHORED = f"{DIGITS} --send update --compression rand-k:0.1,eden"
CIFAR10 = "--dataset cifar10 --clients 100 --cohort 10 --rounds 8 --local-epochs 1"
SETTINGS = {
    "plain": DIGITS,
    "drop 0.1, Dirichlet 0.5": f"{DIGITS} --compression drop --partition dirichlet --set data.alpha=0.5",
    "top-k 0.01": f"{DIGITS} --send update --compression top-k:0.01",
    "ternary, residual": f"{DIGITS} --send update --compression residual,ternary:0.01",
    "1 bit (eden)": f"{DIGITS} --send update --compression eden:1",
    "4 bits, entropy code, 8 bits down": f"{DIGITS} --send update --compression rotate,quantize:4,entropy"
    " --set compression.downlink=rotate,quantize:8",
    "masked sums": f"{DIGITS} --secure-sums masked --compression drop --set secure.group_size=5",
    "SCAFFOLD": f"{DIGITS} --strategy scaffold",
    "evaluated on nodes": f"{DIGITS} --set evaluation.where=nodes --set evaluation.every=3",
    "buffered, on devices": f"{DIGITS} --devices half-normal --send update"
    " --set rounds.schedule=buffered --set rounds.schedule_options.buffer_size=5",
    "anchor of 4 bits, all nodes": f"{ANCHORED} --set compression.downlink=anchor:4:4,eden --cohort 20 --rounds 12",
    "anchor of 4 bits, half of the nodes": f"{ANCHORED} --set compression.downlink=anchor:5:4,eden",
    "anchor of 2 bits, a tenth of 200 nodes": f"{ANCHORED} --set compression.downlink=anchor:10:2,top-k:0.1,eden"
    " --clients 200 --cohort 20 --rounds 25",
    "CIFAR-10, drop 0.1": f"{CIFAR10} --compression drop",
    "CIFAR-10, top-k 0.1, quantize 4, entropy": f"{CIFAR10} --send update --compression top-k:0.1,quantize:4,entropy",
}


def fedlearn(command: str, settings: str, *more: str) -> dict[str, Any]:
    """Return what a command prints as JSON."""
    asked = [sys.executable, "-m", "fedlearn", command, *settings.split(), *more, "--json"]
    done = subprocess.run(asked, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(asked)}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def row_of(name: str, settings: str) -> tuple[list[str], float]:
    """Return the row of a setting, and by which share the worse of both directions was foretold wrongly."""
    foretold = fedlearn("plan", settings)
    with tempfile.TemporaryDirectory() as folder:
        sent = fedlearn("simulate", settings, "--out", f"{folder}/run")
    off = [foretold[way] / sent[way] - 1 for way in ("bytes_down", "bytes_up", "bytes_total")]
    each_way = bits(sent["bits_down"] + sent["bits_up"])
    sizes = [size(each["bytes_total"]) for each in (foretold, sent)]
    return [name, *sizes, each_way, *(f"{each:+.2%}" for each in off)], max(map(abs, off))


def main(arguments: Sequence[str] | None = None) -> None:
    """Foretell and run each setting; print and write the table."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.sweeps.foretold", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--out", type=Path, default=Path("runs/foretold"), help="folder of the table")
    parser.add_argument("--only", nargs="+", choices=SETTINGS, default=list(SETTINGS), help="these settings alone")
    options = parser.parse_args(arguments)
    rows, worst = zip(*(row_of(name, SETTINGS[name]) for name in options.only), strict=True)
    heads = ("settings", "foretold", "sent", "bits a parameter, both ways", "off down", "off up", "off")
    table = Table.of_texts("foretold", "Bytes both ways, foretold and sent", heads, rows, words=1)
    table.show()
    options.out.mkdir(parents=True, exist_ok=True)
    write_atomically(options.out / "table.md", table.as_markdown().encode())
    if max(worst) > MOST_OFF:
        sys.exit(f"off by {max(worst):.2%}, more than {MOST_OFF:.0%}")


if __name__ == "__main__":
    main()
