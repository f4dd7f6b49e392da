"""Serve the live page until Ctrl-C, or beside a run as long as the run goes on.

Beside a run the page is served by a process of its own, so that drawing takes no time from the run. That process ends
when its standard input ends: when the run's process closes it, or dies in any way.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fedlearn.report.serving import Site, Watched, is_local, listening, url_of

if TYPE_CHECKING:
    import uvicorn

LOOK = 0.1  # seconds between checks whether the server is to end
LAST_LOOK = 3.0  # seconds in which open pages get the final state of the run
PATIENCE = 5.0  # seconds that the process may take to end
NICENESS = 10


def serve(paths: Sequence[Path], listener: socket.socket, *, until: threading.Event | None = None) -> None:
    """Serve the live page until Ctrl-C or, in a process beside a run, until an event is set.

    Parameters
    ----------
    paths
        Run folders, sweeps, or folders of run folders; they need not exist yet.
    """
    import uvicorn

    site = Site(Watched(paths), local=is_local(listener))
    config = uvicorn.Config(site.app(), log_level="critical", access_log=False, lifespan="off")
    server = uvicorn.Server(config)

    async def run() -> None:
        watcher = asyncio.create_task(_end_with(server, site, until))
        await server.serve(sockets=[listener])
        watcher.cancel()

    asyncio.run(run())


async def _end_with(server: uvicorn.Server, site: Site, until: threading.Event | None) -> None:
    """Wait until the server is to end or the event is set; then end the streams, and the server."""
    while not (server.should_exit or (until is not None and until.is_set())):
        await asyncio.sleep(LOOK)
    site.closing = True
    for _ in range(int(LAST_LOOK / LOOK)):
        if site.streams:
            await asyncio.sleep(LOOK)
    server.should_exit = server.force_exit = True


@contextmanager
def beside(folder: Path, address: str) -> Iterator[str]:
    """Serve a run's live page in a process of its own as long as the block lasts; yield its URL."""
    listener = listening(address, flag="--dashboard")
    url = url_of(listener)
    number = listener.fileno()
    process = subprocess.Popen(
        [sys.executable, "-m", "fedlearn.report.dashboard", str(number), str(folder)],
        stdin=subprocess.PIPE, pass_fds=[number], start_new_session=True,  # Ctrl-C is for the run
    )  # fmt: skip
    listener.close()
    assert process.stdin is not None
    try:
        yield url
    finally:
        process.stdin.close()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main(number: int, folder: Path) -> None:
    """Serve a folder on an inherited socket (a file descriptor) until standard input ends."""
    os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.disable(logging.CRITICAL)  # a page must not write between the lines of the run
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.buffer.read()
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    serve([folder], socket.socket(fileno=number), until=ended)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
