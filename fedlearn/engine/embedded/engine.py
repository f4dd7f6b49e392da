"""Starts the workers, runs the server app in this process, and ends the workers."""

from __future__ import annotations

import os
from typing import Self

from fedlearn import flower
from fedlearn.aggregation import BLOCK, blocks_of
from fedlearn.config import RunConfig, to_flower
from fedlearn.engine.apps import load_server_app
from fedlearn.engine.embedded.embedded_grid import EmbeddedGrid
from fedlearn.engine.embedded.forkserver import start
from fedlearn.engine.embedded.pool import WorkerPool
from fedlearn.engine.embedded.tasks import Begin
from fedlearn.engine.embedded.worker import work
from fedlearn.engine.prepare import prepared, trained_together
from fedlearn.engine.processes import ONE_THREAD, default_size
from fedlearn.engine.virtual_time.setup import with_devices


def workers_for(config: RunConfig) -> int:
    """Return how many workers a run gets: one for each core, or as many as are asked for and can be busy.

    A round is handed out in blocks; other tasks end sooner on as many workers as there are cores.
    """
    cores = default_size()
    size = max(BLOCK, config.training.stack)
    blocks = len(blocks_of(min(config.rounds.cohort, config.clients), size))
    return min(config.engine.workers or cores, max(cores, blocks))


class WarmEngine:
    """Runs one run after another with the same workers, whose imported modules and mapped memory serve all runs.

    Every run has the bytes that it would have alone, as a worker forgets a run when the next one begins.

    >>> with WarmEngine() as engine:  # doctest: +SKIP
    ...     engine(first)
    ...     engine(second)
    """

    def __init__(self) -> None:
        self._pool: WorkerPool | None = None

    def __call__(self, config: RunConfig) -> None:
        """Run to the end; results lie in the run folder."""
        flower.enter_run()
        flower.log_as_we_do()
        start(config.model.name)
        config = prepared(config)
        settings = to_flower(config)
        stack = trained_together(config)
        server_app = load_server_app()  # now, while the workers' parent is importing
        pool = self._pool_for(config, Begin(settings, config.clients, dict(os.environ) | ONE_THREAD, stack=stack))
        grid = EmbeddedGrid(pool, config.clients, settings, stack=stack)
        try:
            server_app(with_devices(grid, config), flower.server_context(settings))
        except BaseException:
            self.close()  # the workers may still be busy with this run
            raise
        finally:
            grid.close()

    def _pool_for(self, config: RunConfig, begin: Begin) -> WorkerPool:
        size = workers_for(config)
        if self._pool is not None and self._pool.size == size:
            self._pool.begin(begin)
            return self._pool
        self.close()
        self._pool = WorkerPool(size, begin, work)
        return self._pool

    def close(self) -> None:
        """End the workers; the next run starts others."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def __enter__(self) -> Self:
        """Return the engine."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the workers."""
        self.close()
