"""Helpers for the processes of all engines: their number, environment, imports and end."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from fedlearn.core.errors import printable

PRELOAD_TORCH = "fedlearn.engine.embedded.preload_torch"
"""The module that a process imports, before others are forked from it, to train networks."""
PR_SET_PDEATHSIG = 1  # linux/prctl.h


class _Printable(logging.Formatter):
    """Formats log records without letters that control the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's lines."""
        return "\n".join(map(printable, super().format(record).split("\n")))


def say_warnings() -> None:
    """Print warnings and errors that are logged, a line each, unless the process has a log of its own."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Printable("%(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def default_size() -> int:
    """Return the default number of workers: one for each core that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
"""Environment variables by which numeric libraries use one thread, if set before the libraries are imported."""


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Set environment variables within the block; processes that are started there inherit them.

    >>> with environment(THIS="1"):
    ...     os.environ["THIS"]
    '1'
    >>> "THIS" in os.environ
    False
    """
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def importing() -> Iterator[None]:
    """Collect no garbage while modules are imported, nor ever later among the modules' objects.

    With torch these are some 350,000 objects, none of them garbage: a collection takes a sixth of the time of the
    import, and again later; in a child it copies their pages. This is for fedlearn's own processes alone. A nested use
    does nothing.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def without(*modules: str) -> Iterator[None]:
    """Make the import of these modules fail within the block; modules that were imported before stay.

    >>> with without("this"):
    ...     import this
    Traceback (most recent call last):
    ModuleNotFoundError: import of this halted; None in sys.modules
    """
    absent = {name: None for name in modules if name not in sys.modules}
    sys.modules.update(absent)  # type: ignore[arg-type]  # None: the import fails
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


def die_with(parent: int | None) -> None:
    """End this process by SIGTERM when the process `parent` dies, even by SIGKILL; None does nothing."""
    if parent is None:
        return
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it has died before that
        sys.exit(f"the parent process {parent} is gone: this process ends, too")


def how_it_ended(status: int) -> str:
    """Return an exit status in words.

    >>> how_it_ended(9), how_it_ended(256)
    ('killed by SIGKILL', 'exit code 1')
    """
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"exit code {os.waitstatus_to_exitcode(status)}"


def free_port() -> int:
    """Return a port of this host that is free at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
