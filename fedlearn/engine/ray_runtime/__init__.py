"""The ray engine: the actors of Flower's Simulation Runtime, on this machine or on a cluster of many."""

from importlib.util import find_spec

from fedlearn.config import RunConfig
from fedlearn.words.errors import UsageError


def run(config: RunConfig) -> None:
    """Run to the end."""
    if find_spec("ray") is None:
        raise UsageError("engine.name = 'ray': Ray is not installed: pip install 'fedlearn[ray]'")
    from fedlearn.engine.ray_runtime.engine import run_on_ray

    run_on_ray(config)
