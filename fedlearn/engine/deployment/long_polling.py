"""Long polling: a node's question for messages waits until the server has sent some, a second at most.

A SuperNode asks again and again whether there is a message for it, and most answers are no. Here, after such an answer,
the node's next question is passed on once the server app has sent messages to any node, or a second has passed: the
node gets a message at once, and seldom asks in vain. The answers themselves are Flower's.

The wait comes before the question is asked, never after: what Flower hands out it marks as delivered, once. A node that
is killed while it waits loses what is sent to it within that second, as it loses what is on its way; the server learns
so when the node's signs of life stop.
"""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fedlearn.flower import superlink_middleware as flower_superlink

LONGEST = 1.0  # seconds; a SuperNode gives a request up after 30
MOST = 100  # nodes whose questions wait at a time: the proxy lets 128 requests of one address through


class LongPolling:
    """An ASGI middleware behind `Admission`, which has checked the signatures of the requests.

    Parameters
    ----------
    app
        Flower's own application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._is_sending = False
        self._sent = 0  # how often the server has sent messages
        self._answered_no: dict[bytes, int] = {}  # key of a node -> `_sent` before the node's last answer was no
        self._waiting: set[bytes] = set()  # keys of nodes
        self._change = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, at once or after a wait."""
        path = scope.get("path", "")
        if path == flower_superlink.SERVER_SENDS:
            await self._app(scope, receive, send)
            self._is_sending = True  # the parts of the messages come now
        elif path == flower_superlink.NODE_ASKS:
            await self._asked(flower_superlink.key_of(scope), scope, receive, send)
        else:
            if self._is_sending and flower_superlink.is_of_a_server_that_has_sent(path):
                self._is_sending = False
                self._sent += 1
                self._change.set()
                self._change = asyncio.Event()
            await self._app(scope, receive, send)

    async def _asked(self, key: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        if self._answered_no.get(key) == self._sent and key not in self._waiting and len(self._waiting) < MOST:
            self._waiting.add(key)
            try:
                await asyncio.wait_for(self._change.wait(), LONGEST)
            except TimeoutError:
                pass
            finally:
                self._waiting.discard(key)
        sent, parts, status = self._sent, [], 0

        async def listening(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            parts.append(message.get("body", b""))
            await send(message)

        self._answered_no.pop(key, None)
        await self._app(scope, receive, listening)
        if status == 200 and flower_superlink.is_no(b"".join(parts)):
            self._answered_no[key] = sent
