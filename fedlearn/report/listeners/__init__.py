"""Pass the events of a run to tools for watching experiments, for ``--log NAME``.

A listener follows the log in a thread of its own. An error in it is logged once and never stops the run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from fedlearn import plugins
from fedlearn.config import RunConfig
from fedlearn.plugging.registry import Registry, call_plugin
from fedlearn.runs.log import Event, following
from fedlearn.words.cohort import Fate

log = logging.getLogger(__name__)

NODES = ("ready", "cohort", *Fate)  # columns that count nodes

LISTENERS = Registry(
    "--log",
    plugins.LISTENERS,
    asks=("__call__",),
)


class Listener(Protocol):
    """A receiver of the events of one run."""

    def take(self, event: Event) -> None:
        """Receive one event."""

    def close(self) -> None:
        """Write what is left; called once, when the run has ended in any way."""


MakeListener = Callable[[Path, RunConfig], Listener]


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
def listened(names: Sequence[str], events: Path, config: RunConfig) -> Iterator[None]:
    """Let listeners follow a run's log as long as the block lasts.

    Raises
    ------
    UsageError
        Before the block, if a listener does not exist or its package is not installed.
    """
    begin = events.stat().st_size if events.exists() else 0
    with ExitStack() as stack:
        for name in dict.fromkeys(names):
            make: MakeListener = LISTENERS.load(name)
            careful = _Careful(name, call_plugin("--log", name, make, events.parent, config))
            stack.callback(careful.close)
            stack.enter_context(following(events, begin, careful.take))
        yield


class _Careful:
    """A listener that gets no more events once it has failed."""

    def __init__(self, name: str, listener: Listener) -> None:
        self._name = name
        self._listener = listener
        self._failed = False

    def take(self, event: Event) -> None:
        self._try(lambda: self._listener.take(event))

    def close(self) -> None:
        self._try(self._listener.close)

    def _try(self, action: Callable[[], None]) -> None:
        if self._failed:
            return
        try:
            action()
        except Exception as error:  # of a foreign library, about its files or its server
            self._failed = True
            log.warning("--log %s: given up, the run goes on: %s: %s", self._name, type(error).__name__, error)
