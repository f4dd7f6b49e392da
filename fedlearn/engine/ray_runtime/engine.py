"""Starts Ray or joins it, runs the server app in this process and the clients in actors, and ends the actors."""

from __future__ import annotations

from fedlearn import flower
from fedlearn.config import RunConfig, to_flower
from fedlearn.engine.apps import load_server_app
from fedlearn.engine.prepare import prepared
from fedlearn.engine.ray_runtime.cluster import connected
from fedlearn.engine.ray_runtime.grid import RunnerGrid
from fedlearn.engine.virtual_time.setup import with_devices


def run_on_ray(config: RunConfig) -> None:
    """Run to the end; on any way out end the actors, and the cluster if it was started for the run."""
    flower.enter_run()
    flower.log_as_we_do()
    config = prepared(config)
    settings = to_flower(config)
    with connected(config.engine):
        from fedlearn.engine.ray_runtime.actors import started  # imports Ray, whose environment is set now

        grid = RunnerGrid(started(config.engine, config.clients, settings), config.clients, settings)
        try:
            load_server_app()(with_devices(grid, config), flower.server_context(settings))
        finally:
            grid.close()
