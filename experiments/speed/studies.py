"""Measure studies of small runs: a loop of `fedlearn.run`, a sweep, and a sweep that is killed.

    python -m experiments.speed.studies loop --before ../before      # another checkout, with its environment's python
    python -m experiments.speed.studies sweep
    python -m experiments.speed.studies kills
    python -m experiments.speed.studies first --before ../before
    OMP_NUM_THREADS=1 python -m experiments.speed.studies warm

*loop*: twenty runs of digits, two rounds of one local epoch, one for each seed, in one process: as the checkout
``--before`` makes them (without it: this one, outside of a session), and here within ``fedlearn.session()``.
Interleaved pairs, each with an empty cache of partitions; wall and processor seconds of the process with all below it;
each model must have the SHA-256 of the other side. *sweep*: processor seconds over wall seconds, of twenty runs of ten
rounds. *kills*: the same sweep, smaller, killed by SIGKILL at random moments until it ends; its tables must be those of
an undisturbed one. *first*: processor seconds of a run of one round, by the command and from Python, less those of
``import torch`` beside it. *warm*: processor milliseconds of a run of the loop in one process, less those of its fits.
Wall seconds count on a quiet machine only.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from operator import sub
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from client.learners.learner import LocalFit, LocalTask
    from fedlearn.core.state import State

HERE = Path(__file__).parents[2]
TABLES = ("runs.csv", "rounds.csv", "points.csv")
LOOP = """
import contextlib, sys, fedlearn
with fedlearn.session() if sys.argv[3] == "session" else contextlib.nullcontext():
    for seed in range(1, int(sys.argv[2]) + 1):
        run = fedlearn.run(clients=10, data="digits", rounds=2, local_epochs=1, seed=seed, progress=False,
                           out=f"{sys.argv[1]}/{seed}")
        print(seed, run.sha256)
