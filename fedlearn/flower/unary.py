"""Flower's layers around a request, run in the request's own task.

A SuperLink stacks nine of Starlette's `BaseHTTPMiddleware` around its calls, and a SuperNode three. Each layer starts a
task group and a stream in memory for every request, so that it can look at an answer while the answer is being made;
together the layers took more than half of the processor time of a call. Calls of nodes and tasks are short and answered
in one piece: here the next layer has answered before a layer goes on.

Written for flwr 1.41 and Starlette 1.3. Streams, as the Control API has them, are left as they were.
"""

from __future__ import annotations

from typing import Any

from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

CALLS = ("/v1/fleet/", "/v1/runtime/")  # answered by one message each

_as_it_was = BaseHTTPMiddleware.__call__


def answer_in_one_piece() -> None:
    """Make all layers of this process run the next layer in their own task."""
    BaseHTTPMiddleware.__call__ = _in_line  # type: ignore[method-assign, assignment]


async def _in_line(layer: BaseHTTPMiddleware, scope: Scope, receive: Receive, send: Send) -> None:
    """Replace `BaseHTTPMiddleware.__call__`."""
    if scope["type"] != "http" or not scope["path"].startswith(CALLS):
        await _as_it_was(layer, scope, receive, send)
        return
    request = Request(scope, receive)
    try:
        body = await request.body()
    except ClientDisconnect:
        return  # no client waits for an answer

    async def call_next(_: Request) -> Response:
        answer = _Answer()
        await layer.app(scope, _giving(body, receive), answer.take)
        return answer.response()

    response = await layer.dispatch_func(request, call_next)
    await response(scope, receive, send)


def _giving(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives a body that was read before, and then the messages after it."""
    is_given = False

    async def once_more() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return once_more


class _Answer:
    """Collects an application's answer until it is complete."""

    def __init__(self) -> None:
        self._start: Message | None = None
        self._parts: list[bytes] = []

    async def take(self, message: Any) -> None:
        """Take a part of the answer, in place of `send`."""
        if message["type"] == "http.response.start":
            self._start = message
        elif message["type"] == "http.response.body":
            self._parts.append(message.get("body", b""))

    def response(self) -> Response:
        """Return the whole answer, which a layer may look at and change."""
        if self._start is None:
            raise RuntimeError("no answer was given")
        response = Response(b"".join(self._parts), self._start["status"])
        response.raw_headers = list(self._start["headers"])
        return response
