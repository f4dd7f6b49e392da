"""Show that a change of shape changes no byte: named runs and the SHA-256 of their final models.

    python -m tests.hashes --out before.json            # on the commit before
    python -m tests.hashes --against before.json        # on the commit after: exit code 1 if any differs
    python -m tests.hashes --only forest --only relay   # rows with one of these in their names

The runs are small: 5 to 20 seconds each on two cores. Hashes hold on one machine: another processor or torch adds in
another order. Rows that must be alike on any machine (engines, workers, a kill) are compared with each other as well.
CIFAR-10, California Housing and Adult are read from FEDLEARN_DATA.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

ROOT = Path(__file__).resolve().parents[1]
KILLED_AFTER = 2  # committed rounds
POLL = 0.05  # seconds between looks at a run that is to be killed


@dataclass(frozen=True, slots=True)
class Row:
    """A named run.

    Parameters
    ----------
    arguments
        Of ``fedlearn simulate``.
    like
        The row whose SHA-256 it must have, if any.
    killed
        Whether it is killed by SIGKILL on its way, and resumed.
    """

    name: str
    arguments: tuple[str, ...]
    like: str = ""
    killed: bool = False


def cifar(name: str, text: str = "", *, like: str = "", killed: bool = False, **settings: str) -> Row:
    """Return a row on CIFAR-10: 8 of 20 nodes in each of 3 rounds. Settings are dotted names with two underscores."""
    common = "--dataset cifar10 --clients 20 --cohort 8 --rounds 3 --local-epochs 1 --seed 7"
    named = (f"{setting.replace('__', '.')}={value}" for setting, value in settings.items())
    sets = [part for each in named for part in ("--set", each)]
    return Row(name, (*common.split(), *text.split(), *sets), like, killed)


def table(name: str, text: str) -> Row:
    """Return a row of trees on a table."""
    return Row(name, tuple(text.split()))


RESIDUAL = "--compression residual,top-k:0.05,quantize:4 --send update"
ROWS = (
    cifar("cnn"),
    cifar("drop 0.1", "--compression drop --keep-ratio 0.1"),
    cifar("tensors dropped", "--compression drop --keep-ratio 0.5", compression__granularity="tensor"),
    cifar("residual, top-k, quantize", RESIDUAL),
    cifar(
        "drop, rotate, quantize, entropy; downlink", "--compression drop:0.3,rotate,quantize:4,entropy",
        compression__downlink="rotate,quantize:8",
    ),
    cifar("fedavgm", "--strategy fedavgm"),
    cifar("fedadam, drop", "--strategy fedadam --compression drop"),
    cifar("median", "--strategy median"),
    cifar("trimmed-mean", "--strategy trimmed-mean", strategy__options='{"trim": 0.2}'),
    cifar("clipped", "--send update", strategy__steps='{"clip": {"norm": 1.0}}'),
    cifar("spatial decoder", "--compression drop --send update", strategy__options='{"decoder": "spatial"}'),
    cifar(
        "proximal, dirichlet, weight decay, augmented", "--partition dirichlet",
        training__proximal_mu="0.1", training__weight_decay="0.001", data__augment="true",
    ),
    cifar("Flower's FedTrimmedAvg", "--strategy flwr.serverapp.strategy:FedTrimmedAvg"),
    cifar("Flower's FedAdam", "--strategy flwr.serverapp.strategy:FedAdam"),
    cifar("evaluated by nodes", evaluation__where="nodes", like="cnn"),
    cifar("cnn-large", "--model cnn-large --rounds 1"),
    table("dp-forest", "--clients 25 --model dp-forest --dataset california"),
    table("dp-relay", "--clients 10 --model dp-relay --dataset california"),
    table("dp-classifier", "--clients 10 --model dp-classifier --dataset adult"),
    table("dp-random-forest", "--clients 10 --model dp-random-forest --dataset adult"),
    table("pf-forest", "--clients 10 --model pf-forest --dataset adult"),
    table("dp-boosting", "--clients 10 --model dp-boosting --dataset adult"),
    table("dp-naive-bayes", "--clients 10 --model dp-naive-bayes --dataset adult"),
    cifar("inline: drop 0.1", "--compression drop --keep-ratio 0.1 --engine inline", like="drop 0.1"),
    cifar("ray: drop 0.1", "--compression drop --keep-ratio 0.1 --engine ray", like="drop 0.1"),
    cifar("3 workers: residual", f"{RESIDUAL} --workers 3", like="residual, top-k, quantize"),
    cifar("killed and resumed: residual", RESIDUAL, like="residual, top-k, quantize", killed=True),
    cifar("stacked", "--partition dirichlet", training__stack="3"),
    cifar("3 workers: stacked", "--partition dirichlet --workers 3", training__stack="3", like="stacked"),
    cifar("killed and resumed: stacked", "--partition dirichlet", training__stack="3", like="stacked", killed=True),
)  # fmt: skip


class RunEnded(Exception):
    """A run that was to give a hash failed; says why."""


def sha_of(row: Row) -> str:
    """Run a row; return the SHA-256 of its final model."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        if row.killed:
            _run_and_kill(row, out)
            return _summary("--resume", str(out))
        return _summary(*row.arguments, "--out", str(out))


