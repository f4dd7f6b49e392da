"""Serve the live page from this machine, by default to this machine alone.

The server answers with the page, with a stream of the sections that change, and with raw files of the runs on show. A
name in a URL is looked up in a table of these files, never joined to a path.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import quote

from fedlearn.core.errors import UsageError, said
from fedlearn.report.folders import runs_below
from fedlearn.report.page.document import page_of
from fedlearn.report.page.sections import sections_of
from fedlearn.report.stored import LogRead, StoredRun, read_run
from fedlearn.report.writing import title_of
from fedlearn.runs.file_names import EVENTS
from fedlearn.runs.safe_reading import open_regular

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = "127.0.0.1"
LOCAL_NAMES = ("localhost", LOOPBACK, "[::1]")
LONGEST_HOST = 255
LOOK = 0.5  # seconds between looks at the folders while a page is open
KEEP_ALIVE = 15.0  # seconds without a change after which a stream sends a sign of life
TEXTS = (".toml", ".jsonl", ".csv", ".json")
HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
CHUNK = 1 << 16


class Watched:
    """The folders on show; a run is read again when a file in its folder has changed."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = [path.resolve() for path in paths]
        self.title = title_of(self.paths)
        self.runs: list[StoredRun] = []
        self.sections: dict[str, str] = {}
        self._logs: dict[Path, LogRead] = {}
        self._seen: object = None

    def look(self) -> None:
        """Read the folders and make the sections anew if any file has changed."""
        folders = {name: folder for path in self.paths if path.is_dir() for name, folder in runs_below(path).items()}
        state = {folder: _state_of(folder) for folder in folders.values()}
        if state == self._seen:
            return
        for folder in folders.values():
            self._logs.setdefault(folder, LogRead(folder / EVENTS))
        self.runs = [read_run(name, folder, self._logs[folder]) for name, folder in folders.items()]
        self.sections = sections_of(self.runs, title=self.title, link=self._link, live=True)
        self._seen = state  # last, so that a look that has failed is tried again

    def file(self, run: int, name: str) -> Path | None:
        """Return the path of a raw file of a run, None if there is no such run or file."""
        known = self.runs[run].files if 0 <= run < len(self.runs) else {}
        return self.runs[run].folder / name if name in known else None

    def _link(self, run: StoredRun, name: str) -> str:
        return f"raw/{self.runs.index(run)}/{quote(name)}"


