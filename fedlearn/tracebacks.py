"""Whose code has raised, and where the whole traceback lies: a terminal is told one line."""

from __future__ import annotations

import sysconfig
import traceback
from contextlib import suppress
from pathlib import Path

from fedlearn.own_packages import NAMES, ROOT

FILE = "tracebacks.txt"  # in the run folder
EVENTS = "events.jsonl"  # by which a run folder is known
PATHS = ("stdlib", "platstdlib", "purelib", "platlib")
NOT_THE_USERS = (
    *(f"{sysconfig.get_path(name)}/" for name in PATHS),
    *(f"{ROOT / name}/" for name in ("fedlearn", *NAMES)),
    "<frozen",
)


def place_of(error: BaseException) -> str:
    """Return ``file.py:12``, the innermost line of code that is neither ours nor a library's; empty without one."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(NOT_THE_USERS):
            return f"{Path(frame.filename).name}:{frame.lineno}"
    return ""


def told(error: BaseException) -> str:
    """Return what was raised, and where in the user's code.

    >>> told(ValueError("no"))
    'ValueError: no'
    """
    name, place = type(error).__name__, place_of(error)
    try:
        text = str(error)
    except Exception:  # of its own `__str__`
        text = ""
    return f"{name}{f' in {place}' if place else ''}{f': {text}' if text else ''}"


def keep(error: BaseException, folder: str | Path) -> str:
    """Append a traceback to the file of a run folder; return what to say of it, empty where there is no such folder."""
    path = Path(folder) / FILE
    with suppress(OSError):
        if path.with_name(EVENTS).is_file():
            with path.open("a", encoding="utf-8") as file:
                file.write("".join(traceback.format_exception(error)) + "\n")
            return f"; traceback in {path}"
    return ""
