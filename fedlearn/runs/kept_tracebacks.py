"""Keep whole tracebacks of errors in the run folder; the terminal shows one line of each."""

from __future__ import annotations

import traceback
from contextlib import suppress
from pathlib import Path

from fedlearn.runs.file_names import EVENTS
from fedlearn.runs.safe_reading import open_to_append

FILE = "tracebacks.txt"  # in the run folder


def keep(error: BaseException, folder: str | Path) -> str:
    """Append a traceback to its file in a run folder; return words on its place, empty if there is no run folder."""
    path = Path(folder) / FILE
    text = "".join(traceback.format_exception(error)) + "\n"
    with suppress(OSError):
        if path.with_name(EVENTS).is_file():
            with open_to_append(path) as file:
                file.write(text.encode("utf-8", "backslashreplace"))
            return f"; traceback in {path}"
    return ""
