"""Flower's SuperLink with middleware before its Fleet API, and with nodes that send in their own names only.

Written for flwr 1.41. Flower compares the key of a request with the node that the request names, but not with the
sender that a message in it names: a node could answer for another, or send instructions as if it were the server. And
Flower stores as many names and sessions as a node announces, and any value in place of a time. `missing` says what
Flower has moved; Flower's own command is run in that case.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from logging import WARNING
from threading import Lock
from typing import Any

import fedlearn.flower  # noqa: F401, it sets Flower's switches before anything of it is imported
from fedlearn.flower.unary import answer_in_one_piece

try:
    from flwr.common.constant import SYSTEM_TIME_TOLERANCE, TIMESTAMP_HEADER, TIMESTAMP_TOLERANCE
    from flwr.proto.fleet_pb2 import PullMessagesResponse, PushMessagesResponse
    from flwr.server.superlink.linkstate.sql_linkstate import SqlLinkState
    from flwr.supercore import log, sql_mixin
    from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
    from flwr.supercore.corestate.sql_corestate import SqlCoreState
    from flwr.supercore.date import now
    from flwr.supercore.primitives.asymmetric import bytes_to_public_key, verify_signature
    from flwr.supercore.state.schema.linkstate_models import MessageIns
    from flwr.superlink import extensions
    from flwr.superlink.cli.flower_superlink import flower_superlink
    from flwr.superlink.dependencies.linkstate import get_linkstate
    from flwr.superlink.servicer.fleet import fleet_handlers
    from flwr.superlink.servicer.runtime import runtime_handlers
    from sqlalchemy import select
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.requests import Request

    from fedlearn.flower.enclosed import enclosing, storing_enclosed
    from fedlearn.flower.object_store import NAME, keep_trees_whole

    wanted = [
        (extensions, "get_middleware"), (fleet_handlers, "push_messages"), (fleet_handlers, "push_object"),
        (SqlLinkState, "_cleanup_push_session"), (sql_mixin, "SQLITE_PRAGMAS"),
        (SqlCoreState, "_cleanup_expired_task_tokens"), (fleet_handlers, "pull_messages"),
        (runtime_handlers, "push_messages"), (runtime_handlers, "pull_messages"), (runtime_handlers, "push_object"),
    ]  # fmt: skip
    missing = ", ".join(name for module, name in wanted if not hasattr(module, name))
except (ImportError, AttributeError) as error:  # Flower has moved something
    missing = str(error)

FLEET = "/v1/fleet/"
NODE_ASKS, SERVER_SENDS = f"{FLEET}pull-messages", "/v1/runtime/push-messages"
OPEN_TO_STRANGERS = (f"{FLEET}register-node", f"{FLEET}activate-node")
"""Calls that an unregistered node may make; Flower's answers say how to register."""

MOST_RECORDS = 64  # records of a reply; `server/gate/gate.py` takes no more
MOST_PARTS = 1024  # parts of a reply, of all levels: pieces of arrays are 5 MiB
PATIENCE = 60_000  # milliseconds that a call waits for the database while others write; Flower's fail after 5,000
LONGEST_WORK = 1e7  # seconds of work that a node may claim for a reply
TOO_LATE = "Node %d answered %.1f s too late: no round waits for its answer to a %s message of run %d"
EXPIRY = 1.0  # seconds between searches for tasks whose process has vanished, which Flower makes at every request


def headers_of_node() -> tuple[str, str, str]:
    """Return the names of the headers by which a node signs: public key, time, signature of the time."""
    return FLEET_HTTP_PUBLIC_KEY_HEADER, TIMESTAMP_HEADER, FLEET_HTTP_SIGNATURE_HEADER


def longest_life() -> float:
    """Return for how many seconds Flower accepts a signed time."""
    return float(TIMESTAMP_TOLERANCE + 2 * SYSTEM_TIME_TOLERANCE)


def age_of(signed_at: str) -> float:
    """Return the seconds since a signed time; raise ValueError or TypeError for a time that Flower does not accept."""
    age = float((now() - datetime.fromisoformat(signed_at)).total_seconds())
    if not -SYSTEM_TIME_TOLERANCE < age < TIMESTAMP_TOLERANCE + SYSTEM_TIME_TOLERANCE:
        raise ValueError("it was signed too long ago, or lies in the future")
    return age


def is_signed_by(public_key: bytes, text: str, signature: bytes) -> bool:
    """Return whether a signature is that of a key; raise ValueError for an invalid key."""
    return bool(verify_signature(bytes_to_public_key(public_key), text.encode("ascii"), signature))


def is_registered(scope: Any, public_key: bytes) -> bool:
    """Return whether a node with this key is registered; every node is where the SuperLink asks for no keys."""
    request = Request(scope)
    if not request.app.state.enable_supernode_auth:
        return True
    return get_linkstate(request).get_node_id_by_public_key(public_key) is not None


