"""Imported by the process that all workers are forked from: every worker's modules, then those that the engine names.

That process may be started before the engine knows the model of the run, so the engine names the modules later.
"""

import json
import os
import shutil
import signal
import sys
from contextlib import suppress
from importlib import import_module
from multiprocessing import current_process, util
from pathlib import Path

from fedlearn.core.stopping import SIGNALS
from fedlearn.engine.embedded.forkserver import IMPORTS_PIPE, WORKER
from fedlearn.engine.lazy_imports import put_off
from fedlearn.engine.processes import importing, without

DRIVERS = ("/proc/driver/nvidia", "/dev/dxg")  # where one of them is, there may be a GPU


def _import_named(pipe: str) -> None:
    """Import the modules that the engine names in a line; wait for the line, and end if the engine is gone."""
    descriptor = os.open(
        pipe, os.O_RDONLY | os.O_NONBLOCK
    )  # else opening would wait for ever for an engine that is gone
    os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, encoding="utf-8") as lines:
        line = lines.readline()
    if not line:
        shutil.rmtree(Path(pipe).parent, ignore_errors=True)
        sys.exit()
    wanted = json.loads(line)
    sys.path[:] = wanted["path"]
    in_vain = () if has_driver() else ("cuda.bindings",)
    for name in wanted["imports"]:
        with (
            suppress(ImportError),
            without(*in_vain),
        ):  # the code that needs the module reports that it cannot be imported
            import_module(name)


def has_driver() -> bool:
    """Return whether there may be a GPU for which torch would want ``cuda.bindings``."""
    return sys.platform != "linux" or any(Path(each).exists() for each in DRIVERS)


def _hear_signals(_: object) -> None:
    """Let signals end a process of the user's own `multiprocessing`; workers leave them to the engine."""
    if current_process().name != WORKER:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, *SIGNALS})


util.register_after_fork(_hear_signals, _hear_signals)
with importing():
    put_off()
    # What a worker and our client app need: here once, with its pages shared, and not in each worker.
    import fedlearn.config.policy
    import fedlearn.engine.embedded.tidying
    import fedlearn.engine.embedded.worker
    import fedlearn.models.loaded
    import fedlearn.privacy.ledger
    import fedlearn.runs.ledgers  # noqa: F401

    if IMPORTS_PIPE in os.environ:
        _import_named(os.environ.pop(IMPORTS_PIPE))
