"""The live page: served from this machine, to this machine unless another address is asked for.

Three things can be had: the page, the stream of its sections that change, and the raw files of the runs shown. A name
in an address is looked up in a table of these, never joined to a path.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from fedlearn.errors import UsageError
from fedlearn.report.page import page_of
from fedlearn.report.sections import sections_of
from fedlearn.report.stored import LogRead, StoredRun, read_run, runs_below
from fedlearn.report.writing import title_of
from fedlearn.runs.folder import EVENTS

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

LOOPBACK = "127.0.0.1"
LOCAL_NAMES = ("localhost", LOOPBACK, "[::1]")
LOOK = 0.5  # seconds between looks at the folders, while somebody watches
KEEP_ALIVE = 15.0  # seconds without news after which a stream says that it is still there
TEXTS = (".toml", ".jsonl", ".csv", ".json")
HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
CHUNK = 1 << 16


class Watched:
    """The folders on show, looked at again when something has changed in them."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = [path.resolve() for path in paths]
        self.title = title_of(self.paths)
        self.runs: list[StoredRun] = []
        self.sections: dict[str, str] = {}
        self._logs: dict[Path, LogRead] = {}
        self._seen: object = None

    def look(self) -> None:
        """Read what has changed in the folders, and make the sections again if anything has."""
        folders = {name: folder for path in self.paths if path.is_dir() for name, folder in runs_below(path).items()}
        state = {folder: _state_of(folder) for folder in folders.values()}
        if state == self._seen:
            return
        self._seen = state
        for folder in folders.values():
            self._logs.setdefault(folder, LogRead(folder / EVENTS))
        self.runs = [read_run(name, folder, self._logs[folder]) for name, folder in folders.items()]
        self.sections = sections_of(self.runs, title=self.title, link=self._link, live=True)

    def file(self, run: int, name: str) -> Path | None:
        """Return a run's raw file, None where there is no such run or file."""
        known = self.runs[run].files if 0 <= run < len(self.runs) else {}
        return self.runs[run].folder / name if name in known else None

    def _link(self, run: StoredRun, name: str) -> str:
        return f"raw/{self.runs.index(run)}/{quote(name)}"


def _state_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Return what changes when any file of a run does."""
    with_stat = ((path.name, path.stat()) for path in folder.iterdir() if path.is_file())
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in with_stat}


class Site:
    """The web application around what is watched.

    Parameters
    ----------
    local
        Whether only names of this machine are answered to, so that no foreign page can reach it through a name of
        its own that it points here (DNS rebinding).
    """

    def __init__(self, watched: Watched, *, local: bool) -> None:
        self.watched = watched
        self.local = local
        self.closing = False  # streams send what is last, and end
        self.streams = 0  # how many are open
        self._looking = asyncio.Lock()

    def app(self) -> ASGIApp:
        """Return it as an ASGI application."""
        from starlette.applications import Starlette
        from starlette.middleware.trustedhost import TrustedHostMiddleware
        from starlette.routing import Route

        site = Starlette(
            routes=[
                Route("/", self.page),
                Route("/stream", self.stream),
                Route("/raw/{run:int}/{name}", self.raw),
            ]
        )
        return TrustedHostMiddleware(site, allowed_hosts=LOCAL_NAMES) if self.local else site

    async def page(self, _: Request) -> Response:
        """Answer with the page as things stand."""
        from starlette.responses import HTMLResponse

        await self._look()
        return HTMLResponse(page_of(self.watched.sections, title=self.watched.title, stream="stream"), headers=HEADERS)

    async def stream(self, _: Request) -> Response:
        """Answer with sections as they change, all of them first: whoever comes back has missed some."""
        from starlette.responses import StreamingResponse

        return StreamingResponse(self._news(), media_type="text/event-stream", headers=HEADERS)

    async def raw(self, request: Request) -> Response:
        """Answer with a raw file, as long as it is at this moment: a log grows meanwhile."""
        from starlette.responses import PlainTextResponse, StreamingResponse

        path = self.watched.file(request.path_params["run"], request.path_params["name"])
        if path is None:
            return PlainTextResponse("there is no such file", status_code=404, headers=HEADERS)
        kind = "text/plain; charset=utf-8" if path.suffix in TEXTS else "application/octet-stream"
        return StreamingResponse(_pieces(path, path.stat().st_size), media_type=kind, headers=HEADERS)

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


def _pieces(path: Path, left: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        while left > 0 and (piece := file.read(min(CHUNK, left))):
            left -= len(piece)
            yield piece


# --- where it listens -------------------------------------------------------------------------------------------------


def listening(address: str, *, flag: str) -> socket.socket:
    """Return a socket that listens on ``[HOST:]PORT``; port 0 takes a free one.

    Raises
    ------
    UsageError
        If the address is none, or taken; the line names the flag.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]") or LOOPBACK
    if not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"{flag} {address}: write it as PORT or HOST:PORT, for example 8765")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, int(port)))
        listener.listen()
    except OSError as error:
        listener.close()
        reason = error.strerror or str(error)
        raise UsageError(f"{flag} {address}: cannot listen there: {reason}; name another port, or 0 for any") from None
    return listener


def is_local(listener: socket.socket) -> bool:
    """Return whether only this machine can reach a socket."""
    host = str(listener.getsockname()[0])
    return host == "::1" or host.startswith("127.")


def url_of(listener: socket.socket) -> str:
    """Return the address for a browser; of a socket that listens everywhere, with this machine's name."""
    host, port = listener.getsockname()[:2]
    shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    return f"http://[{shown}]:{port}/" if ":" in shown else f"http://{shown}:{port}/"
