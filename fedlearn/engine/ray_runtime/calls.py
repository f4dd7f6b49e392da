"""Calls of a function on the machines of a Ray cluster, as many at a time as it has room for."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

from fedlearn.core.errors import RunFailed
from fedlearn.engine.processes import default_size
from fedlearn.engine.ray_runtime import refuse_without_ray
from fedlearn.engine.ray_runtime.cluster import cause_of, connected

Result = TypeVar("Result")

TRIES = 2  # of a call whose process or machine dies


def called(
    function: Callable[..., Result], calls: Sequence[tuple[Any, ...]], *, address: str, cpus: float, gpus: float
) -> Generator[tuple[int, Result | RunFailed], None, None]:
    """Yield the place of each call, as it ends, with its result, or with the reason why it has none.

    A call whose process or machine dies is made once more. What is under way when the caller stops is ended.

    Parameters
    ----------
    function
        A function of a module that every machine has.
    calls
        The arguments of each call.
    address
        HOST:PORT of a running cluster; empty starts one on this machine.
    cpus, gpus
        What Ray reserves for each call.

    Raises
    ------
    UsageError
        If Ray is not installed, or no machine of the cluster has what a call asks for.
    """
    refuse_without_ray()
    with connected(address, cpus=default_size()):
        import ray

        from fedlearn.engine.ray_runtime.actors import capacity  # it imports Ray, whose environment is set by then

        capacity(cpus, gpus)
        remote = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=TRIES - 1)(function)
        left = {remote.remote(*arguments): place for place, arguments in enumerate(calls)}
        while left:
            [promise], _ = ray.wait(list(left))
            place = left.pop(promise)
            try:
                yield place, ray.get(promise)
            except ray.exceptions.RayError as error:
                yield place, RunFailed(f"it has died on the Ray cluster: {cause_of(error)}")
