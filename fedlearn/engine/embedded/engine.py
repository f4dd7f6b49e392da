"""Starts the workers, runs the server app in this process, and leaves nothing behind."""

from __future__ import annotations

import os

from fedlearn import flower
from fedlearn.components import load_server_app
from fedlearn.config import RunConfig, to_flower
from fedlearn.engine.embedded.grid import EmbeddedGrid
from fedlearn.engine.embedded.pool import WorkerPool, default_size
from fedlearn.engine.embedded.tasks import Begin
from fedlearn.engine.prepare import prepared


def run_embedded(config: RunConfig) -> None:
    """Run to the end; on any way out the workers are ended."""
    flower.enter_run()
    config = prepared(config)
    settings = to_flower(config)
    begin = Begin(settings, config.clients, dict(os.environ))
    pool = WorkerPool(config.engine.workers or default_size(), begin)
    try:
        load_server_app()(EmbeddedGrid(pool, config.clients, settings), flower.server_context(settings))
    finally:
        pool.close()
