"""The ray engine: the actors of Flower's Simulation Runtime, on this machine or on a cluster of many."""

from importlib.util import find_spec
from typing import Annotated

from pydantic import Field

from fedlearn.config import RunConfig
from fedlearn.config.fields import NonNegative
from fedlearn.core.errors import UsageError
from fedlearn.engine.engine_type import Engine


def run(
    config: RunConfig,
    *,
    address: str = "",
    client_cpus: Annotated[float, Field(ge=0.01, allow_inf_nan=False)] = 1.0,
    client_gpus: NonNegative = 0.0,
) -> None:
    """Run to the end.

    Parameters
    ----------
    address
        HOST:PORT of a running cluster; without it, one is started on this machine and stopped after the run.
    client_cpus, client_gpus
        Cores and GPUs reserved for each client that runs, or a share of one.
    """
    refuse_without_ray()
    from fedlearn.engine.ray_runtime.ray_engine import run_on_ray

    run_on_ray(config, address=address, cpus=client_cpus, gpus=client_gpus)


def refuse_without_ray() -> None:
    """Raise UsageError where Ray is not installed."""
    if find_spec("ray") is None:
        raise UsageError("engine.name = 'ray': Ray is not installed: pip install 'fedlearn[ray]'")


RAY = Engine(run)