def only_own_replies(request: Any) -> None:
    """Refuse a request that is not one reply, in the name of the node that sends it, with the parts of a reply.

    The whole request is checked before the SuperLink's database is asked.
    """
    if len(request.messages_list) != 1 or len(request.message_object_trees) != 1:
        raise HTTPException(400, "a node sends one reply at a time, and the names of its parts")
    (message,), (parts,) = request.messages_list, request.message_object_trees
    about = message.metadata
    if about.src_node_id != request.node.node_id or not about.reply_to_message_id:
        raise HTTPException(403, "a node replies, and in its own name")
    if not (math.isfinite(about.created_at) and math.isfinite(about.ttl)):
        raise HTTPException(400, "a reply was made at a time, and is good for some seconds")
    if about.message_id != parts.object_id or not _are_of_a_reply(parts, is_error=message.HasField("error")):
        raise HTTPException(400, "the parts that are announced are not those of a reply")


def _are_of_a_reply(parts: Any, *, is_error: bool) -> bool:
    """Return whether a tree has the shape of a reply: the message, its content, records, arrays, pieces of arrays."""
    most = (1, int(not is_error), MOST_RECORDS, MOST_PARTS, MOST_PARTS)
    level, count = [parts], 0
    for allowed in most:
        count += len(level)
        if len(level) > allowed or count > MOST_PARTS or not all(NAME.fullmatch(part.object_id) for part in level):
            return False
        level = [part for each in level for part in each.children]
    return not level


_announcing = Lock()


def store_reply(push_messages: Callable[..., Any], request: Any, state: Any) -> Any:
    """Store a reply that a node announces, by Flower's own call; a reply that is not stored leaves no rows behind.

    A reply that is no longer expected is not stored, and not refused either: an honest reply may have come too late.
    One whose question has expired is logged in one line, and Flower does not see it. Replies are stored one at a time,
    as the database has one writer: other calls wait for one reply at most.
    """
    only_own_replies(request)
    about = request.messages_list[0].metadata
    if (late := time.time() - about.created_at - about.ttl) >= 0:
        log(WARNING, TOO_LATE, about.src_node_id, late, about.message_type, about.run_id)
        return PushMessagesResponse(results={about.message_id: 0})
    worked = list(request.clientapp_runtime_list)
    if not all(0 <= seconds <= LONGEST_WORK for seconds in worked):  # the seconds are added up, and a NaN would stay
        del request.clientapp_runtime_list[:]
    asked = select(MessageIns.message_id).where(MessageIns.message_id == about.message_id)
    with _announcing, state.session() as session:
        if session.scalar(asked) is not None:
            raise HTTPException(403, "a reply has a name of its own")
        response = push_messages(request=request, state=state)
        if not response.objects_to_push:
            state._cleanup_push_session(response.session_id, cleanup_messages=False)
    return response


def store_part(push_object: Callable[..., Any], request: Any, state: Any) -> Any:
    """Store a part of a reply that this node has announced, by Flower's own call.

    Without the name of a session, Flower takes it as a part of any message, and the message that has the part fails.
    """
    if not request.session_id:
        raise HTTPException(403, "a part belongs to a reply that was announced")
    return push_object(request=request, state=state)


def at_most_each(seconds: float, call: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a function that makes a call, unless it has made it within the last `seconds`.

    Of the search for vanished tasks: a token that has expired is refused at once, as Flower looks at its time at each
    request; the search ends the task and its run, here up to a second later.
    """
    last = -math.inf

    def seldom(state: Any) -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            call(state)

    return seldom


def key_of(scope: Any) -> bytes:
    """Return the public key that a request names, as it is written there; empty without a key."""
    name = FLEET_HTTP_PUBLIC_KEY_HEADER.lower().encode("latin-1")
    return next((bytes(value) for header, value in scope["headers"] if header == name), b"")


def is_no(body: bytes) -> bool:
    """Return whether an answer to a node's question says that there is no message."""
    return not PullMessagesResponse.FromString(body).messages_list


def is_of_a_server_that_has_sent(path: str) -> bool:
    """Return whether a server app calls this path after it has sent messages with all their parts."""
    return path in ("/v1/runtime/pull-messages", "/v1/runtime/get-nodes", "/v1/runtime/push-task-output")


def run_superlink(*ours: Any) -> None:
    """Run Flower's SuperLink behind these ASGI middlewares, outermost first; arguments are in `sys.argv`."""
    middleware = extensions.get_middleware
    extensions.get_middleware = lambda: (*map(Middleware, ours), *middleware())
    fleet_handlers.push_object = partial(store_part, fleet_handlers.push_object)
    store = partial(store_reply, fleet_handlers.push_messages)
    fleet_handlers.push_messages = storing_enclosed(store, fleet_handlers.push_object)
    runtime_handlers.push_messages = storing_enclosed(runtime_handlers.push_messages, runtime_handlers.push_object)
    fleet_handlers.pull_messages = enclosing(fleet_handlers.pull_messages)
    runtime_handlers.pull_messages = enclosing(runtime_handlers.pull_messages)
    keep_trees_whole()
    search = at_most_each(EXPIRY, SqlCoreState._cleanup_expired_task_tokens)
    SqlCoreState._cleanup_expired_task_tokens = search  # type: ignore[method-assign, assignment]
    pragmas = (*vars(sql_mixin)["SQLITE_PRAGMAS"], ("busy_timeout", str(PATIENCE)))
    setattr(sql_mixin, "SQLITE_PRAGMAS", pragmas)  # noqa: B010, it exports no such name
    answer_in_one_piece()
    flower_superlink()
