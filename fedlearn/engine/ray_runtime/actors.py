"""Clients in the actors of Flower's Simulation Runtime: `flwr.simulation.ray_transport.ClientAppActor`.

Unlike in Flower's own loop, an actor that has died or hangs is replaced by another, and a client's exception is one
line, without Ray's account of its own stack.
"""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import Any

import ray
from flwr.app import Context, Message
from ray.exceptions import GetTimeoutError, RayActorError, RayError

from fedlearn import flower
from fedlearn.config import from_flower
from fedlearn.core.errors import FedlearnError, RunFailed, UsageError, error_of
from fedlearn.engine.apps import load_client_app
from fedlearn.engine.node_calls import ClientCall, handled
from fedlearn.engine.ray_runtime.cluster import cause_of, versions, why_unequal
from fedlearn.engine.ray_runtime.runner_grid import RunnerDied
from fedlearn.models.loaded import loaded
from fedlearn.plugins import objects

START_PATIENCE = 180.0  # seconds for the actors to start; a loaded machine has taken 125

log = logging.getLogger(__name__)


class ClientActor:
    """One actor, which runs one node at a time; when it is lost, another takes its place.

    Parameters
    ----------
    cpus, gpus
        The resources that Ray reserves for the actor.
    """

    def __init__(self, *, cpus: float, gpus: float) -> None:
        self._kind = flower.client_actor().options(num_cpus=cpus, num_gpus=gpus)
        self._folder = ""
        self._is_closed = False
        self._actor: Any = self._kind.remote()

    def get_ready(self, settings: dict[str, Any]) -> Any:
        """Call `_get_ready` in the actor's process; return Ray's promise of its result."""
        self._folder = settings.get("out", "")
        return self._actor.run.remote(partial(_getting_ready, settings), None, "", None)

    def run(self, message: Message, context: Context, *, seconds: float) -> tuple[Message, Context]:
        """Run a node in the actor; end the actor if that takes longer than `seconds`, or is interrupted."""
        partition = str(context.node_config["partition-id"])
        promise = self._actor.run.remote(partial(_client_app, self._folder), message, partition, context)
        try:
            _, reply, context = ray.get(promise, timeout=None if math.isinf(seconds) else seconds)
        except GetTimeoutError:
            self._replace()
            raise TimeoutError from None
        except RayActorError as error:
            self._replace()
            raise RunnerDied(f"the Ray actor that ran it died ({cause_of(error)})") from None
        except RayError as error:
            raise RuntimeError(cause_of(error)) from None
        return reply, context

    def _replace(self) -> None:
        """Start another actor; calls to it wait until it has started."""
        ray.kill(self._actor)
        if not self._is_closed:
            self._actor = self._kind.remote()

    def close(self) -> None:
        """End the actor at once, even while it runs a node."""
        self._is_closed = True
        ray.kill(self._actor)


def _client_app(folder: str) -> ClientCall:
    """Return the function that an actor calls with a message: the client app, whose exceptions become replies."""
    flower.enter_run()
    flower.log_as_we_do()
    objects.look_in(folder)
    app = load_client_app()
    return lambda message, context: handled(app, message, context)


def _getting_ready(settings: dict[str, Any]) -> Any:
    """Return the function that an actor calls without a message, which loads data and model before round 1."""
    return lambda message, context: _get_ready(settings)


def _get_ready(settings: dict[str, Any]) -> tuple[dict[str, str], tuple[str, int] | None]:
    """Return this machine's versions; and (reason, exit code) where it cannot run clients, else None."""
    objects.look_in(settings.get("out", ""))
    try:
        load_client_app()
        loaded(from_flower(settings))
    except FedlearnError as error:
        return versions(), (str(error), error.exit_code)
    return versions(), None


def started(settings: dict[str, Any], *, at_most: int, cpus: float, gpus: float) -> list[ClientActor]:
    """Return the actors that are ready: as many as fit the cluster, but no more than `at_most`.

    Parameters
    ----------
    cpus, gpus
        What Ray reserves for each of them.
    """
    count = min(capacity(cpus, gpus), at_most)
    actors = [ClientActor(cpus=cpus, gpus=gpus) for _ in range(count)]
    promises = {actor.get_ready(settings): actor for actor in actors}
    ready, missing = ray.wait(list(promises), num_returns=count, timeout=START_PATIENCE)
    for promise in missing:
        promises[promise].close()
    for promise in ready:
        _check(promise)
    if not ready:
        raise RunFailed(f"no client could be started on the Ray cluster within {START_PATIENCE:g} s: is it busy?")
    if missing:
        log.warning("%d of %d Ray actors have not started: the cluster is busy", len(missing), count)
    return [promises[promise] for promise in ready]


def _check(promise: Any) -> None:
    """Raise UsageError or RunFailed for a machine that cannot run clients, or has other versions."""
    try:
        _, (theirs, why_not), _ = ray.get(promise)
    except RayError as error:
        raise RunFailed(f"a machine of the Ray cluster cannot run clients: {cause_of(error)}") from None
    if why := why_unequal(versions(), theirs):
        raise UsageError(why)
    if why_not:
        text, exit_code = why_not
        raise error_of(exit_code, text)


def capacity(cpus: float, gpus: float) -> int:
    """Return how many clients fit the cluster at once, each within one machine; raise UsageError if none does."""
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    count = sum(fitting(machine, cpus, gpus) for machine in machines)
    if not count:
        have = "; ".join(f"{m.get('CPU', 0):g} CPUs, {m.get('GPU', 0):g} GPUs" for m in machines)
        what = f"engine.options.client_cpus = {cpus:g}, engine.options.client_gpus = {gpus:g}"
        raise UsageError(f"{what}: no machine has so many for a client; there are: {have}")
    return count


def fitting(machine: dict[str, float], cpus: float, gpus: float) -> int:
    """Return how many clients fit a machine with these resources at once."""
    by_cpus = machine.get("CPU", 0) // cpus
    by_gpus = machine.get("GPU", 0) // gpus if gpus else math.inf
    return int(min(by_cpus, by_gpus))
