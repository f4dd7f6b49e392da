"""A temporary folder for Ray's files, removed after the run, also where the run was killed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedlearn.engine.ray_runtime import guard

LONGEST = 25  # characters; Ray makes sockets some folders below, whose paths may have 107


@contextmanager
def guarded_folder() -> Iterator[Path]:
    """Make a folder; at the end of the block or of this process remove it, and end processes that still write there."""
    place = Path(tempfile.gettempdir())
    if len(str(place)) > LONGEST:
        place = Path("/tmp")
    folder = Path(tempfile.mkdtemp(prefix="fedlearn-ray-", dir=place))
    # In a session of its own, so that Ctrl-C does not end the guard. It needs the standard library only.
    command = [sys.executable, "-I", guard.__file__, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True):
        yield folder
