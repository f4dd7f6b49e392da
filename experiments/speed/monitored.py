"""Measure the CPU and the time of a run with and without a monitor that is scraped once a second, in pairs.

    python -m experiments.speed.monitored --pairs 9 --rounds 15

Each pair is two runs with the same seed, in turns first with and first without the monitor. The monitor is that of
``fedlearn server --metrics``; its numbers and its status page are both fetched once a second. CPU is what the process
of the run and its children have used, by the operating system; the monitor's own is said apart. The ratio of a pair is
with / without; the table has medians, and the quartiles of the pairs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from fedlearn.engine.processes import free_port

SETTINGS = ("--model", "linear", "--dataset", "digits", "--clients", "10", "--engine", "inline", "--quiet")


def run(folder: Path, rounds: int) -> tuple[float, float, str]:
    """Make a run; return its CPU and wall seconds, and the SHA-256 of its model."""
    words = [sys.executable, "-m", "fedlearn", "simulate", *SETTINGS, "--rounds", str(rounds), "--out", str(folder)]
    begin = time.monotonic()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the run ended with exit code {process.returncode}")
    summary = json.loads((folder / "summary.json").read_text())
    return used.ru_utime + used.ru_stime, time.monotonic() - begin, str(summary["model_sha256"])


@contextmanager
def monitored(runs: Path) -> Iterator[list[float]]:
    """Monitor a folder of runs, and fetch the numbers and the page once a second; the list gets each fetch's time."""
    address, ended, fetched = f"127.0.0.1:{free_port()}", threading.Event(), list[float]()
    words = [sys.executable, "-m", "fedlearn.engine.deployment.monitor", "--listen", address, "--runs", str(runs)]
    monitor = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def fetch() -> None:
        for path in ("/metrics", "/"):
            urllib.request.urlopen(f"http://{address}{path}", timeout=10).read()

    def scrape() -> None:
        while not ended.wait(max(0.0, 1.0 - fetched[-1])):
            begin = time.monotonic()
            fetch()
            fetched.append(time.monotonic() - begin)

    try:
        for _ in range(300):
            try:
                fetch()
                break
            except OSError:
                time.sleep(0.1)
        fetched.append(0.0)
        scraper = threading.Thread(target=scrape)
        scraper.start()
        try:
            yield fetched
        finally:
            ended.set()
            scraper.join()
    finally:
        monitor.terminate()
        monitor.wait()


def pair(folder: Path, rounds: int, *, is_first_with: bool) -> dict[bool, tuple[float, float, str]]:
    """Return what a run takes with and without the monitor."""
    found = {}
    for has_monitor in (is_first_with, not is_first_with):
        place = folder / f"{'with' if has_monitor else 'without'}"
        if has_monitor:
            with monitored(folder) as fetched:
                found[True] = run(place, rounds)
            if len(fetched) < 2:
                raise SystemExit("no scrape took place: ask for more rounds")
        else:
            found[False] = run(place, rounds)
    if found[True][2] != found[False][2]:
        raise SystemExit("the models differ")
    return found


def shown(title: str, ratios: Sequence[float]) -> tuple[str, str, str]:
    """Return a row of the table."""
    low, middle, high = np.percentile(ratios, [25, 50, 75])
    return title, f"{middle:.4f}", f"{low:.4f} to {high:.4f}"


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    pairs = []
    for number in range(options.pairs):
        with tempfile.TemporaryDirectory() as place:
            pairs.append(pair(Path(place), options.rounds, is_first_with=number % 2 == 0))
    table = Table("with / without", "median", "quartiles", title=f"{options.pairs} pairs of {options.rounds} rounds")
    table.add_row(*shown("CPU of the run", [each[True][0] / each[False][0] for each in pairs]))
    table.add_row(*shown("time of the run", [each[True][1] / each[False][1] for each in pairs]))
    Console().print(table)


if __name__ == "__main__":
    main()
