"""Shorten an exception to one line, which names the line of the user's code that raised it."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

from fedlearn.plugins.own_packages import NAMES, ROOT

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


def shortened(error: BaseException) -> str:
    """Return the exception as text, with its place in the user's code.

    >>> shortened(ValueError("no"))
    'ValueError: no'
    """
    name, place = type(error).__name__, place_of(error)
    try:
        text = str(error)
    except Exception:  # of its own `__str__`
        text = ""
    return f"{name}{f' in {place}' if place else ''}{f': {text}' if text else ''}"
