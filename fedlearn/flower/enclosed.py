"""Parts of small messages, enclosed in the request or answer that announces the message.

Flower announces a message with the names of its parts, and sends each part by a request of its own: a node's question
and answer of some hundred bytes take nine requests. Here the parts travel with the announcement where they are small
together; others are sent as Flower sends them. An announcement is Flower's protobuf message with one field more, which
a program that does not know the field passes over: programs with and without it understand each other.

A part that came enclosed is stored by Flower's own call, as any other part of an announced message.

Written for flwr 1.41.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from hashlib import sha256
from typing import Any

from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.message_pb2 import ObjectTree, PullObjectRequest, PullObjectResponse, PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from starlette.exceptions import HTTPException

SMALL = 1 << 20  # bytes of all parts in one request or answer
FIELD = 7001  # number of the field; Flower's own are below 20


def _message_of_parts() -> Any:
    """Return the protobuf message ``{map<string, bytes> parts = 7001}``."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="fedlearn/enclosed.proto", package="fedlearn", syntax="proto3")
    enclosed = file.message_type.add(name="Enclosed")
    entry = enclosed.nested_type.add(name="PartsEntry", options=descriptor_pb2.MessageOptions(map_entry=True))
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=kinds.TYPE_BYTES, label=kinds.LABEL_OPTIONAL)
    parts = enclosed.field.add(name="parts", number=FIELD, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_REPEATED)
    parts.type_name = ".fedlearn.Enclosed.PartsEntry"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("fedlearn.Enclosed"))


_Enclosed = _message_of_parts()


def enclose(announcement: Any, parts: Mapping[str, bytes]) -> Any:
    """Return a copy of a request or answer with parts, by name; a request that is tried again is enclosed again."""
    return type(announcement).FromString(announcement.SerializeToString() + _Enclosed(parts=parts).SerializeToString())


def enclosed_in(announcement: Any) -> dict[str, bytes]:
    """Return the parts in a request or answer, by name; `DecodeError` if they cannot be read."""
    return dict(_Enclosed.FromString(announcement.SerializeToString()).parts)


def small(parts: Iterable[tuple[str, bytes]], room: int = SMALL) -> dict[str, bytes]:
    """Return the first parts, as many as fit into `room` bytes together; of the others one at most is read.

    >>> small([("a", b"1"), ("b", bytes(SMALL)), ("c", b"2")])
    {'a': b'1'}
    """
    found: dict[str, bytes] = {}
    for name, content in parts:
        room -= len(content)
        if room < 0:
            break
        found[name] = content
    return found


def names_in(tree: ObjectTree) -> list[str]:
    """Return the names of all parts of a message, each once: its own first, those of arrays last."""
    return list(dict.fromkeys(part.object_id for part in iterate_object_tree(tree)))[::-1]


# --- in a SuperLink ---------------------------------------------------------------------------------------------------


def storing_enclosed(push_messages: Callable[..., Any], push_object: Callable[..., Any]) -> Callable[..., Any]:
    """Return Flower's call that takes announcements, followed by its call for each enclosed part that it asks for.

    Message and parts are stored in one transaction. Parts that are not announced, or have another content than their
    name says, are left out: Flower's answer asks for the latter again.
    """

    def push_all(request: Any, state: Any, *task: Any) -> Any:
        try:
            parts = enclosed_in(request)
        except DecodeError:
            raise HTTPException(400, "the enclosed parts cannot be read") from None
        transaction: AbstractContextManager[Any] = state.session()
        with transaction:
            response = push_messages(request, state, *task)
            given = {"session_id": response.session_id, "run_id": request.messages_list[0].metadata.run_id}
            given["node"] = getattr(request, "node", Node(node_id=SUPERLINK_NODE_ID))
            wanted = list(response.objects_to_push)
            del response.objects_to_push[:]
            for name in wanted:
                content = parts.get(name, b"")
                part = PushObjectRequest(object_id=name, object_content=content, **given)
                if sha256(content).hexdigest() != name or not push_object(part, state, *task).stored:
                    response.objects_to_push.append(name)
        return response

    return push_all


def enclosing(pull_messages: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap Flower's call that answers with announcements: the first parts that are stored, if small, are enclosed."""

    def pull_all(request: Any, state: Any, *more: Any, **named: Any) -> Any:
        response = pull_messages(request, state, *more, **named)
        if response.messages_list:
            run_id = response.messages_list[0].metadata.run_id
            parts: dict[str, bytes] = {}
            for tree in response.message_object_trees:
                stored = ((name, state.get_object(run_id, name)) for name in names_in(tree) if name not in parts)
                room = SMALL - sum(map(len, parts.values()))
                parts |= small(((name, content) for name, content in stored if content), room)
            if parts and hasattr(request, "node"):  # as Flower counts what nodes pull
                state.store_traffic(run_id, bytes_sent=sum(map(len, parts.values())), bytes_recv=0)
            return enclose(response, parts)
        return response

    return pull_all


# --- in a SuperNode ---------------------------------------------------------------------------------------------------


def enclose_in_supernode(supernode: Any, client: Any) -> None:
    """Patch Flower's SuperNode: it asks for no part that came enclosed, and encloses small parts of its answers.

    A message whose small parts are enclosed is whole when it comes, also one that Flower's loop then gives up, as its
    run has ended: `one_at_a_time` takes care that such a message is not worked on.

    Parameters
    ----------
    supernode
        The module of its loop, which has ``_push_messages``.
    client
        The class of its calls to the SuperLink.
    """
    pull_messages, pull_object, push_messages = client.PullMessages, client.PullObject, client.PushMessages
    push = supernode._push_messages
    come: dict[str, bytes] = {}  # parts of the last message
    store: Any = None  # Flower's object store, which has the client's answer

    def pull_and_open(self: Any, request: Any) -> Any:
        nonlocal come
        response = pull_messages(self, request)
        come = enclosed_in(response)
        return response

    def pull_or_take(self: Any, request: PullObjectRequest) -> PullObjectResponse:
        content = come.pop(request.object_id, None)
        if content is None:
            response: PullObjectResponse = pull_object(self, request)
            return response
        return PullObjectResponse(object_found=True, object_available=True, object_content=content)

    def push_from(**given: Any) -> None:
        nonlocal store
        store = given["object_store"]
        push(**given)

    def push_enclosed(self: Any, request: Any) -> Any:
        names = names_in(request.message_object_trees[0])  # all are there: see `one_at_a_time`
        parts = small((name, content) for name in names if (content := store.get(name)))
        return push_messages(self, enclose(request, parts))

    supernode._push_messages = push_from
    client.PullMessages, client.PullObject, client.PushMessages = pull_and_open, pull_or_take, push_enclosed
