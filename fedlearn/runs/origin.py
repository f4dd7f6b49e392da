"""Tell where a run came from: its command line, and the git commits of the current folder and of fedlearn."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

LONGEST = 2000  # letters of a command line that are kept
PATIENCE = 2.0  # seconds that git may take
FLOWER = "flwr"  # the names of Flower's processes begin with it; their command lines hold tokens


def command_line(words: Sequence[str] | None = None) -> str:
    """Return the command that started this process, quoted for a shell; empty for a process that Flower started.

    Parameters
    ----------
    words
        The interpreter and its arguments; by default those of this process.

    Examples
    --------
    >>> command_line(["/opt/venv/bin/python3", "/opt/venv/bin/fedlearn", "simulate", "--clients", "10"])
    'fedlearn simulate --clients 10'
    >>> command_line(["python3", "train.py", "a b"])
    "python3 train.py 'a b'"
    """
    python, *rest = words if words is not None else sys.orig_argv or [""]
    if rest and Path(rest[0]).is_absolute() and Path(rest[0]).parent == Path(python).parent:
        python, *rest = rest  # a command that was installed beside the interpreter
    if FLOWER in Path(python).name or any(FLOWER in Path(word).name.partition(".")[0] for word in rest[:3]):
        return ""
    return shlex.join([Path(python).name, *rest])[:LONGEST]


@lru_cache(maxsize=64)
def commit_of(folder: Path) -> str | None:
    """Return the git commit of a folder, with ``-dirty`` if tracked files differ; None outside of a repository.

    The answer is that of the first call in this process, when its code had just been loaded.
    """
    describe = ["git", "-c", "core.fsmonitor=false", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(
            describe, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=True, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return done.stdout.strip() or None
