"""Starts the workers, runs the server app in this process, and leaves nothing behind."""

from __future__ import annotations

import os

from fedlearn import flower
from fedlearn.components import load_server_app
from fedlearn.config import RunConfig, to_flower
from fedlearn.engine.embedded.grid import EmbeddedGrid
from fedlearn.engine.embedded.pool import WorkerPool, default_size
from fedlearn.engine.embedded.tasks import Begin


def run(config: RunConfig) -> None:
    """Run to the end; on any way out the workers are ended."""
    flower.enter_run()
    # Read by the workers' numeric libraries when they are imported: one process a core, one thread each.
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    settings = to_flower(config)
    pool = WorkerPool(config.engine.workers or default_size(), Begin(settings, config.clients))
    try:
        load_server_app()(EmbeddedGrid(pool, config.clients, settings), flower.server_context(settings))
    finally:
        pool.close()
