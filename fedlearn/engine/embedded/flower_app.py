"""Any Flower App on the embedded engine: its own ServerApp, strategy and ClientApp, unchanged.

The nodes run in the workers of fedlearn's own runs, where ``flwr run`` uses Ray. The round protocol, the gate and the
run folder belong to fedlearn's ServerApp: a foreign ServerApp has its own loop, and none of these.

Python's, NumPy's and torch's generators begin where the seed puts them: once for the server app, and for each message
to a node by (node, number of its messages before). Messages have names instead of random ids, and replies come in the
order of the messages, whatever the workers did first. So the same seed gives the same bytes, with any number of
workers, if the app draws from these generators, or from others that it seeds itself.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flwr.app import ArrayRecord, Message
from flwr.serverapp import ServerApp

from fedlearn import flower
from fedlearn.core.clock import WallClock
from fedlearn.core.errors import FedlearnError, RunFailed
from fedlearn.core.seeding import seed_for
from fedlearn.engine.apps import IMPORTING, load_app
from fedlearn.engine.embedded.embedded_grid import EmbeddedGrid
from fedlearn.engine.embedded.forkserver import start
from fedlearn.engine.embedded.pool import WorkerPool
from fedlearn.engine.embedded.tasks import Begin
from fedlearn.engine.embedded.worker import work
from fedlearn.engine.processes import ONE_THREAD, default_size
from fedlearn.flower.flower_apps import FlowerApp
from fedlearn.plugins.generators import seeded_globals

THREADED = (
    "its server app sends from several threads, as Flower's older kind (server_fn) does, and adds replies in no fixed "
    "order: not reproducible"
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AppResult:
    """The result of a run of a foreign app, as far as the engine sees it.

    Parameters
    ----------
    arrays_sha256
        SHA-256 of all arrays that nodes have sent, in order: equal for two runs of the same bytes; empty without any.
    failed
        How many messages were answered with an error.
    why_failed
        The reason of the first such error.
    notice
        Why the run is not reproducible; empty if no reason is known.
    """

    messages: int
    failed: int
    why_failed: str
    seconds: float
    arrays_sha256: str
    notice: str


def run_app(app: FlowerApp, *, clients: int, seed: int, workers: int = 0) -> AppResult:
    """Run an app to its end.

    Raises
    ------
    UsageError
        If the app cannot be loaded.
    RunFailed
        If the server app raises; the traceback is logged.
    """
    clock = WallClock()
    begun = clock.now()
    flower.enter_run()
    flower.log_by_itself()
    start()
    with seeded_globals(seed_for(seed, purpose=IMPORTING)):
        server_app = load_app(app.server, ServerApp, folder=app.folder)
    size = min(workers or default_size(), clients)
    begin = Begin(app.run_config, clients, dict(os.environ) | ONE_THREAD, app.client, str(app.folder), seed)
    pool = WorkerPool(size, begin, work)
    grid = AppGrid(pool, clients, app.run_config)
    try:
        with seeded_globals(seed_for(seed, purpose="server app")):
            server_app(grid, flower.server_context(app.run_config))
    except FedlearnError:
        raise
    except Exception as error:
        log.exception("%s", app.server)
        raise RunFailed(f"{app.server} raised {type(error).__name__}: {' '.join(str(error).split())}") from None
    finally:
        pool.close()
        grid.close()
    notice = THREADED if grid.is_threaded else ""
    return AppResult(grid.messages, grid.failed, grid.why_failed, clock.now() - begun, grid.arrays_sha256, notice)


class AppGrid(EmbeddedGrid):
    """The grid of a foreign app: messages are named, replies ordered, and any thread may send."""

    messages_in_task = 1  # training takes long: each worker gets the next node when it is free

    def __init__(self, pool: WorkerPool, num_nodes: int, settings: dict[str, Any]) -> None:
        super().__init__(pool, num_nodes, settings)
        self.messages = self.failed = 0
        self.why_failed = ""
        self.is_threaded = False
        self._main = threading.get_ident()
        self._lock = threading.Lock()
        self._sent: Counter[int] = Counter()  # messages by node
        self._arrays, self._has_arrays = hashlib.sha256(), False

    @property
    def arrays_sha256(self) -> str:
        """The SHA-256 of all arrays that nodes have sent so far; empty if they have sent none."""
        return self._arrays.hexdigest() if self._has_arrays else ""

    def named(self, message: Message) -> Message:
        """Name a message by its node and the number of the node's messages before."""
        node_id = message.metadata.dst_node_id
        self._sent[node_id] += 1
        return flower.with_id(message, f"{node_id}/{self._sent[node_id]}")

    def _push(self, messages: Iterable[Message], *, seconds: float) -> list[str]:
        sent = list(messages)  # before the lock: a strategy may make them lazily, and ask the grid meanwhile
        with self._lock:
            self.is_threaded |= threading.get_ident() != self._main
            self.messages += len(sent)
            return super()._push(sent, seconds=seconds)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies to these messages in the order of their ids, each once."""
        with self._lock:
            replies = list(super().pull_messages(message_ids))
            for reply in replies:
                self._count(reply)
            return replies

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Deliver the messages; return the replies within `timeout` seconds, in the order of the messages."""
        return self.pull_messages(self._push(messages, seconds=math.inf if timeout is None else timeout))

    def _count(self, reply: Message) -> None:
        if reply.has_error():
            self.failed += 1
            self.why_failed = self.why_failed or f"client {reply.metadata.src_node_id}: {reply.error.reason}"
            return
        for record in flower.records_of(reply.content, ArrayRecord):
            for name, array in record.items():
                self._has_arrays = True
                self._arrays.update(name.encode())
                self._arrays.update(array.data)