def _command(*arguments: str) -> dict[str, object]:
    """Return how `subprocess` runs a simulation of this tree, whichever is installed."""
    return {
        "args": [sys.executable, "-m", "fedlearn.simulate", "--json", *arguments],
        "cwd": ROOT,
        "env": os.environ | {"PYTHONPATH": str(ROOT)},
    }


def _summary(*arguments: str) -> str:
    done = subprocess.run(**_command(*arguments), capture_output=True, text=True)
    if done.returncode:
        raise RunEnded(done.stderr.strip().rpartition("\n")[2])
    return json.loads(done.stdout.splitlines()[-1])["model_sha256"]


def _run_and_kill(row: Row, out: Path) -> None:
    process = subprocess.Popen(**_command(*row.arguments, "--out", str(out)), stdout=subprocess.DEVNULL)
    while process.poll() is None and _committed(out / "events.jsonl") < KILLED_AFTER:
        time.sleep(POLL)
    process.send_signal(signal.SIGKILL)
    if process.wait() != -signal.SIGKILL:
        raise RunEnded("it ended before it could be killed")


def _committed(log: Path) -> int:
    return log.read_text(encoding="utf-8").count('"event": "committed"') if log.exists() else 0


def verdicts(rows: Sequence[Row], before: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Run rows; yield name, SHA-256 and verdict: ``same``, what is wrong, or empty without a hash to compare with."""
    found: dict[str, str] = {}
    for row in rows:
        try:
            sha = sha_of(row)
        except RunEnded as reason:
            yield row.name, "", f"FAILED: {reason}"
            continue
        found[row.name] = sha
        expected = {"before": before.get(row.name), row.like: found.get(row.like, before.get(row.like))}
        wrong = [name for name, other in expected.items() if other not in (None, sha)]
        known = any(other is not None for other in expected.values())
        yield row.name, sha, f"DIFFERS from {' and '.join(wrong)}" if wrong else "same" if known else ""


def main(
    only: Annotated[
        list[str] | None, typer.Option(metavar="PART", help="Rows with this in the name; repeatable.")
    ] = None,
    against: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Hashes to compare with.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Where to write the hashes.")] = None,
) -> None:
    """Run named simulations and print the SHA-256 of each final model; exit code 1 if any is not as it was."""
    rows = [row for row in ROWS if not only or any(part in row.name for part in only)]
    before = json.loads(against.read_text(encoding="utf-8")) if against else {}
    hashes, wrong = {}, []
    for name, sha, verdict in verdicts(rows, before):
        print(f"{name:<46} {sha or '-':<64} {verdict}".rstrip(), flush=True)
        hashes |= {name: sha} if sha else {}
        wrong += [] if verdict in ("", "same") else [name]
        if out:
            out.write_text(json.dumps(hashes, indent=1) + "\n", encoding="utf-8")
    print(f"{len(rows)} runs, not as they must be: {', '.join(wrong) or 'none'}")
    raise typer.Exit(1 if wrong or not rows else 0)


if __name__ == "__main__":
    typer.run(main)
