"""The process that all workers are forked from."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker
from types import ModuleType

from fedlearn.engine.processes import PRELOADS, one_thread_each
from fedlearn.models import model_spec


def start(model: str = "") -> None:
    """Start it, without waiting for its imports; does nothing if it runs already, whatever it has imported.

    Parameters
    ----------
    model
        The name of the model that the workers will need.
    """
    one_thread_each()
    row = model_spec(model) if model else None
    forkserver.set_forkserver_preload([*row.imports, PRELOADS[row.preload]] if row else [PRELOADS["torch"]])
    resource_tracker.ensure_running()  # first, as it unblocks the signal that we block
    atexit.unregister(_stop)
    atexit.register(_stop, os.getpid())
    with _deaf_to_ctrl_c():
        forkserver.ensure_running()


def _stop(starter: int) -> None:
    """End it with the engine, not a second later, when it would notice by itself."""
    pid = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    if pid is not None and os.getpid() == starter:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@contextmanager
def without_main() -> Iterator[None]:
    """Hide the main module from `multiprocessing`, which has every process that it starts import it.

    Nothing of ours is there, but the user's script, which begins a run, or a notebook or standard input, which cannot
    be imported at all.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Block SIGINT: the processes that are started meanwhile, and their children, are never interrupted by it.

    A terminal sends it to all of them. The engine alone answers, and ends them.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
