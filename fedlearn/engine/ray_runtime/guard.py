"""A process that waits for the end of its starter, even by a kill, and then removes the remains of Ray.

Ray's own processes end when their driver is killed, but two of them only a minute later, and their files stay.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def main(folder: Path) -> None:
    """Wait until the starter, even if killed, closes standard input; then kill writers, and remove the folder."""
    starter = os.getppid()
    sys.stdin.buffer.read()
    for process in writers(folder):
        if process == starter:
            continue  # the starter may go on after Ray, with Ray's log still open
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


def writers(folder: Path) -> Iterator[int]:
    """Yield the processes with an open file below the folder; none on systems other than Linux."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # of another user, or just gone
            if any(file.readlink().is_relative_to(folder) for file in (process / "fd").iterdir()):
                yield int(process.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
