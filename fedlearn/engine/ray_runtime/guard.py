"""A process that waits for the end of the one that started it, however that comes, and tidies up after Ray then.

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
    """Wait until standard input is closed, which the system does for a process that was killed, too."""
    starter = os.getppid()
    sys.stdin.buffer.read()
    for process in writers(folder):
        if process == starter:
            continue  # Ray's log is still open in it, where it goes on after Ray
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


def writers(folder: Path) -> Iterator[int]:
    """Return the processes that have a file below the folder open, where the system tells (Linux)."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # somebody else's, or just gone
            if any(file.readlink().is_relative_to(folder) for file in (process / "fd").iterdir()):
                yield int(process.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
