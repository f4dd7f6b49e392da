"""Runs, contexts and messages of Flower, made outside its own runtime."""

from __future__ import annotations

import os
import time
import warnings
from itertools import count
from typing import Any
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict
from flwr.app.constants import DEFAULT_TTL
from flwr.app.metadata import Metadata  # needed to name our own message ids
from flwr.supercore.run import Run  # `Grid.run` must return one
from flwr.supercore.task_identity import TaskIdentity  # Message() reads it for its sender

SERVER_NODE_ID = 1
RUN_ID = 1


class _Ids:
    """Unique ids of messages: a random part of the process, and a number, which is ten times faster than all random."""

    def __init__(self) -> None:
        self.begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.begin)

    def begin(self) -> None:
        self._process, self._numbers = uuid4().hex, count()

    def next(self) -> str:
        return f"{self._process}-{next(self._numbers)}"


_ids = _Ids()


def enter_run() -> None:
    """Set Flower's identity of this process, so that ``Message(content, node, type)`` works outside its own runtime."""
    TaskIdentity.run_id = RUN_ID
    TaskIdentity.node_id = SERVER_NODE_ID
    TaskIdentity.task_id = 1


def empty_run() -> Run:
    """Return the value of `Grid.run` outside Flower's own runtime."""
    return Run.create_empty(RUN_ID)


def server_context(run_config: dict[str, bool | int | float | str]) -> Context:
    """Return the context of a ServerApp that fedlearn's own engine starts."""
    return Context(RUN_ID, SERVER_NODE_ID, {}, RecordDict(), run_config)


def with_id(message: Message, name: str = "") -> Message:
    """Give a message the id `name`, or a new one, as Flower's own transports do; there is no public setter."""
    message.metadata.__dict__["_message_id"] = name or _ids.next()
    return message


def message_to(content: RecordDict, node_id: int, message_type: str, *, ttl: float = DEFAULT_TTL) -> Message:
    """Return ``Message(content, node_id, message_type, ttl=ttl)``, without the constructor's checks of types."""
    metadata = Metadata(
        run_id=TaskIdentity.run_id,
        message_id="",
        src_node_id=TaskIdentity.node_id,
        dst_node_id=node_id,
        reply_to_message_id="",
        group_id="",
        created_at=time.time(),
        ttl=ttl,
        message_type=message_type,
        src_task_id=TaskIdentity.task_id,
    )
    return _message(metadata, content, None)


def received(content: RecordDict, *, node_id: int, message_type: str, message_id: str, ttl: float) -> Message:
    """Return a message of the server as the node receives it."""
    metadata = Metadata(
        run_id=RUN_ID,
        message_id=message_id,
        src_node_id=SERVER_NODE_ID,
        dst_node_id=node_id,
        reply_to_message_id="",
        group_id="",
        created_at=time.time(),
        ttl=ttl,
        message_type=message_type,
    )
    return _message(metadata, content, None)


def reply_from(
    *, node_id: int, message_type: str, reply_to: str, content: RecordDict | None, error: Error | None
) -> Message:
    """Return a node's reply as the server receives it."""
    metadata = Metadata(
        run_id=RUN_ID,
        message_id=_ids.next(),
        src_node_id=node_id,
        dst_node_id=SERVER_NODE_ID,
        reply_to_message_id=reply_to,
        group_id="",
        created_at=time.time(),
        ttl=60.0,
        message_type=message_type,
    )
    return _message(metadata, content, error)


def readdressed(reply: Message, *, reply_to: str) -> Message:
    """Make a reply answer the message of another id, by which the server knows it; there is no public setter."""
    reply.metadata.__dict__["_reply_to_message_id"] = reply_to
    return reply


def _message(metadata: Metadata, content: RecordDict | None, error: Error | None) -> Message:
    """Return a message with given metadata, as Flower's own transports make it, without the constructor's checks."""
    metadata.delivered_at = ""
    message = Message.__new__(Message)
    message.__dict__.update(_metadata=metadata, _content=content, _error=error)
    return message


def client_actor() -> Any:
    """Return the Ray actor class in which Flower's Simulation Runtime runs clients; imports Ray.

    Its ``run(client_app_fn, message, partition_id, context)`` returns (partition_id, reply, context). No public name
    leads to it: `flwr.simulation` has only `run_simulation`, which is deprecated and takes no settings.
    """
    with warnings.catch_warnings():  # Flower's import makes Python show every later deprecation
        from flwr.simulation.ray_transport.ray_actor import ClientAppActor
    return ClientAppActor
