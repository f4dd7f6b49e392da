"""What the processes of all engines have in common: how many there are, what they import, how they end."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

PRELOAD_TORCH = "fedlearn.engine.embedded.preload_torch"
"""What a process imports that trains networks, before others are forked from it."""
PR_SET_PDEATHSIG = 1  # linux/prctl.h


def default_size() -> int:
    """Return one worker for each core that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
"""Environment in which numeric libraries use one thread in a process, if it is set before they are imported."""


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Set environment variables for as long as the block lasts; the processes that are started in it inherit them.

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
    """Look for no garbage while modules are imported, nor ever again among what they hold.

    With torch they are some 350,000 objects, of which none is garbage: to look through them takes a sixth of the time
    of importing it, and again later on; in a child it has their pages copied. For processes of our own alone.
    Within another one it leaves all to that.
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
    """Have these modules not be there, for whoever imports them as long as the block lasts; those imported before stay.

    >>> with without("this"):
    ...     import this
    Traceback (most recent call last):
    ModuleNotFoundError: import of this halted; None in sys.modules
    """
    absent = {name: None for name in modules if name not in sys.modules}
    sys.modules.update(absent)  # type: ignore[arg-type]  # None means that it is not there
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


def die_with(parent: int | None) -> None:
    """Have this process ended by SIGTERM when `parent` dies, even by SIGKILL; None is nobody."""
    if parent is None:
        return
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it has died before that
        sys.exit(f"the process {parent} that was to be our parent is gone")


def how_it_ended(status: int) -> str:
    """Return an exit status in words.

    >>> how_it_ended(9), how_it_ended(256)
    ('killed by SIGKILL', 'exit code 1')
    """
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"exit code {os.waitstatus_to_exitcode(status)}"


def free_port() -> int:
    """Return a port of this host that nobody listens on, for the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
