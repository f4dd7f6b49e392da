"""Stops runs at random moments, in every way, and looks whether each ends in order.

    python -m tests.stops --moments 200 --engines inline,embedded

In order means: with the exit code of its way, a folder whose log has ended, no process left, and a resume that comes to
the SHA-256 of a run that nothing has stopped. Exit code 1 if one does not.
"""

from __future__ import annotations

import atexit
import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated

import psutil
import typer

from fedlearn.__main__ import main as command
from fedlearn.core.errors import UsageError
from fedlearn.runs.stop_requests import ask_to_stop
from tests.waiting import wait_until

RUN = ["simulate", "--dataset", "digits", "--model", "linear", "--clients", "6", "--rounds", "60", "--quiet"]
SOON = 200.0  # seconds, on a busy machine
WAYS = ("SIGTERM", "SIGHUP", "limit", "stop", "listener")
CODES = {"SIGTERM": 143, "SIGHUP": 129}


class AtRandom:
    """A listener that stops its run after as many seconds as an environment variable says."""

    def __init__(self, *_: object) -> None:
        self._end = time.monotonic() + float(os.environ["STOP_AFTER"])

    def take(self, event: dict[str, object]) -> bool:
        """Return whether it is time."""
        return time.monotonic() > self._end

    def close(self) -> None:
        """Do nothing."""


def main(
    moments: Annotated[int, typer.Option(min=1, help="How many, over all engines and ways.")] = 200,
    engines: Annotated[str, typer.Option(help="With commas.")] = "inline,embedded",
    seed: Annotated[int, typer.Option(help="Of the moments.")] = 0,
) -> None:
    """Stop runs at random moments."""
    wrong: Counter[str] = Counter()
    draw = random.Random(seed)
    place = mkdtemp()  # no TemporaryDirectory: every child would remove it
    for engine in engines.split(","):
        whole = Path(place, f"whole-{engine}")
        seconds = _lasted(_begun([*RUN, "--engine", engine, "--out", str(whole)]))
        sha = _summary(whole)["model_sha256"]
        for number in range(moments // len(engines.split(","))):
            way = WAYS[number % len(WAYS)]
            why = stopped(Path(place, "run"), engine, way, draw.uniform(0, 0.8 * seconds), str(sha))
            wrong[f"{engine} {way}: {why}"] += 1
            print(number, way, why, flush=True)
    shutil.rmtree(place)
    for line, count in sorted(wrong.items()):
        print(f"{count:>4} {line}")
    raise typer.Exit(int(any(not line.endswith(("sound", "completed before")) for line in wrong)))


def stopped(folder: Path, engine: str, way: str, after: float, sha: str) -> str:
    """Stop a run some seconds after its begin; return what is wrong, or "sound"."""
    shutil.rmtree(folder, ignore_errors=True)
    os.environ["STOP_AFTER"] = str(after)
    further = {"limit": ["--time-limit", f"{after + 0.1:.3f}"], "listener": ["--log", "tests.stops:AtRandom"]}
    arguments = [*RUN, "--engine", engine, "--out", str(folder), *further.get(way, [])]
    process = _begun(arguments)
    if way in CODES:
        time.sleep(after)
        os.kill(process, getattr(signal, way)) if _is_alive(process) else None
    elif way == "stop":
        time.sleep(after)
        _asked(folder, process)
    code = _ended(process)
    if _left(process):
        return f"processes are left: {_left(process)}"
    return _unlike(folder, code, way, sha)


def _unlike(folder: Path, code: int, way: str, sha: str) -> str:
    if code not in (0, CODES.get(way, 0)):
        return f"exit code {code}"
    if not folder.exists():
        return "sound"
    is_begun = (folder / "checkpoint.json").exists()
    status = _summary(folder).get("status") if (folder / "summary.json").exists() else "none"
    if is_begun and status not in ("interrupted", "completed"):
        return f"status {status}"
    resumed = _ended(_begun(["simulate", "--resume", str(folder), "--quiet", "--set", "stop.time_limit="]))
    if resumed or _summary(folder)["model_sha256"] != sha:
        return f"a resume ends by {resumed}, {_summary(folder)['model_sha256'] == sha}"
    return "sound" if status == "interrupted" else "completed before"


def _begun(arguments: list[str]) -> int:
    """Fork a command from this process, which has imported all of it."""
    if process := os.fork():
        return process
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        if not os.environ.get("LOUD"):
            os.dup2(null, 1)
            os.dup2(null, 2)
        command(arguments)
    except SystemExit as error:
        sys.stdout.flush()
        code = error.code if isinstance(error.code, int) else 0
    except BaseException:
        code = 99
    atexit._run_exitfuncs()
    os._exit(code)


def _asked(folder: Path, process: int) -> None:
    def is_asked() -> bool:
        try:
            ask_to_stop(folder, "by a test")
        except UsageError:
            return not _is_alive(process)
        return True

    wait_until(is_asked, "the run to take a request", SOON, every=0.001)


def _is_alive(process: int) -> bool:
    return psutil.Process(process).status() != psutil.STATUS_ZOMBIE


def _ended(process: int) -> int:
    wait_until(lambda: not _is_alive(process), "the run to end", SOON)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _left(session: int) -> list[str]:
    """Return the processes of a session that have not ended a moment later."""
    for _ in range(20):
        names = [" ".join(each.cmdline()) for each in psutil.process_iter() if _is_of(each, session)]
        if not names:
            return []
        time.sleep(0.1)
    return names


def _is_of(process: psutil.Process, session: int) -> bool:
    try:
        return os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False


def _lasted(process: int) -> float:
    begin = time.monotonic()
    assert _ended(process) == 0
    return time.monotonic() - begin


def _summary(folder: Path) -> dict[str, object]:
    return dict(json.loads((folder / "summary.json").read_text()))


def prepared() -> None:
    """Import what every run needs."""
    import fedlearn.cli
    import fedlearn.commands.run_once
    import fedlearn.engine.inline
    import fedlearn.models.torch.torch_model  # noqa: F401


if __name__ == "__main__":
    prepared()
    typer.run(main)
