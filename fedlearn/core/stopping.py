"""Being stopped from outside: by SIGTERM and SIGHUP as by Ctrl-C, and by a request while something goes on.

A stop is a KeyboardInterrupt: what ends in order after Ctrl-C ends in order after every stop.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGHUP)  # of Slurm, systemd and `timeout`; of a terminal that is closed
WAKES = signal.SIGURG  # by which a request reaches the main thread, as its default does nothing
LOOK = 0.1  # seconds between looks for a request
AGAIN = 2.0  # seconds after which a request that code of others has swallowed is made again
SHARE, MOST = 0.1, 30.0  # of a time limit, and seconds, that are left for what comes after the last round

_caught = 0  # the first of `SIGNALS` that came
_began = time.monotonic()  # of this process, or of the call of a user's


class Stopped(KeyboardInterrupt):
    """A request to stop; `is_wanted` where a limit or a user has asked for it, and no signal."""

    def __init__(self, reason: str = "", *, is_wanted: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_wanted = is_wanted


def interrupted_code() -> int:
    """Return the exit code that a shell expects of a command that a signal has ended: 130 after Ctrl-C."""
    return 128 + (_caught or signal.SIGINT)


def begin() -> None:
    """Count a time limit from now on."""
    global _began
    _began = time.monotonic()


def is_over(limit: float) -> bool:
    """Return whether a time limit in seconds is all but over; 0 is none."""
    return 0 < limit < time.monotonic() - _began + min(SHARE * limit, MOST)


def catch_signals() -> list[signal.Signals]:
    """Let signals raise `Stopped` that would end the process; return them. An ignored signal stays ignored."""
    global _caught
    _caught = 0
    taken = [each for each in SIGNALS if _is_main() and signal.getsignal(each) is signal.SIG_DFL]
    for each in taken:
        signal.signal(each, _stop)
    return taken


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _stop(number: int, _: FrameType | None) -> None:
    """Raise `Stopped` at the first signal; `timeout` sends each twice, and the second must not hold up the end."""
    global _caught
    if not _caught:
        _caught = number
        raise Stopped(signal.Signals(number).name, is_wanted=False)


@contextmanager
def signals_caught() -> Iterator[None]:
    """Catch signals within the block, as a guest in the process of a user."""
    taken = catch_signals()
    try:
        yield
    finally:
        for each in taken:
            signal.signal(each, signal.SIG_DFL)


@contextmanager
def shielded() -> Iterator[None]:
    """Put off Ctrl-C and signals until the block ends, such as while the results of a run are written."""
    if not _is_main():
        yield
        return
    held: list[int] = []
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, WAKES, *SIGNALS)}
    for each in (each for each, handler in before.items() if callable(handler)):
        signal.signal(each, lambda number, _: held.append(number))
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        if held:
            signal.raise_signal(signal.Signals(held[0]))


@contextmanager
def stopped_when(ask: Callable[[], str]) -> Iterator[None]:
    """Raise `Stopped` in this thread as soon as `ask`, which another thread calls, returns a reason.

    The main thread is woken from any wait; another thread stops at its next step in Python.
    """
    reasons: list[str] = []
    left = threading.Event()
    to_wake, before = threading.get_ident(), signal.getsignal(WAKES)

    def wake(number: int, frame: FrameType | None) -> None:
        if not reasons and callable(before):  # what stops a whole sweep, around one of its runs
            before(number, frame)
        elif reasons and not left.is_set():
            raise Stopped(reasons[0])

    def watch() -> None:
        while not left.is_set():
            if reasons or (reason := ask()):
                reasons[:] = reasons or [reason]
                _wake(to_wake)
            left.wait(AGAIN if reasons else LOOK)

    is_main = _is_main()
    if is_main:
        signal.signal(WAKES, wake)
    watcher = threading.Thread(target=watch, daemon=True)
    try:
        watcher.start()  # it may ask, and stop this thread, at once
        yield
    except Stopped as stop:
        raise Stopped(stop.reason or "".join(reasons), is_wanted=stop.is_wanted) from None
    finally:
        left.set()
        if watcher.is_alive():
            watcher.join()
        if is_main:
            signal.signal(WAKES, before)


def _wake(thread: int) -> None:
    if thread == threading.main_thread().ident:
        signal.pthread_kill(thread, WAKES)
    else:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Stopped))


def deaf_to_signals() -> None:
    """Ignore the signals that a whole group of processes gets: this one ends with the process that has begun it.

    Its own children end by them: a library ends the processes that it has begun by SIGTERM, and waits for them.
    """
    process = os.getpid()

    def ignore(number: int, _: FrameType | None) -> None:
        if os.getpid() != process:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    for each in SIGNALS:
        signal.signal(each, ignore)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
