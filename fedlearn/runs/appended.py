"""Files that a run only appends to, as its log: their lengths when a round was stored, and their SHA-256 so far.

The hash is continued: a commit reads only the bytes that were appended since the commit before, however long the file
has become. A resume reads the bytes that were stored, and so finds changes by hand.

The bytes that a commit names are synced before it. Bytes behind them may be lost in a power failure: they are of a
round that is run again.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from fedlearn.core.errors import UsageError
from fedlearn.runs.file_names import EVENTS, NODES
from fedlearn.runs.safe_reading import open_regular

APPENDED = (EVENTS, NODES)  # written by log.py and nodes.py
PIECE = 1 << 20  # bytes that are read at a time
MOST_BEHIND = 1 << 32  # bytes behind what was stored; what a run writes between two commits is far less

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Written:
    """The first `size` bytes of a file, by their SHA-256."""

    size: Annotated[int, Field(ge=0)]
    sha256: str


class Appended:
    """The content of a file that only grows, as far as it has been read.

    Parameters
    ----------
    path
        The file, which need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size, self._sha256 = 0, hashlib.sha256()
        self._inode: int | None = None

    def synced(self) -> Written | None:
        """Sync the file, so that a commit may name its content, and return the content as `read_on` does."""
        with suppress(FileNotFoundError), open_regular(self.path) as file:
            os.fsync(file.fileno())
        return self.read_on()

    def read_on(self, until: int | None = None) -> Written | None:
        """Read the bytes that were appended, up to the position `until`; return the content, None if there is no file.

        If another file was put in its place, that file is read from its beginning.
        """
        with suppress(FileNotFoundError), open_regular(self.path) as file:
            found = os.fstat(file.fileno())
            if self._inode not in (None, found.st_ino):
                self._forget()
            self._inode = found.st_ino
            file.seek(self._size)
            left = min(found.st_size if until is None else until, self._size + MOST_BEHIND) - self._size
            while left > 0 and (piece := file.read(min(left, PIECE))):
                self._sha256.update(piece)
                self._size += len(piece)
                left -= len(piece)
            return Written(self._size, self._sha256.hexdigest())
        return None

    def begins_with(self, stored: Written) -> bool:
        """Return whether the file begins with the content that was stored; if not, none of it counts as read."""
        with suppress(OSError):
            if self.read_on(stored.size) == stored:
                return True
        self._forget()
        return False

    def check_size(self, stored: Written | None) -> None:
        """Refuse a file that is so much longer than its stored content that no run has written it.

        Raises
        ------
        UsageError
            Naming the file.
        """
        size = 0
        with suppress(OSError):  # its writer says what is wrong with it
            size = self.path.lstat().st_size
        if size > MOST_BEHIND + (stored.size if stored else 0):
            raise UsageError(f"{self.path}: it has {size} bytes, far more than this run has written: move it away")

    def _forget(self) -> None:
        self._size, self._sha256, self._inode = 0, hashlib.sha256(), None


class AppendedFiles:
    """All files of a run folder that a run only appends to."""

    def __init__(self, folder: Path) -> None:
        self._files = {name: Appended(folder / name) for name in APPENDED}

    def synced(self) -> dict[str, Written]:
        """Sync all files, so that a commit may name their content, and return the content of each by name."""
        written = {name: file.synced() for name, file in self._files.items()}
        return {name: each for name, each in written.items() if each is not None}

    def sound(self, stored: Mapping[str, Written], rounds: int) -> dict[str, Written]:
        """Return the entries of `stored` for files that are unchanged; a warning names each file that was changed.

        No byte of the model depends on these files: the run may go on.

        Parameters
        ----------
        stored
            Name -> content of the file when the checkpoint was written.
        rounds
            How many rounds the checkpoint holds.

        Raises
        ------
        UsageError
            If a file is far longer than any that a run writes.
        """
        sound = {}
        for name, file in self._files.items():
            written = stored.get(name)
            file.check_size(written)
            if written is not None and file.begins_with(written):
                sound[name] = written
            elif written is not None:
                log.warning(
                    "%s is not what was written up to round %d: it was changed by hand, or lost in part; the "
                    "run continues with it, and its content on these rounds may be wrong",
                    file.path, rounds,
                )  # fmt: skip
        return sound
