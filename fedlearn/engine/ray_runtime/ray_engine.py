"""Starts Ray or joins it, runs the server app in this process and the clients in actors, and ends the actors."""

from __future__ import annotations

import math

from fedlearn import flower
from fedlearn.config import RunConfig, to_flower
from fedlearn.engine.apps import load_server_app
from fedlearn.engine.prepare import prepared
from fedlearn.engine.processes import default_size
from fedlearn.engine.ray_runtime.cluster import connected
from fedlearn.engine.ray_runtime.runner_grid import RunnerGrid
from fedlearn.engine.virtual_time.setup import with_devices


def run_on_ray(config: RunConfig, *, address: str, cpus: float, gpus: float) -> None:
    """Run to the end; on any way out end the actors, and the cluster if it was started for the run.

    Parameters
    ----------
    address
        HOST:PORT of a running cluster; empty starts one on this machine.
    cpus, gpus
        What Ray reserves for each client that runs.
    """
    flower.enter_run()
    flower.log_as_we_do()
    config = prepared(config)
    settings = to_flower(config)
    workers = config.engine.workers
    with connected(address, cpus=math.ceil(workers * cpus) or default_size()):
        from fedlearn.engine.ray_runtime.actors import started  # it imports Ray, whose environment is set by then

        actors = started(settings, at_most=min(workers or config.clients, config.clients), cpus=cpus, gpus=gpus)
        grid = RunnerGrid(actors, config.clients, settings)
        try:
            load_server_app()(with_devices(grid, config), flower.server_context(settings))
        finally:
            grid.close()
