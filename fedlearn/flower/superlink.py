"""Flower's SuperLink with a door of ours before its Fleet API, and nodes that speak in their own names only.

Written for flwr 1.41. It compares the key of a request with the node that the request names, but not with the sender
that a message in it names: a node could answer for another, or send instructions as if it were the server.
`missing` says what Flower has moved: who needs it runs Flower's own command then.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import fedlearn.flower  # noqa: F401, it sets Flower's switches before anything of it is imported
from fedlearn.flower.unary import answer_in_one_piece

try:
    from flwr.common.constant import SYSTEM_TIME_TOLERANCE, TIMESTAMP_HEADER, TIMESTAMP_TOLERANCE
    from flwr.proto.fleet_pb2 import PullMessagesResponse
    from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
    from flwr.supercore.date import now
    from flwr.supercore.primitives.asymmetric import bytes_to_public_key, verify_signature
    from flwr.superlink import extensions
    from flwr.superlink.cli.flower_superlink import flower_superlink
    from flwr.superlink.dependencies.linkstate import get_linkstate
    from flwr.superlink.servicer.fleet import fleet_handlers
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.requests import Request

    wanted = [(extensions, "get_middleware"), (fleet_handlers, "push_messages")]
    missing = ", ".join(name for module, name in wanted if not hasattr(module, name))
except (ImportError, AttributeError) as error:  # Flower has moved something
    missing = str(error)

FLEET = "/v1/fleet/"
NODE_ASKS, SERVER_SENDS = f"{FLEET}pull-messages", "/v1/runtime/push-messages"
OPEN_TO_STRANGERS = (f"{FLEET}register-node", f"{FLEET}activate-node")
"""Where Flower tells a node whose key is not registered what to do."""


def headers_of_node() -> tuple[str, str, str]:
    """Return the names of the headers by which a node signs: public key, time, signature of the time."""
    return FLEET_HTTP_PUBLIC_KEY_HEADER, TIMESTAMP_HEADER, FLEET_HTTP_SIGNATURE_HEADER


def longest_life() -> float:
    """Return for how many seconds Flower takes a signed time."""
    return float(TIMESTAMP_TOLERANCE + 2 * SYSTEM_TIME_TOLERANCE)


def age_of(signed_at: str) -> float:
    """Return the seconds since a signed time; raises ValueError or TypeError where it is none that Flower takes."""
    age = float((now() - datetime.fromisoformat(signed_at)).total_seconds())
    if not -SYSTEM_TIME_TOLERANCE < age < TIMESTAMP_TOLERANCE + SYSTEM_TIME_TOLERANCE:
        raise ValueError("it was signed too long ago, or is to come")
    return age


def is_signed_by(public_key: bytes, text: str, signature: bytes) -> bool:
    """Say whether a signature is that of a key; raises ValueError where the key is none."""
    return bool(verify_signature(bytes_to_public_key(public_key), text.encode("ascii"), signature))


def is_registered(scope: Any, public_key: bytes) -> bool:
    """Say whether a node with this key has been let in; any has where the SuperLink was told to ask for none."""
    request = Request(scope)
    if not request.app.state.enable_supernode_auth:
        return True
    return get_linkstate(request).get_node_id_by_public_key(public_key) is not None


def only_own_replies(request: Any) -> None:
    """Refuse messages that are no reply, or name another sender than the node that sends them."""
    for message in request.messages_list:
        about = message.metadata
        if about.src_node_id != request.node.node_id or not about.reply_to_message_id:
            raise HTTPException(403, "a node replies, and in its own name")


def key_of(scope: Any) -> bytes:
    """Return the public key that a request names, as it is written there; empty if it names none."""
    name = FLEET_HTTP_PUBLIC_KEY_HEADER.lower().encode("latin-1")
    return next((bytes(value) for header, value in scope["headers"] if header == name), b"")


def is_no(body: bytes) -> bool:
    """Say whether an answer to a node's question tells it that there is no message."""
    return not PullMessagesResponse.FromString(body).messages_list


def is_of_a_server_that_has_sent(path: str) -> bool:
    """Say whether a server app that had messages to send calls this path once all their parts have been sent."""
    return path in ("/v1/runtime/pull-messages", "/v1/runtime/get-nodes", "/v1/runtime/push-task-output")


def run_superlink(*ours: Any) -> None:
    """Run Flower's SuperLink behind ASGI middleware of ours, outermost first; arguments are in `sys.argv`."""
    middleware, push_messages = extensions.get_middleware, fleet_handlers.push_messages

    def checked(request: Any, state: Any) -> Any:
        only_own_replies(request)
        return push_messages(request=request, state=state)

    extensions.get_middleware = lambda: (*map(Middleware, ours), *middleware())
    fleet_handlers.push_messages = checked
    answer_in_one_piece()
    flower_superlink()
