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

from fedlearn.engine.processes import ONE_THREAD, PRELOAD_TORCH, environment

PRELOAD = "fedlearn.engine.embedded.preload"
WORKER = "fedlearn worker"  # name of these processes, to `multiprocessing`
SAID_IN = "FEDLEARN_IMPORTS"
"""Environment variable that names the pipe in which it hears what else to import."""

_numbers = count()
_pipe = -1  # its other end, open as long as we live: so it sees our end
_is_waiting = False
_starter = 0  # the process that has begun it; a child of that process needs one of its own


def begin() -> None:
    """Start it if it does not run; it imports what every worker needs, and waits for `start` to say what else."""
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
    pipe = os.open(path, os.O_RDWR)  # for writing alone, one would wait until somebody reads
    before = _pid()
    with _deaf_to_ctrl_c(), environment(**ONE_THREAD, **{SAID_IN: str(path)}):
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
    in_steps = not rows or any(row.trains_in_steps for row in rows)
    imports = [*(name for row in rows for name in row.imports), *([PRELOAD_TORCH] if in_steps else [])]
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


def _forget() -> None:
    """Forget a server without ending it."""
    server: Any = forkserver._forkserver
    os.close(server._forkserver_alive_fd)
    server.__init__()
    forkserver.set_forkserver_preload([PRELOAD])


@contextmanager
def may_have_children() -> Iterator[None]:
    """Let this process start workers, even if it is one of a `multiprocessing.Pool`, which may start none.

    Such a process is ended without being asked. Workers end with it all the same: they watch it.
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
    """Return what `multiprocessing` tells a process at its start, less the main module where it is one of our workers.

    Nothing of ours is in the main module, but the user's script, which begins a run, or a notebook or standard input,
    which cannot be imported at all.
    """
    data = _prepared(name)
    return data if name != WORKER else {key: value for key, value in data.items() if not key.startswith("init_main")}


spawn.get_preparation_data = _without_main


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
