"""Grids of all engines over a small client app, which does what the messages say."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from fedlearn.engine.apps import load_client_app
from fedlearn.engine.embedded import forkserver
from fedlearn.engine.embedded.embedded_grid import EmbeddedGrid
from fedlearn.engine.embedded.pool import WorkerPool
from fedlearn.engine.embedded.tasks import Begin
from fedlearn.engine.embedded.worker import work
from fedlearn.engine.inline import InlineGrid
from fedlearn.engine.node_calls import handled
from fedlearn.engine.ray_runtime.runner_grid import RunnerDied, RunnerGrid

collect_ignore = ["plugins"]

NODES = 20
SETTINGS = {"greeting": "hello"}
SMALL_APP = "small_app:app"


@pytest.fixture(scope="session", autouse=True)
def plugins() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parent / "plugins")
        yield


@pytest.fixture
def pool_of() -> Iterator[Callable[..., WorkerPool]]:
    """Make pools of workers that run the small app; they are closed after the test."""
    made: list[WorkerPool] = []

    def pool_of(size: int, *, client_app: str = SMALL_APP, start_method: str = "forkserver", **environment: str):
        forkserver.start()
        begin = Begin(SETTINGS, NODES, {**os.environ, **environment}, client_app)
        made.append(WorkerPool(size, begin, work, start_method=start_method))
        return made[-1]

    yield pool_of
    for pool in made:
        pool.close()


@pytest.fixture
def embedded(pool_of) -> EmbeddedGrid:
    return EmbeddedGrid(pool_of(2), NODES, SETTINGS)


@pytest.fixture
def inline() -> InlineGrid:
    return InlineGrid(load_client_app(SMALL_APP), NODES, SETTINGS)


class LocalRunner:
    """Runs nodes in this process, on copies, as an actor gets them; imitates what would end or block an actor."""

    def run(self, message, context, *, seconds):
        message, context = pickle.loads(pickle.dumps((message, context)))
        do = message.content.config_records["config"].get("do", "")
        if do == "exit":
            raise RunnerDied("gone")
        if do == "hang":
            time.sleep(seconds)
            raise TimeoutError
        return handled(load_client_app(SMALL_APP), message, context), context

    def close(self):
        pass


@pytest.fixture
def threads() -> Iterator[RunnerGrid]:
    """The ray engine's grid, without Ray."""
    grid = RunnerGrid([LocalRunner(), LocalRunner()], NODES, SETTINGS)
    yield grid
    grid.close()


@pytest.fixture(params=["embedded", "inline", "threads"])
def grid(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def ask() -> Callable[..., Message]:
    """Make a query that has a node do something."""

    def ask(node_id: int, do: str = "", *, ttl: float | None = None, **records: object) -> Message:
        return Message(RecordDict({"config": ConfigRecord({"do": do}), **records}), node_id, "query", ttl=ttl)

    return ask
