"""Run in a caller's process as a guest: one call at a time, which leaves the process as it was."""

from __future__ import annotations

import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from fedlearn.plugins.generators import restored_globals

WAITING = (
    "another fedlearn call of this process is under way, and each would change what the other computes: "
    "this one begins when that has ended; processes of their own run at once"
)

LEFT_BEHIND = (
    "FLWR_TELEMETRY_ENABLED", "FLWR_DISABLE_UPDATE_CHECK", "RAY_USAGE_STATS_ENABLED", "GRPC_VERBOSITY",
    "KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK",
)  # fmt: skip
"""Environment variables that Flower, Ray, grpc and scikit-learn set, or have us set, when they are imported."""

log = logging.getLogger("fedlearn")
_one_at_a_time = threading.RLock()
_calls = 0  # how many calls are under way, each within the one before


@contextmanager
def guest() -> Iterator[None]:
    """Wait until no other thread's call is under way, and restore the state of the process after the block.

    Random generators, caches and names of modules belong to the whole process, so two runs at once would not have the
    bytes that each has alone. A call within a call, as of a listener, does not wait. Restored are the environment,
    filters of warnings, random generators, and torch's number of threads.
    """
    global _calls
    if not _one_at_a_time.acquire(blocking=False):
        log.warning(WAITING)
        _one_at_a_time.acquire()
    _calls += 1
    if _calls == 1 and (trained := sys.modules.get("fedlearn.models.torch.process")) is not None:
        trained.prepare_again()
    absent = [name for name in LEFT_BEHIND if name not in os.environ]
    try:
        with warnings.catch_warnings(), restored_globals():
            show_deprecations()
            yield
    finally:
        for name in absent:
            os.environ.pop(name, None)
        _calls -= 1
        trained = sys.modules.get("fedlearn.models.torch.process")
        if not _calls and trained is not None:
            trained.threads_as_before()
        _one_at_a_time.release()


def show_deprecations() -> None:
    """Show warnings of deprecation where they would be errors, as under ``pytest -W error``: libraries raise them."""
    if any(action == "error" and issubclass(DeprecationWarning, kind) for action, _, kind, _, _ in warnings.filters):
        for kind in (DeprecationWarning, PendingDeprecationWarning):
            warnings.filterwarnings("default", category=kind)


def _begin_anew() -> None:
    global _one_at_a_time, _calls
    _one_at_a_time, _calls = threading.RLock(), 0


os.register_at_fork(after_in_child=_begin_anew)  # the thread that holds it is not in the child