def _state_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of each file of a run: they change if a file does."""
    state = {}
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # it has just been replaced
                stat = entry.stat(follow_symlinks=False)
                state[entry.name] = stat.st_size, stat.st_mtime_ns
    return state


class Site:
    """The web application that shows the watched folders.

    Parameters
    ----------
    local
        Whether only requests to names of this machine are answered, so that no foreign page can reach the server by
        a name of its own that leads here (DNS rebinding).
    """

    def __init__(self, watched: Watched, *, local: bool) -> None:
        self.watched = watched
        self.local = local
        self.closing = False  # streams send the last changes, and end
        self.streams = 0  # how many are open
        self._looking = asyncio.Lock()

    def app(self) -> ASGIApp:
        """Return the site as an ASGI application."""
        from starlette.applications import Starlette
        from starlette.routing import Route

        site = Starlette(
            routes=[
                Route("/", self.page),
                Route("/stream", self.stream),
                Route("/raw/{run:int}/{name}", self.raw),
            ]
        )
        return _LocalNamesOnly(site) if self.local else site

    async def page(self, _: Request) -> Response:
        """Answer with the page in its present state."""
        from starlette.responses import HTMLResponse

        await self._look()
        return HTMLResponse(page_of(self.watched.sections, title=self.watched.title, stream="stream"), headers=HEADERS)

    async def stream(self, _: Request) -> Response:
        """Answer with sections as they change; first with all of them, as a page that comes back has missed some."""
        from starlette.responses import StreamingResponse

        return StreamingResponse(self._news(), media_type="text/event-stream", headers=HEADERS)

    async def raw(self, request: Request) -> Response:
        """Answer with a raw file in its length at this moment: a log may grow meanwhile."""
        from starlette.responses import PlainTextResponse, StreamingResponse

        path = self.watched.file(request.path_params["run"], request.path_params["name"])
        if path is None:
            return PlainTextResponse("there is no such file", status_code=404, headers=HEADERS)
        try:
            file = open_regular(path)
        except OSError as error:
            return PlainTextResponse(f"it cannot be read: {error.strerror}", status_code=404, headers=HEADERS)
        kind = "text/plain; charset=utf-8" if path.suffix in TEXTS else "application/octet-stream"
        return StreamingResponse(_pieces(file), media_type=kind, headers=HEADERS)

    async def _look(self) -> None:
        async with self._looking:
            await asyncio.to_thread(self.watched.look)

    async def _news(self) -> AsyncIterator[str]:
        self.streams += 1
        try:
            async for message in self._changes():
                yield message
        finally:
            self.streams -= 1

    async def _changes(self) -> AsyncIterator[str]:
        sent: dict[str, str] = {}
        quiet = 0.0
        while True:
            last = self.closing
            await self._look()
            changed = {name: html for name, html in self.watched.sections.items() if sent.get(name) != html}
            sent |= changed
            quiet = 0.0 if changed else quiet + LOOK
            if changed:
                yield f"data: {json.dumps(changed)}\n\n"
            elif quiet >= KEEP_ALIVE:
                quiet = 0.0
                yield ": still here\n\n"
            if last:
                yield "event: end\ndata:\n\n"
                return
            await asyncio.sleep(LOOK)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    with file:
        left = os.fstat(file.fileno()).st_size
        while left > 0 and (piece := file.read(min(CHUNK, left))):
            left -= len(piece)
            yield piece


class _LocalNamesOnly:
    """A filter for requests to names of this machine; Starlette's own middleware knows no ``[::1]:8765``."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.responses import PlainTextResponse

        hosts = [value.decode("latin-1") for name, value in scope.get("headers", ()) if name == b"host"]
        if scope["type"] != "http" or (len(hosts) == 1 and host_name(hosts[0]) in LOCAL_NAMES):
            await self._app(scope, receive, send)
        else:
            await PlainTextResponse("this page answers to names of its own machine", status_code=400)(
                scope, receive, send
            )


def host_name(header: str) -> str:
    """Return the name in a Host header, without its port.

    >>> host_name("[::1]:8765"), host_name("localhost:8765"), host_name("localhost")
    ('[::1]', 'localhost', 'localhost')
    """
    host, _, port = header.rpartition(":")
    return host if port.isdecimal() else header


# --- where it listens -------------------------------------------------------------------------------------------------


def listening(address: str, *, flag: str) -> socket.socket:
    """Return a socket that listens on ``[HOST:]PORT``; port 0 takes a free one.

    Raises
    ------
    UsageError
        If the address is wrong or in use; the line names the flag.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]") or LOOPBACK
    if not port.isdecimal() or len(port) > 5 or int(port) > 65535 or len(host) > LONGEST_HOST:
        raise UsageError(f"{flag} {said(address)}: write it as PORT or HOST:PORT, for example 8765")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, int(port)))
        listener.listen()
    except (OSError, ValueError, TypeError) as error:  # the latter two of names that are none
        listener.close()
        reason = getattr(error, "strerror", None) or said(error)
        where = f"{flag} {said(address)}"
        raise UsageError(f"{where}: cannot listen there: {reason}; name another port, or 0 for any") from None
    return listener


def is_local(listener: socket.socket) -> bool:
    """Return whether only this machine can reach a socket."""
    host = str(listener.getsockname()[0])
    return host == "::1" or host.startswith("127.")


def url_of(listener: socket.socket) -> str:
    """Return the URL for a browser; with this machine's name if the socket listens on all addresses."""
    host, port = listener.getsockname()[:2]
    shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    return f"http://[{shown}]:{port}/" if ":" in shown else f"http://{shown}:{port}/"
