"""The messages and replies of a deployment's nodes, one by one where a request for all of them fails.

Flower's own ``pull_messages`` raises for all replies where one reply cannot be read, and waits for the parts of each
reply in turn, minutes if they never come. Here a reply is read in a thread of its own: a reply that cannot be read is
its node's failure, and an incomplete reply delays no other. Where the SuperLink fails over a request for many messages
or replies, each gets a request of its own, so that the failure is one node's loss.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from threading import Thread
from typing import Any, TypeVar

import httpx
from flwr.app import Error, Message
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
from flwr.proto.runtime_pb2 import PullAppMessagesRequest
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, no_object_id_recompute
from flwr.supercore.inflatable.inflatable_protobuf_utils import make_pull_object_fn_protobuf
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError, inflate_object_from_contents, pull_objects

from fedlearn.flower.enclosed import SMALL, enclose, enclosed_in, names_in, small
from fedlearn.flower.messages import reply_from

PATIENCE = 0.5  # seconds that a pull waits for replies that are on their way
UNREADABLE = 3  # Flower's error code for a message that is not available
OF_THE_MESSAGE = frozenset({400, 409, 413, 422, 500})  # statuses that blame the request, not its sender

log = logging.getLogger(__name__)
T = TypeVar("T")
A = TypeVar("A")


def push(grid: Grid, messages: Sequence[Message]) -> list[str]:
    """Send messages; return their ids, empty for messages that could not be sent."""
    network: Any = grid

    def to_nodes(some: Sequence[Message]) -> list[str]:
        with no_object_id_recompute(), _enclosing(network._runtime_client, some):
            ids = list(grid.push_messages(some))
        if len(ids) != len(some):  # Flower returns no ids where the messages are too large together
            raise _TooLarge("too large")
        return [message_id or "" for message_id in ids]

    return _each_if_not_all(to_nodes, messages, "", lambda message: f"to node {message.metadata.dst_node_id}")


@contextmanager
def _enclosing(client: Any, messages: Iterable[Message]) -> Iterator[None]:
    """Have a client of the SuperLink enclose the parts of messages in what it announces, the small ones first."""
    objects = {name: part for message in messages for name, part in get_all_nested_objects(message).items()}
    contents = ((name, part.deflate()) for name, part in objects.items())
    fitting = [(name, content) for name, content in contents if len(content) <= SMALL]
    parts = small(sorted(fitting, key=lambda part: len(part[1])))
    announce = client.PushMessages

    def enclosed(request: Any) -> Any:
        return announce(enclose(request, parts))

    client.PushMessages = enclosed
    try:
        yield
    finally:
        del client.PushMessages


class _TooLarge(Exception):
    """Flower has sent no message, as all messages together are too large."""


def _each_if_not_all(
    ask: Callable[[Sequence[A]], list[T]], arguments: Sequence[A], otherwise: T, what: Callable[[A], str]
) -> list[T]:
    """Return the answers to a request for all arguments; if that fails, to one for each, `otherwise` where it fails."""
    try:
        return ask(arguments)
    except (httpx.HTTPStatusError, ObjectPushError, _TooLarge) as error:
        if isinstance(error, httpx.HTTPStatusError) and error.response.status_code not in OF_THE_MESSAGE:
            raise  # the run was stopped, or this app may no longer speak for it
        if len(arguments) > 1:
            return [answer for each in arguments for answer in _each_if_not_all(ask, [each], otherwise, what)]
        log.warning("the SuperLink did not take a message %s: %s", what(arguments[0]), str(error)[:300])
        return [otherwise]


class Replies:
    """The replies that a SuperLink has announced, each read in a thread of its own.

    Parameters
    ----------
    grid
        Flower's grid of a deployment, from which replies and their parts are requested.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid: Any = grid
        self._coming: dict[str, Future[Message]] = {}  # by the id of the message that is answered

    def pull(self, message_ids: Iterable[str]) -> list[Message]:
        """Return the replies to these messages that have arrived, each once."""
        wanted = list(message_ids)
        self._begin([message_id for message_id in wanted if message_id not in self._coming])
        coming = {key: self._coming[key] for key in wanted if key in self._coming}
        wait(coming.values(), timeout=PATIENCE)
        come = {key: future for key, future in coming.items() if future.done()}
        for key in come:
            del self._coming[key]
        return [future.result() for future in come.values()]

    def _begin(self, message_ids: Sequence[str]) -> None:
        """Begin to read the replies that have been announced."""
        if not message_ids:
            return

        def announced(some: Sequence[str]) -> list[Any]:
            answer = self._grid._runtime_client.PullMessages(PullAppMessagesRequest(message_ids=some))
            come = enclosed_in(answer)
            return [(*each, come) for each in zip(answer.messages_list, answer.message_object_trees, strict=True)]

        for about, *parts in filter(None, _each_if_not_all(announced, message_ids, None, "about {}".format)):
            future: Future[Message] = Future()
            self._coming[about.metadata.reply_to_message_id] = future
            Thread(target=self._read_into, args=(future, about, *parts), daemon=True).start()

    def _read_into(self, future: Future[Message], about: Any, tree: Any, come: Mapping[str, bytes]) -> None:
        try:
            future.set_result(self._read(about.metadata, tree, come))
        except Exception as error:  # any error in reading foreign bytes is that node's failure
            reason = f"its reply cannot be read: {type(error).__name__}: {str(error)[:300]}"
            metadata = about.metadata
            future.set_result(
                reply_from(
                    node_id=metadata.src_node_id, message_type=metadata.message_type,
                    reply_to=metadata.reply_to_message_id, content=None, error=Error(UNREADABLE, reason),
                )
            )  # fmt: skip

    def _read(self, metadata: Any, tree: Any, come: Mapping[str, bytes]) -> Message:
        """Wait for the parts of one reply that were not enclosed (`come`: name -> content), and return the reply."""
        client, node, run_id = self._grid._runtime_client, self._grid.node, self._grid.run.run_id
        names = names_in(tree)
        pull = make_pull_object_fn_protobuf(pull_object_protobuf=client.PullObject, node=node, run_id=run_id)
        contents = {name: come[name] for name in names if name in come}
        contents |= pull_objects([name for name in names if name not in come], pull)
        client.ConfirmMessageReceived(
            ConfirmMessageReceivedRequest(node=node, run_id=run_id, message_object_id=metadata.message_id)
        )
        message = inflate_object_from_contents(metadata.message_id, contents)
        if not isinstance(message, Message):
            raise TypeError(f"it is a {type(message).__name__}, expected a Message")
        # The SuperLink has checked the sender and the answered message; the reply's own bytes may name any.
        message.metadata.__dict__["_message_id"] = metadata.message_id
        message.metadata.__dict__["_reply_to_message_id"] = metadata.reply_to_message_id
        message.metadata.__dict__["_src_node_id"] = metadata.src_node_id
        return message
