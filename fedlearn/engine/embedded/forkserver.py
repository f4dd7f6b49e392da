"""The process that all workers are forked from."""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from multiprocessing import forkserver, resource_tracker, util
from pathlib import Path
from types import ModuleType

from fedlearn.engine.processes import PRELOADS, one_thread_each

PRELOAD = "fedlearn.engine.embedded.preload"
SAID_IN = "FEDLEARN_IMPORTS"
"""Environment variable that names the pipe in which it hears what else to import."""

_numbers = count()
_pipe = -1  # its other end, open as long as we live: so it sees our end
_is_waiting = False


def begin() -> None:
    """Start it if it does not run; it imports what every worker needs, and waits for `start` to say what else."""
    global _pipe, _is_waiting
    one_thread_each()
    resource_tracker.ensure_running()  # first, as it unblocks the signal that we block
    atexit.unregister(_end_with)
    atexit.register(_end_with, os.getpid())
    forkserver.set_forkserver_preload([PRELOAD])
    path = Path(util.get_temp_dir(), f"imports-{next(_numbers)}")
    os.mkfifo(path, 0o600)
    pipe = os.open(path, os.O_RDWR)  # for writing alone, one would wait until somebody reads
    os.environ[SAID_IN] = str(path)
    before = _pid()
    try:
        with _deaf_to_ctrl_c():
            forkserver.ensure_running()
    finally:
        del os.environ[SAID_IN]
    if _pid() == before:
        os.close(pipe)
        path.unlink()
        return
    if _pipe >= 0:
        os.close(_pipe)  # that of one that has died
    _pipe, _is_waiting = pipe, True


def start(*models: str) -> None:
    """Start it, without waiting for its imports; does nothing if it has been before, whatever it has imported.

    Parameters
    ----------
    *models
        The names of the models that the workers will need; none where nobody knows, which is torch.
    """
    global _is_waiting
    from fedlearn.models import model_spec

    begin()
    if not _is_waiting:
        return
    rows = [model_spec(model) for model in models]
    imports = [name for row in rows for name in (*row.imports, PRELOADS[row.preload])] or [PRELOADS["torch"]]
    os.write(_pipe, f"{json.dumps({'path': sys.path, 'imports': imports})}\n".encode())
    _is_waiting = False


def end() -> None:
    """End it, if it runs: nobody will have workers."""
    pid = _pid()
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
        forkserver._forkserver._stop()  # type: ignore[attr-defined]


def _pid() -> int | None:
    pid: int | None = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    return pid


def _end_with(starter: int) -> None:
    """End it with the engine, not a second later, when it would notice by itself."""
    if os.getpid() == starter:
        with suppress(OSError):
            end()


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
