"""A folder for what Ray writes while it runs; gone afterwards, also where the run was killed."""

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
    """Make a folder; at the end of the block or of this process it is removed, and who still writes there is ended."""
    place = Path(tempfile.gettempdir())
    if len(str(place)) > LONGEST:
        place = Path("/tmp")
    folder = Path(tempfile.mkdtemp(prefix="fedlearn-ray-", dir=place))
    # In a session of its own: Ctrl-C is not for it. It needs nothing but the standard library.
    command = [sys.executable, "-I", guard.__file__, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True):
        yield folder
