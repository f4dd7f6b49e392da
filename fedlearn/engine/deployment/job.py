"""A run on a deployment: registers the nodes, submits the run, follows it, submits it again if the server app dies."""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from fedlearn.config import RunConfig, to_flower
from fedlearn.core.errors import RunFailed
from fedlearn.core.stopping import Stopped
from fedlearn.flower.control import Away, Control
from fedlearn.flower.network import name_of_key
from fedlearn.plugins.own_packages import ROOT, own_files
from fedlearn.runs.folder import RunFolder

ABOUT = ("pyproject.toml", "LICENSE")  # what a bundle has besides Python files
IN_A_WHEEL = Path(__file__).parent / "app"  # the folder where a wheel has them
LOOK = 1.0  # seconds between questions for a state that is not streamed
TAIL = 30  # lines of the server app's output that are shown when it fails

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a job waits.

    Parameters
    ----------
    nodes
        Seconds for all nodes to be online, before the run begins without the rest.
    superlink
        Seconds without an answer of the SuperLink.
    retries
        How often a run is submitted again after its server app has died.
    """

    nodes: float = 120.0
    superlink: float = 300.0
    retries: int = 3


def app_files() -> dict[str, Path]:
    """Return the files of our Flower App, of a clone or of a wheel, by their names in a bundle."""
    place = ROOT if (ROOT / ABOUT[0]).is_file() else IN_A_WHEEL
    return {**own_files(), **{name: place / name for name in ABOUT}}


class Job:
    """One run, until it is completed or has failed for good.

    Parameters
    ----------
    config
        The run's settings; the run folder, ``out``, must be the same here and for the server app, which writes it.
    say
        Called with each line for the user.
    """

    def __init__(self, control: Control, config: RunConfig, patience: Patience, say: Callable[[str], None]) -> None:
        self._control = control
        self._config = config
        self._patience = patience
        self._say = say
        self._folder = RunFolder(Path(config.out))

    def let_in(self, public_keys: Path) -> None:
        """Register the nodes whose public keys lie in a folder, as ``3.pub`` for partition 3; then wait for them."""
        keys = sorted(public_keys.glob("*.pub"), key=lambda path: (len(path.stem), path.stem))
        new = sum(self._patiently(partial(self._control.register, key, name=name_of_key(key.stem))) for key in keys)
        self._say(f"{len(keys)} clients are registered, {new} of them new")
        self._wait_for_nodes(min(self._config.clients, len(keys)))

    def _wait_for_nodes(self, wanted: int) -> None:
        end = time.monotonic() + self._patience.nodes
        while (online := self._patiently(self._control.online)) < wanted and time.monotonic() < end:
            time.sleep(LOOK)
        self._say(f"{online} of {wanted} clients are online")

    def run(self) -> None:
        """Submit the run and follow it to its end.

        Raises
        ------
        RunFailed
            With the reason.
        """
        for attempt in range(self._patience.retries + 1):
            begin = self._folder.events.stat().st_size if self._folder.events.exists() else 0
            run_id = self._patiently(lambda: self._control.submit(app_files(), to_flower(self._config)))
            self._say(f"run {run_id} is submitted")
            output, status, details = self._follow(run_id)
            if status == "finished:completed":
                return
            last = _ended_with(self._folder.events, begin)
            if last.get("status") == "interrupted" and last["reason"]:
                raise Stopped(last["reason"])
            if reason := last.get("reason") or _own_fault(details):
                log.error("the server app's last lines:\n%s", "".join(output))
                raise RunFailed(reason)
            if status == "finished:stopped":
                raise RunFailed(f"run {run_id} was stopped; resume by --resume {self._folder.path.name}")
            self._say(f"the server app died in run {run_id} ({details or status}); submitting it again, from the last "
                      f"committed round, {self._patience.retries - attempt} tries are left")  # fmt: skip
        raise RunFailed(f"the server app died {self._patience.retries + 1} times; last: {details or status}")

    def _follow(self, run_id: int) -> tuple[deque[str], str, str]:
        """Return the last lines of the run's output, and how it ended."""
        output: deque[str] = deque(maxlen=TAIL)
        try:
            while True:
                try:
                    output.clear()
                    for text in self._control.log_of(run_id):
                        output.extend(text.splitlines(keepends=True))
                except Away:
                    pass  # asking for the status shows whether it comes back
                status, details = self._patiently(lambda: self._control.status(run_id))
                if status.startswith("finished"):
                    return output, status, details
                time.sleep(LOOK)
        except KeyboardInterrupt:
            self._control.stop(run_id)
            raise

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Ask again while the SuperLink does not answer; a line says so at the first time."""
        end = time.monotonic() + self._patience.superlink
        is_said = False
        while True:
            try:
                return ask()
            except Away as error:
                if time.monotonic() > end:
                    raise
                if not is_said:
                    self._say(f"{error}; asking again for {self._patience.superlink:.0f} s")
                is_said = True
            time.sleep(LOOK)


def _ended_with(events: Path, begin: int) -> dict[str, str]:
    """Return the event of the run's end, from the events from byte `begin` on; empty if there is none."""
    if not events.exists():
        return {}
    with events.open("rb") as file:
        file.seek(begin)
        last = [line for line in file if line.startswith(b"{") and b'"event": "ended"' in line][-1:]
    return dict(json.loads(last[0])) if last else {}


def _own_fault(details: str) -> str:
    """Return the exception that ended the server app before its log began; empty if it was ended from outside."""
    marker = "failed with exception: "
    return details.partition(marker)[2] if marker in details else ""
