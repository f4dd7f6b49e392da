"""Pass the events of a run to tools for watching experiments, for ``--log NAME`` and the `log` of `fedlearn.run`.

A listener is made when the run folder is there and nothing in it is written yet, so it may open files there. It follows
the log in a thread of its own. An error in it is logged once and never stops the run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from fedlearn.config import RunConfig, to_flower
from fedlearn.core.cohort import Fate
from fedlearn.core.errors import UsageError, quoted
from fedlearn.plugins import tables
from fedlearn.plugins.registry import Registry, call_plugin
from fedlearn.runs.folder import RunFolder
from fedlearn.runs.log import Event, following
from fedlearn.runs.secret_participation import is_secret, of_the_run
from fedlearn.runs.stop_requests import ask_to_stop

log = logging.getLogger(__name__)

NODES = ("ready", "cohort", *Fate)  # columns that count nodes

LISTENERS = Registry(
    "--log",
    tables.LISTENERS,
    asks=("__call__",),
)


class Listener(Protocol):
    """A receiver of the events of one run."""

    def take(self, event: Event) -> bool | None:
        """Receive one event; returning True stops the run, and what was committed is stored."""

    def close(self) -> None:
        """Write what is left; called once, when the run has ended in any way."""


MakeListener = Callable[[Path, RunConfig], Listener]
Named = str | MakeListener | Listener
"""A listener by its name in the table or its ``module:Class``; what makes one, as its class; or one that is made."""


def scalars_of(event: Event) -> dict[str, float]:
    """Return name -> number for a committed round: its metrics, and bytes, nodes and seconds in groups.

    >>> scalars_of({"round": 1, "bytes_up": 9, "accuracy": 0.5, "loss": None, "training_seconds": 2.0, "late": 1})
    {'bytes/up': 9.0, 'accuracy': 0.5, 'seconds/training': 2.0, 'nodes/late': 1.0}
    """
    left_out = ("time", "virtual", "event", "round", "attempt")
    numbers = {k: float(v) for k, v in event.items() if k not in left_out and isinstance(v, int | float)}
    return {_tag(name): value for name, value in numbers.items()}


def _tag(name: str) -> str:
    if name.endswith("_seconds"):
        return f"seconds/{name.removesuffix('_seconds')}"
    if name.startswith("bytes_"):
        return f"bytes/{name.removeprefix('bytes_')}"
    return f"nodes/{name}" if name in NODES else name


@contextmanager
def listened(listeners: Sequence[Named], folder: RunFolder, config: RunConfig) -> Iterator[None]:
    """Let listeners follow a run's log as long as the block lasts; the run folder is made before them.

    Raises
    ------
    UsageError
        Before the block, if a listener does not exist, its package is not installed, or the folder cannot be made.
    """
    begin = folder.events.stat().st_size if folder.events.exists() else 0
    with ExitStack() as stack:
        for given in (each for place, each in enumerate(listeners) if each not in listeners[:place]):
            folder.make()
            name = given if isinstance(given, str) else getattr(given, "__name__", type(given).__name__)
            careful = _Careful(name, _made(given, name, folder.path, config), folder.path)
            stack.callback(careful.close)
            take = _of_the_run(careful.take) if is_secret(to_flower(config)) else careful.take
            stack.enter_context(following(folder.events, begin, take))
        yield


def _of_the_run(take: Callable[[Event], None]) -> Callable[[Event], None]:
    """Return a receiver that passes on what tells nothing of who took part in a round."""

    def passed_on(event: Event) -> None:
        if (shown := of_the_run(event)) is not None:
            take(shown)

    return passed_on


def _made(given: Named, name: str, folder: Path, config: RunConfig) -> Listener:
    """Return a listener: the one that is given, or the one that is made for this run."""
    is_made = not isinstance(given, str | type) and hasattr(given, "take")
    if not is_made:
        make = LISTENERS.load(given) if isinstance(given, str) else given
        if not callable(make):
            raise UsageError(
                f"log: {quoted(given)} is no listener: give a name, a class, or an object with take(event)"
            )
        given = call_plugin("--log", name, make, folder, config)
    if lacks := [method for method in ("take", "close") if not callable(getattr(given, method, None))]:
        raise UsageError(f"--log {name}: {quoted(given)} has no {lacks[0]}: a listener has take(event) and close()")
    listener: Listener = given  # type: ignore[assignment]
    return listener


class _Careful:
    """A listener that gets no more events once it has failed."""

    def __init__(self, name: str, listener: Listener, folder: Path) -> None:
        self._name = name
        self._listener = listener
        self._folder = folder
        self._failed = False

    def take(self, event: Event) -> None:
        self._try(lambda: self._stop_if(self._listener.take(event)))

    def _stop_if(self, wanted: object) -> None:
        if wanted is True:
            with suppress(UsageError):  # it has ended
                ask_to_stop(self._folder, f"by the listener {self._name}")

    def close(self) -> None:
        self._try(self._listener.close)

    def _try(self, action: Callable[[], None]) -> None:
        if self._failed:
            return
        try:
            action()
        except Exception as error:  # of a foreign library, about its files or its server
            self._failed = True
            log.warning("--log %s: given up, the run continues: %s: %s", self._name, type(error).__name__, error)
