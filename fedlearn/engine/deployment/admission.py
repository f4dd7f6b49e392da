"""Admission control before the SuperLink's Fleet API: a request's headers are checked before its body is read.

Flower reads and parses a body, which takes several times its size in memory, before it looks at the signature. And a
node signs the time only, so that an observer of one request could make others with its headers, for five minutes. Here
the headers are checked first: the key must be registered, the signature must be that of the key, and each signed time
is good for one request only. Flower checks every admitted request once more.

| status | the request |
|---|---|
| 401 | is not signed by a registered node |
| 411 | does not say how long its body is |
| 413 | has a body longer than that of any call of its kind |
| 503 | has a signed time that was used, or is before the start; or too much is under way: a SuperNode tries again |
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from base64 import b64decode
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Lock

from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fedlearn.engine.deployment.supernode import VERSION_HEADER
from fedlearn.flower import superlink_middleware as flower_superlink

MIB = 1 << 20
UNDER_WAY = 128 * MIB  # of bodies that are being read, for all nodes; Flower takes some 2.5 times as much memory
OF_ONE_NODE = 16 * MIB  # of bodies that are being read, for one node; a SuperNode sends two parts at a time, of 5 MiB
LONGEST = {
    "push-object": 6 * MIB,
    "push-messages": 2 * MIB,
}  # bytes of a body, by call: a part, the names of all parts with the small ones
SHORT = 4096  # bytes of a body of all other calls, among them those open to unregistered nodes
AT_ONCE = 16  # requests of one node, of the 40 that a SuperLink works on; a SuperNode sends eight parts at a time
BODY_SECONDS = 120.0  # until a body must have come whole: 5 MiB over a line of half a megabit a second
MOST_OF_STRANGERS = 100_000  # signed times of keys that are not registered; beyond them no stranger is let in
VERSION = re.compile(r"[0-9A-Za-z.+-]{1,20}")
MOST_TIMES = 1_000_000  # signed times that are remembered: enough for 3,000 requests a second


class Admission:
    """An ASGI middleware before the SuperLink.

    Parameters
    ----------
    app
        Flower's own application.
    seen
        Where each registered key's version and clock are noted; None: nowhere.
    """

    def __init__(self, app: ASGIApp, seen: Seen | None = None) -> None:
        self._app, self._seen = app, seen
        self._times = UsedTimes(flower_superlink.longest_life(), most=MOST_TIMES)
        self._strangers = UsedTimes(flower_superlink.longest_life(), most=MOST_OF_STRANGERS)
        self._started = time.time()
        self._under_way: Counter[bytes] = Counter()  # bytes of bodies, by the key that sends them
        self._requests: Counter[bytes] = Counter()  # by key
        self._known: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on."""
        if scope["type"] != "http" or not scope["path"].startswith(flower_superlink.FLEET):
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}
        status, key = await run_in_threadpool(self._look_at, scope, headers)
        size = headers.get("content-length", "")
        if not status and not size.isdecimal():
            status = 411
        if not status and int(size) > LONGEST.get(scope["path"].removeprefix(flower_superlink.FLEET), SHORT):
            status = 413
        if not status and (
            self._under_way[key] + int(size) > OF_ONE_NODE
            or self._under_way.total() + int(size) > UNDER_WAY
            or (key and self._requests[key] >= AT_ONCE)
        ):
            status = 503
        if status:
            await PlainTextResponse("", status, headers={"connection": "close"})(scope, receive, send)
            return
        self._under_way[key] += int(size)
        self._requests[key] += 1
        try:
            await self._app(scope, _within(BODY_SECONDS, receive), send)
        finally:
            self._under_way[key] -= int(size)
            self._requests[key] -= 1
            if not self._requests[key]:
                del self._under_way[key], self._requests[key]

    def _look_at(self, scope: Scope, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Return the status of a refusal, 0 for none, and the key that has signed."""
        key_in, time_in, signature_in = flower_superlink.headers_of_node()
        try:
            key, signed_at = b64decode(headers[key_in], validate=True), headers[time_in]
            age = flower_superlink.age_of(signed_at)
            said = sha256(key).digest()  # a key of a stranger may be long
            if self._strangers.has(said, signed_at):
                return 503, b""
            is_known = key in self._known or flower_superlink.is_registered(scope, key)
            if not is_known and scope["path"] not in flower_superlink.OPEN_TO_STRANGERS:
                return 401, b""
            if not flower_superlink.is_signed_by(key, signed_at, b64decode(headers[signature_in], validate=True)):
                return 401, b""
        except (KeyError, ValueError, TypeError):
            return 401, b""
        if not is_known:
            # All unregistered nodes share one key; Flower's answer says that they must register.
            return (0 if self._strangers.use(said, signed_at) else 503), b""
        self._known.add(key)
        if time.time() - age < self._started or not self._times.use(key, signed_at):
            return 503, b""
        if self._seen is not None:
            self._seen.note(said.hex()[: Seen.DIGITS], headers.get(VERSION_HEADER, ""), age)
        return 0, key


class Seen:
    """The version and the clock of each registered key that asks, in a file that ``fedlearn status`` reads.

    Parameters
    ----------
    file
        Written at most once in `EACH` seconds.
    """

    DIGITS = 16  # of the SHA-256 of a key
    EACH = 10.0

    def __init__(self, file: Path) -> None:
        self._file, self._written, self._lock = file, 0.0, Lock()
        self._about: dict[str, dict[str, str | float]] = {}

    def note(self, key: str, version: str, age: float) -> None:
        """Note what a request of a key says: its version, and by how much its clock is behind the server's."""
        with self._lock:
            shown = version if VERSION.fullmatch(version) else ""
            self._about[key] = {"version": shown, "behind": round(age, 1)}
            if time.monotonic() - self._written < self.EACH and self._written:
                return
            self._written = time.monotonic()
            with suppress(OSError):  # a full disk ends no request
                aside = self._file.with_name(f".{self._file.name}")
                aside.write_text(json.dumps(self._about))
                aside.replace(self._file)


class UsedTimes:
    """The signed times that have been used, each remembered as long as Flower would accept it again.

    Parameters
    ----------
    seconds
        How long a time is remembered.
    most
        The largest number of remembered times; a full memory accepts no further time.

    Examples
    --------
    >>> times = UsedTimes(300.0, most=2)
    >>> times.use(b"key", "noon"), times.use(b"key", "noon"), times.use(b"other", "noon"), times.use(b"key", "one")
    (True, False, True, False)
    """

    def __init__(self, seconds: float, *, most: int) -> None:
        self._seconds = seconds
        self._most = most
        self._used: set[tuple[bytes, str]] = set()
        self._ends: deque[tuple[float, tuple[bytes, str]]] = deque()
        self._lock = Lock()

    def has(self, key: bytes, signed_at: str) -> bool:
        """Return whether this key has used a signed time."""
        return (key, signed_at) in self._used

    def use(self, key: bytes, signed_at: str) -> bool:
        """Return whether this key has not used a signed time before, and remember the time."""
        now, this = time.monotonic(), (key, signed_at)
        with self._lock:
            while self._ends and self._ends[0][0] < now:
                self._used.discard(self._ends.popleft()[1])
            if this in self._used or len(self._used) >= self._most:
                return False
            self._used.add(this)
            self._ends.append((now + self._seconds, this))
            return True


def _within(seconds: float, receive: Receive) -> Receive:
    """Return a `receive` that reports a disconnect when the body is not complete in time."""
    end = time.monotonic() + seconds
    is_whole = False

    async def receive_in_time() -> Message:
        nonlocal is_whole
        if is_whole:
            return await receive()
        try:
            message: Message = await asyncio.wait_for(receive(), max(end - time.monotonic(), 0))
        except TimeoutError:
            return {"type": "http.disconnect"}
        is_whole = not message.get("more_body", False)
        return message

    return receive_in_time
