"""The whole tracebacks of what was raised in a run, of which a terminal is told one line."""

from __future__ import annotations

import traceback
from contextlib import suppress
from pathlib import Path

from fedlearn.runs.names import EVENTS
from fedlearn.runs.reading import open_to_append

FILE = "tracebacks.txt"  # in the run folder


def keep(error: BaseException, folder: str | Path) -> str:
    """Append a traceback to the file of a run folder; return what to say of it, empty where there is no such folder."""
    path = Path(folder) / FILE
    text = "".join(traceback.format_exception(error)) + "\n"
    with suppress(OSError):
        if path.with_name(EVENTS).is_file():
            with open_to_append(path) as file:
                file.write(text.encode("utf-8", "backslashreplace"))
            return f"; traceback in {path}"
    return ""
