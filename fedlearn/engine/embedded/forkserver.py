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
from multiprocessing import current_process, forkserver, resource_tracker, spawn, util
from pathlib import Path
from typing import Any

from fedlearn.core.stopping import SIGNALS
from fedlearn.engine.processes import ONE_THREAD, PRELOAD_TORCH, environment

PRELOAD = "fedlearn.engine.embedded.preload"
WORKER = "fedlearn worker"  # name of these processes, to `multiprocessing`
IMPORTS_PIPE = "FEDLEARN_IMPORTS"
"""Environment variable with the path of the pipe through which the process gets the names of more modules."""

_numbers = count()
_pipe = -1  # the engine's end, open as long as the engine lives, so that the process sees the engine's end
_is_waiting = False
_starter = 0  # the process that has begun the fork server; a child of that process needs one of its own


def begin() -> None:
    """Start the process if it does not run; it imports every worker's modules, and waits for `start` to name more."""
    global _pipe, _is_waiting, _starter
    if _starter != os.getpid():
        current_process()._config.pop("tempdir", None)  # type: ignore[attr-defined]  # its parent's, where sockets lie
        _starter = os.getpid()
    resource_tracker.ensure_running()  # first, as it unblocks the signal that we block
    atexit.unregister(_end_with)
    atexit.register(_end_with, os.getpid())
    forkserver.set_forkserver_preload([PRELOAD])
    path = Path(util.get_temp_dir(), f"imports-{next(_numbers)}")
    os.mkfifo(path, 0o600)
    pipe = os.open(path, os.O_RDWR)  # opening for writing alone would wait for a reader
    before = _pid()
    with _deaf_to_signals(), environment(**ONE_THREAD, **{IMPORTS_PIPE: str(path)}):
        try:
            forkserver.ensure_running()
        except ChildProcessError:  # it is the server of the process that this one was forked from
            _forget()
            forkserver.ensure_running()
    if _pid() == before:
        os.close(pipe)
        path.unlink()
        return
    if _pipe >= 0:
        os.close(_pipe)  # that of one that has died
    _pipe, _is_waiting = pipe, True


def begin_early() -> None:
    """Begin the process ahead of a run, which needs it most likely; the run tries again, and says why it cannot."""
    with suppress(OSError):
        begin()


def start(*models: str) -> None:
    """Start the process, without waiting for its imports; a second call changes nothing.

    Parameters
    ----------
    *models
        The names of the models that the workers will need; torch is imported where no name is given.
    """
    global _is_waiting
    from fedlearn.models import model_spec

    begin()
    if not _is_waiting:
        return
    rows = [model_spec(model) for model in models]
    in_steps = not rows or any(row.trains_in_steps for row in rows)
    imports = [*(name for row in rows for name in row.imports), *([PRELOAD_TORCH] if in_steps else [])]
    os.write(_pipe, f"{json.dumps({'path': sys.path, 'imports': imports})}\n".encode())
    _is_waiting = False


def end() -> None:
    """End the process, if it runs; there will be no workers then."""
    pid = _pid()
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
        forkserver._forkserver._stop()  # type: ignore[attr-defined]
        _remove_folder()


def _remove_folder() -> None:
    """Remove multiprocessing's folder of sockets if nothing else is in it: if we were killed, nobody would do so."""
    folder = Path(util.get_temp_dir())
    for pipe in folder.glob("imports-*"):
        pipe.unlink()
    if not any(folder.iterdir()):
        for finalizer in [*util._finalizer_registry.values()]:  # type: ignore[attr-defined]
            if getattr(finalizer, "_callback", None) is util._remove_temp_dir:  # type: ignore[attr-defined]
                finalizer()


def end_unused() -> None:
    """End the process if it still waits for the names of models: it was begun for a run that forks no worker."""
    if _is_waiting:
        end()


def _pid() -> int | None:
    pid: int | None = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    return pid


def _end_with(starter: int) -> None:
    """End the process together with the engine, and not a second later, as it would by itself."""
    if os.getpid() == starter:
        with suppress(OSError):
            end()


def _forget() -> None:
    """Forget a fork server without ending it."""
    server: Any = forkserver._forkserver
    os.close(server._forkserver_alive_fd)
    server.__init__()
    forkserver.set_forkserver_preload([PRELOAD])


@contextmanager
def may_have_children() -> Iterator[None]:
    """Let this process start workers, even if it is one of a `multiprocessing.Pool`, which may start none.

    Such a process is ended without a chance to clean up. Workers end with it all the same, as they watch it.
    """
    config: dict[str, Any] = current_process()._config  # type: ignore[attr-defined]
    before = config.get("daemon", False)
    config["daemon"] = False
    try:
        yield
    finally:
        config["daemon"] = before


_prepared = spawn.get_preparation_data


def _without_main(name: str) -> dict[str, Any]:
    """Return the data with which `multiprocessing` starts a process; for a worker of ours, without the main module.

    A worker needs no object of the main module: that is the user's script, which begins a run, or a notebook or
    standard input, which cannot be imported at all.
    """
    data = _prepared(name)
    return data if name != WORKER else {key: value for key, value in data.items() if not key.startswith("init_main")}


spawn.get_preparation_data = _without_main


@contextmanager
def _deaf_to_signals() -> Iterator[None]:
    """Block the signals that stop a run: the processes that are started meanwhile, and their children, get none.

    A terminal sends SIGINT to all processes, Slurm SIGTERM. The engine alone answers, and ends the others.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *SIGNALS})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
