"""Calls of a client app for virtual nodes: each with a context of its own, whose failures become replies."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from flwr.app import Context, Error, Message, RecordDict

from fedlearn import flower, wire
from fedlearn.config.policy import SIMULATED
from fedlearn.config.tables.running_settings import DEVICE_SETTING
from fedlearn.core.errors import said
from fedlearn.flower import ErrorCode
from fedlearn.plugins.tracebacks import shortened
from fedlearn.runs.kept_tracebacks import keep

FIRST_NODE_ID = 2  # Flower's server is node 1
ClientCall = Callable[[Message, Context], Message]
Many = Callable[[Sequence[tuple[Message, Context]]], Iterator[Message | BaseException]]

log = logging.getLogger(__name__)


def partition_of(node_id: int) -> int:
    """Return the partition that a virtual node holds."""
    return node_id - FIRST_NODE_ID


def run_node(
    client_app: ClientCall, message: Message, kept: bytes, *, num_nodes: int, settings: dict[str, Any]
) -> tuple[Message, bytes]:
    """Let a virtual node handle a message; return its reply, and its memory afterwards.

    A node that fails keeps the memory that it had written until then; or its old memory, where memory cannot be read
    or stored.
    """
    try:
        context = context_of(message.metadata.dst_node_id, kept, num_nodes=num_nodes, settings=settings)
        reply = handled(client_app, message, context)
        return reply, kept_in(context)
    except Exception as error:
        return _failed(message, error, str(settings.get("out", ""))), kept


def run_nodes(
    handle_many: Many, messages: Sequence[tuple[Message, bytes]], *, num_nodes: int, settings: dict[str, Any]
) -> Iterator[tuple[Message, bytes]]:
    """Let several virtual nodes handle a message each, together; yield a reply and a memory for each, as `run_node`.

    Parameters
    ----------
    messages
        A message to each node, with the node's memory.
    """
    process = os.getpid()
    contexts: list[Context | Exception] = []
    for message, kept in messages:
        try:
            node = message.metadata.dst_node_id
            contexts.append(context_of(node, kept, num_nodes=num_nodes, settings=settings))
        except Exception as error:
            contexts.append(error)
    calls = [
        (message, context)
        for (message, _), context in zip(messages, contexts, strict=True)
        if isinstance(context, Context)
    ]
    replies = handle_many(calls)
    folder = str(settings.get("out", ""))
    for (message, kept), context in zip(messages, contexts, strict=True):
        if not isinstance(context, Context):
            yield _failed(message, context, folder), kept
            continue
        try:
            reply = next(replies)
        finally:
            if os.getpid() != process:  # the child of a client that forks ends here
                os._exit(1)
        try:
            yield _sound(message, reply, folder), kept_in(context)
        except Exception as error:
            yield _failed(message, error, folder), kept


def context_of(node_id: int, kept: bytes, *, num_nodes: int, settings: dict[str, Any]) -> Context:
    """Return the context with which a virtual node's client app is called."""
    return Context(
        run_id=flower.RUN_ID,
        node_id=node_id,
        node_config={"partition-id": partition_of(node_id), "num-partitions": num_nodes, **_known_to_ours(settings)},
        state=flower.from_bytes(kept) if kept else RecordDict(),
        run_config=settings,
    )


def _known_to_ours(settings: Mapping[str, Any]) -> dict[str, str | bool]:
    """Return the entries of the node config that name device and simulation; empty for a foreign app."""
    return {"device": settings[DEVICE_SETTING], SIMULATED: True} if DEVICE_SETTING in settings else {}


def kept_in(context: Context) -> bytes:
    """Return a node's memory, after its client app was called."""
    return flower.to_bytes(context.state) if context.state else b""


def handled(client_app: ClientCall, message: Message, context: Context) -> Message:
    """Return the client app's reply; Flower's error where it raises, asks to exit, or its reply cannot be sent.

    This is the edge of a node: any exception but Ctrl-C is the node's failure, not the run's. A client that forks
    returns twice: the child process ends here, as everything else belongs to its parent.
    """
    process = os.getpid()
    folder = str(context.run_config.get("out", ""))
    reply: object
    try:
        reply = client_app(message, context)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        reply = error
    finally:
        if os.getpid() != process:
            os._exit(1)
    return _sound(message, reply, folder)


def _sound(message: Message, reply: object, folder: str) -> Message:
    """Return a reply that can be sent; an error in place of an exception, or of a reply that cannot be sent."""
    try:
        if isinstance(reply, BaseException):
            raise reply
        if not isinstance(reply, Message):
            raise TypeError(f"the client app answered with {type(reply).__name__}, not with a Message")
        if reply.has_content():
            wire.bytes_of(reply.content)  # raises where a record cannot be serialised
        return reply
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return _failed(message, error, folder)


_logged: set[tuple[str, str, int]] = set()  # errors that this process has logged: kind, file, line


def _failed(message: Message, error: BaseException, folder: str) -> Message:
    """Return the reply for a node's exception that is being handled; of equal failures, the first is logged."""
    node_id = message.metadata.dst_node_id
    reason = shortened(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    kind = (type(error).__name__, last.filename, last.lineno or 0)
    if kind not in _logged:
        _logged.add(kind)
        about = (node_id, partition_of(node_id), message.metadata.message_type)
        kept = keep(error, folder)
        log.error("node=%d partition=%d type=%s: %s%s", *about, said(reason), kept, exc_info=None if kept else error)
    return error_reply(message, ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason)


def error_reply(message: Message, code: int, reason: str) -> Message:
    """Return a node's reply with an error."""
    return Message(Error(code, reason), reply_to=message)