"""


def timed(command: Sequence[str], **options: object) -> tuple[float, float, str]:
    """Return wall seconds, processor seconds of the process and all that have ended below it, and what it printed."""
    began, before = time.monotonic(), os.times()
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload]
    after = os.times()
    used = sum(after[2:4]) - sum(before[2:4])
    return time.monotonic() - began, used, str(done.stdout)


def loop(options: argparse.Namespace) -> None:
    """Print each pair of loops, and the medians of their ratios."""
    before = options.before.resolve() if options.before else None
    python = str(before / ".venv" / "bin" / "python") if before else sys.executable
    ratios = []
    for pair in range(options.pairs):
        sides = {}
        for name, binary, folder in (("before", python, before or HERE), ("session", sys.executable, HERE)):
            with tempfile.TemporaryDirectory() as place:
                cache = {**os.environ, "FEDLEARN_CACHE": f"{place}/cache", "PYTHONPATH": str(folder)}
                shutil.copytree(options.cache, f"{place}/cache") if options.cache else None
                sides[name] = timed([binary, "-c", LOOP, place, str(options.runs), name], cwd=place, env=cache)
        assert sides["before"][2] == sides["session"][2], "a model has another SHA-256"
        ratios.append([new / old for old, new in zip(sides["before"][:2], sides["session"][:2], strict=True)])
        seconds = "; ".join(f"{name} {wall:.1f} s, processor {cpu:.1f} s" for name, (wall, cpu, _) in sides.items())
        print(f"pair {pair + 1}: {seconds}; same {options.runs} SHA-256", flush=True)
    walls, cpus = zip(*ratios, strict=True)
    print(f"session / before, medians of {options.pairs}: wall {median(walls):.2f}, processor {median(cpus):.2f}")


def _sweep(out: Path, runs: int, rounds: int) -> list[str]:
    seeds = ",".join(map(str, range(1, runs + 1)))
    settings = f"--dataset digits --clients 10 --rounds {rounds} --local-epochs 1 --seeds {seeds}"
    return [sys.executable, "-m", "fedlearn", "sweep", *settings.split(), "--out", str(out)]


def sweep(options: argparse.Namespace) -> None:
    """Print how many cores a sweep keeps busy."""
    with tempfile.TemporaryDirectory() as place:
        wall, cpu, _ = timed(_sweep(Path(place) / "sweep", options.runs, options.rounds))
    print(
        f"{options.runs} runs of {options.rounds} rounds: {wall:.1f} s, processor {cpu:.1f} s: {cpu / wall:.2f} cores"
    )


def kills(options: argparse.Namespace) -> None:
    """Kill a sweep again and again, and compare its tables with those of one that was left alone."""
    with tempfile.TemporaryDirectory() as place:
        alone, killed = Path(place) / "alone", Path(place) / "killed"
        wall, _, _ = timed(_sweep(alone, options.runs, options.rounds))
        rng = random.Random(options.seed)
        for number in range(options.kills):
            process = subprocess.Popen(_sweep(killed, options.runs, options.rounds), stdout=subprocess.DEVNULL)
            moment = rng.uniform(0.1, 0.6) * wall
            time.sleep(moment)
            is_over = process.poll() is not None
            process.send_signal(signal.SIGKILL)
            process.wait()
            ended = len(list(killed.glob("runs/*/summary.json")))
            print(f"kill {number + 1} after {moment:.1f} s: {ended} of {options.runs} runs ended"
                  f"{', the sweep before it' if is_over else ''}", flush=True)  # fmt: skip
            if is_over:
                shutil.rmtree(killed)
        timed(_sweep(killed, options.runs, options.rounds))
        unlike = [name for name in TABLES if (alone / name).read_bytes() != (killed / name).read_bytes()]
    if unlike:
        sys.exit(f"other bytes in {', '.join(unlike)}")
    print(f"after {options.kills} kills: {', '.join(TABLES)} have the bytes of an undisturbed sweep")


ONE_ROUND = "--rounds 1 --local-epochs 1"
ONCE = "clients=10, data='digits', rounds=1, local_epochs=1, seed=1, progress=False"
FIRST = {
    "fedlearn simulate": f"-m fedlearn.simulate --dataset digits --clients 10 {ONE_ROUND} --quiet --out".split(),
    "fedlearn.run": ["-c", f"import fedlearn, sys; fedlearn.run({ONCE}, out=sys.argv[1])"],
}


def first(options: argparse.Namespace) -> None:
    """Print processor seconds of a first round beside ``import torch``, for each way and checkout."""
    sides = {"now": HERE, **({"before": options.before.resolve()} if options.before else {})}
    found: dict[tuple[str, str], list[float]] = {}
    for pair in range(options.pairs + 1):  # the first fills the caches
        for (side, folder), (way, arguments) in product(sides.items(), FIRST.items()):
            with tempfile.TemporaryDirectory() as place:
                env = {**os.environ, "PYTHONPATH": str(folder)}
                torch = timed([sys.executable, "-c", "import torch"], cwd=place, env={**env, "OMP_NUM_THREADS": "1"})[1]
                used = timed([sys.executable, *arguments, f"{place}/run"], cwd=place, env=env)[1]
            if pair:
                found.setdefault((side, way), []).append(used - torch)
    for (side, way), seconds in found.items():
        print(f"{side}, {way}: {median(seconds):.2f} s ({min(seconds):.2f}-{max(seconds):.2f}) beside import torch")


def warm(options: argparse.Namespace) -> None:
    """Print the processor time of a warm run and of its local training, in milliseconds."""
    import fedlearn
    from client.isolated_fits import Fits

    learning = 0.0
    fit_many = Fits.fit_many

    def counted(self: Fits, state: State, tasks: Sequence[LocalTask]) -> Iterator[LocalFit]:
        nonlocal learning
        fits = fit_many(self, state, tasks)
        while True:
            began = time.process_time()
            fit = next(fits, None)
            learning += time.process_time() - began
            if fit is None:
                return
            yield fit

    Fits.fit_many = counted  # type: ignore[method-assign]
    rows = []
    for seed in range(options.runs):
        began, before = time.process_time(), learning
        with tempfile.TemporaryDirectory() as place:
            fedlearn.run(
                clients=10, data="digits", rounds=2, local_epochs=1, seed=seed, progress=False, out=f"{place}/run",
                engine="inline",
            )  # fmt: skip
        rows.append((1000 * (time.process_time() - began), 1000 * (learning - before)))
    whole, fits = zip(*rows[2:], strict=True)
    beside = sorted(map(sub, whole, fits))
    spread = f"{median(beside):.0f} ({beside[0]:.0f}-{beside[-1]:.0f})"
    print(f"a run takes {median(whole):.0f} ms, its fits {median(fits):.0f}, all else {spread}")


WHAT: dict[str, Callable[[argparse.Namespace], None]] = {
    "loop": loop,
    "sweep": sweep,
    "kills": kills,
    "first": first,
    "warm": warm,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m experiments.speed.studies", description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("--before", type=Path, help="a checkout with .venv, for loop; any, for first")
    parser.add_argument("--cache", type=Path, help="a folder that each side's cache begins with, for loop")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1, help="of the moments of kills")
    options = parser.parse_args(arguments)
    WHAT[options.what](options)


if __name__ == "__main__":
    main()
