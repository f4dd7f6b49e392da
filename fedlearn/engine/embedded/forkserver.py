"""The process that all workers are forked from."""

from __future__ import annotations

import os
from multiprocessing import forkserver

PRELOAD = ["fedlearn.engine.embedded.preload"]


def start() -> None:
    """Start it, without waiting for its imports; does nothing if it runs already."""
    # Read by the workers' numeric libraries when they are imported: one process a core, one thread each.
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    forkserver.set_forkserver_preload(PRELOAD)
    forkserver.ensure_running()
