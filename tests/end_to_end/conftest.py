"""Whole runs: in this process, or by the command in a process of its own that can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import psutil
import pytest

from fedlearn.cli import main
from fedlearn.config import RunConfig
from fedlearn.engine import ENGINES
from fedlearn.engine.embedded import forkserver
from fedlearn.engine.embedded.engine import WarmEngine
from fedlearn.models.presets import settings_from
from tests.waiting import PATIENCE as PATIENCE
from tests.waiting import wait_until as wait_until

ROOT = Path(__file__).parents[2]
PLUGINS = Path(__file__).parent / "plugins"
collect_ignore = ["plugins"]  # one of them ends the process that imports it


CHEAP = {
    "clients": 12, "rounds.total": 2, "rounds.cohort": 5, "rounds.backoff": 0.0, "rounds.max_attempts": 2,
    "data.dataset": "digits", "training.local_epochs": 1, "engine.workers": 2,
}  # fmt: skip


def some_slow(variants: dict[str, Any], quick: Collection[str], long: Collection[str] = ()) -> list[Any]:
    """Return the parameters of a test; mark those that are not quick as `slow`, or as `long`."""
    slow = {name: pytest.mark.long if name in long else pytest.mark.slow for name in variants}
    marks = {name: () if name in quick else slow[name] for name in variants}
    return [pytest.param(each, id=name, marks=marks[name]) for name, each in variants.items()]


@dataclass
class Run:
    """A run folder, and what can be read there."""

    folder: Path

    @property
    def summary(self) -> dict[str, Any]:
        return json.loads((self.folder / "summary.json").read_text())

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "events.jsonl").read_text().splitlines()]

    def events_of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == kind]

    @property
    def sha(self) -> str:
        """The model's SHA-256, after a look at whether summary and file agree."""
        assert self.summary["model_sha256"] == sha256((self.folder / "model.safetensors").read_bytes()).hexdigest()
        return self.summary["model_sha256"]

    @property
    def committed(self) -> int:
        """Number of rounds in the checkpoint; -1 where there is none."""
        try:
            return json.loads((self.folder / "checkpoint.json").read_text())["rounds"]
        except FileNotFoundError:
            return -1


@dataclass
class Command:
    """``python -m fedlearn.simulate`` in a process group of its own, as a terminal starts it."""

    run: Run
    process: subprocess.Popen[str]
    seen: dict[int, psutil.Process] = field(default_factory=dict)

    def look(self) -> list[psutil.Process]:
        """Return its living children and theirs, and remember them."""
        try:
            children = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            children = []
        self.seen |= {child.pid: child for child in children}
        return children

    def alive(self) -> list[psutil.Process]:
        """Return the processes ever seen that still run."""
        return [p for p in self.seen.values() if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]

    def wait_for_round(self, number: int) -> None:
        """Wait until this round is in the checkpoint; no longer than the process runs."""
        wait_until(
            lambda: self.run.committed >= number or self.process.poll() is not None, f"round {number}", every=0.002
        )

    def signal(self, number: signal.Signals, *, group: bool = False) -> float:
        """Send a signal to the main process or to all; return the seconds until the main process has ended."""
        self.look()
        begin = time.monotonic()
        (os.killpg if group else os.kill)(self.process.pid, number)
        self.process.wait(PATIENCE)
        return time.monotonic() - begin


@pytest.fixture(scope="session", autouse=True)
def plugins() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(PLUGINS)
        patch.delenv("FAULTS", raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def ctrl_c() -> None:
    """Let what we start hear Ctrl-C: a shell's background job ignores it, and so would its children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def parent_of_workers() -> None:
    """Start it with what models of either kind need: else workers of the second kind import that, each for itself."""
    forkserver.start("linear", "dp-forest")


def config_of(settings: dict[str, Any], engine: str, folder: Path) -> RunConfig:
    return settings_from({**CHEAP, **settings, "engine.name": engine, "out": str(folder)})


def end_of(*arguments: object) -> int:
    """Run a command of ``fedlearn`` in this process, which has imported everything; return its exit code."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.setattr(sys, "path", [*sys.path])  # where a command adds the current folder
        main(list(map(str, arguments)))
    return end.value.code


def resumed(run: Run) -> Run:
    """Go on with a run by the command, in this process."""
    assert end_of("simulate", "--quiet", "--resume", run.folder) == 0
    return run


@pytest.fixture(scope="module")
def warm() -> Iterator[Callable[[RunConfig], None]]:
    """Run on workers that serve all runs of a file: to start them takes longer than such a run."""
    with ExitStack() as stack:
        engines: dict[int, WarmEngine] = {}

        def warm(config: RunConfig) -> None:
            if config.engine.workers not in engines:
                engines[config.engine.workers] = stack.enter_context(WarmEngine())
            engines[config.engine.workers](config)

        yield warm


@pytest.fixture
def execute(tmp_path: Path, warm: Callable[[RunConfig], None]) -> Callable[..., Run]:
    """Run settings to the end in this process; each call takes a new folder unless it is given one."""
    count = iter(range(1000))

    def execute(settings: dict[str, Any] | None = None, *, engine: str = "embedded", out: Path | None = None) -> Run:
        folder = out or tmp_path / f"run-{next(count)}"
        run = warm if engine == "embedded" else ENGINES.load(engine)
        run(config_of(settings or {}, engine, folder))
        return Run(folder)

    return execute


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """Return the run that settings make in one process, with no worker and no fault; made once, for all tests."""
    made: dict[str, Run] = {}

    def undisturbed(settings: dict[str, Any] | None = None) -> Run:
        key = json.dumps(settings or {}, sort_keys=True)
        if key not in made:
            assert "FAULTS" not in os.environ
            made[key] = Run(tmp_path_factory.mktemp("undisturbed") / "run")
            ENGINES.load("inline")(config_of(settings or {}, "inline", made[key].folder))
        return made[key]

    return undisturbed


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    """Start the command; whatever is left of it after the test is killed."""
    started: list[Command] = []

    def command(
        settings: dict[str, Any] | None = None, *, resume: Path | None = None, env: dict[str, str] | None = None
    ) -> Command:
        folder = resume or tmp_path / "killed"
        given = settings or {}
        sets = [f"--set={key}={value}" for key, value in (given if resume else {**CHEAP, **given}).items()]
        where = ["--resume", str(folder)] if resume else ["--out", str(folder)]
        process = subprocess.Popen(
            [sys.executable, "-m", "fedlearn.simulate", "--quiet", *where, *sets],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(PLUGINS), **(env or {})},
            start_new_session=True, stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # also where tests are run by nohup
        )  # fmt: skip
        started.append(Command(Run(folder), process))
        return started[-1]

    yield command
    for each in started:
        each.look()
        for left in [each.process, *each.alive()]:
            left.kill()
        each.process.communicate()


@pytest.fixture
def place() -> Iterator[Path]:
    """A temporary folder for a command alone, with a name that is short enough for the sockets in it."""
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as place:
        yield Path(place)


@pytest.fixture
def in_the_middle(command, tmp_path: Path) -> Callable[..., Command]:
    """Start the command and return when a node hangs in it."""

    def in_the_middle(settings: dict[str, Any], faults: str, *, env: dict[str, str] | None = None) -> Command:
        mark = tmp_path / "mark"
        started = command(settings, env={"FAULTS": faults, "MARK": str(mark), **(env or {})})
        wait_until(lambda: mark.exists() or started.process.poll() is not None, "the node that hangs")
        assert started.process.poll() is None, started.process.communicate()
        return started

    return in_the_middle
