"""A node's question for messages is held back until the server has said something, a second at most.

A SuperNode asks again and again whether there is a message for it, and most answers are no. Here a node that was told
no is answered once the server app has sent messages, to whomever, or a second has passed: it fetches a message at once,
and seldom asks in vain. What it is told comes from Flower, as without this.
"""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fedlearn.flower import superlink as flower_superlink

LONGEST = 1.0  # seconds; a SuperNode gives a request up after 30
MOST = 100  # nodes whose questions are held at a time: the proxy lets 128 requests of one address through


class Held:
    """An ASGI middleware behind the door, which has looked at whose requests these are.

    Parameters
    ----------
    app
        All of Flower's.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._is_sending = False
        self._said = 0  # how often the server has sent messages
        self._told_no: dict[bytes, int] = {}  # key of a node -> how often it had, before the node was told no
        self._held: set[bytes] = set()
        self._change = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, perhaps later."""
        path = scope.get("path", "")
        if path == flower_superlink.SERVER_SENDS:
            await self._app(scope, receive, send)
            self._is_sending = True  # the parts of the messages come now
        elif path == flower_superlink.NODE_ASKS:
            await self._asked(flower_superlink.key_of(scope), scope, receive, send)
        else:
            if self._is_sending and flower_superlink.is_of_a_server_that_has_sent(path):
                self._is_sending = False
                self._said += 1
                self._change.set()
                self._change = asyncio.Event()
            await self._app(scope, receive, send)

    async def _asked(self, key: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        if self._told_no.get(key) == self._said and key not in self._held and len(self._held) < MOST:
            self._held.add(key)
            try:
                await asyncio.wait_for(self._change.wait(), LONGEST)
            except TimeoutError:
                pass
            finally:
                self._held.discard(key)
        said, parts, status = self._said, [], 0

        async def listening(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            parts.append(message.get("body", b""))
            await send(message)

        self._told_no.pop(key, None)
        await self._app(scope, receive, listening)
        if status == 200 and flower_superlink.is_no(b"".join(parts)):
            self._told_no[key] = said
