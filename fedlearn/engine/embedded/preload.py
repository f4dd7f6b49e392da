"""Imported by the process that all workers are forked from: what every worker needs, then what the engine says.

It may be started before the engine's own process has imported anything, and so knows what model there is.
"""

import json
import os
import shutil
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from fedlearn.engine.embedded.forkserver import SAID_IN
from fedlearn.engine.processes import importing, without

DRIVERS = ("/proc/driver/nvidia", "/dev/dxg")  # where one of them is, there may be a GPU


def _import_what_is_said(pipe: str) -> None:
    """Wait until the engine has written a line; end if it is gone."""
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # else one would wait for ever for an engine that is gone
    os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, encoding="utf-8") as lines:
        line = lines.readline()
    if not line:
        shutil.rmtree(Path(pipe).parent, ignore_errors=True)
        sys.exit()
    said = json.loads(line)
    sys.path[:] = said["path"]
    in_vain = () if has_driver() else ("cuda.bindings",)
    for name in said["imports"]:
        with suppress(ImportError), without(*in_vain):  # whoever needs it will say that it cannot be imported
            import_module(name)


def has_driver() -> bool:
    """Return whether there may be a GPU for which torch would want ``cuda.bindings``."""
    return sys.platform != "linux" or any(Path(each).exists() for each in DRIVERS)


with importing():
    with without("httpx._main"):  # a command line, which brings others with it
        import fedlearn.engine.embedded.tidying
        import fedlearn.engine.embedded.worker

    # What our client app needs: here once, with its pages shared, and not in each worker.
    import fedlearn.config.policy
    import fedlearn.models.loaded
    import fedlearn.privacy.ledger
    import fedlearn.runs.ledgers  # noqa: F401

    if SAID_IN in os.environ:
        _import_what_is_said(os.environ.pop(SAID_IN))
