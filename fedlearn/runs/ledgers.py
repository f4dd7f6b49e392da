"""Keep the privacy ledger of a node's data in files of the node's owner, over all runs and servers.

```text
FOLDER/
├── NAME.ledger               a line for each booking and each publication, only ever appended to
├── NAME.head                 the least number of lines that there must be, and their running checksum
├── NAME.published/SHA256     a published answer, to be sent again
└── NAME.lock                 locked by the process that spends, until its answer is kept; not empty after a head
```

A line is synced before the head that counts it is written: a crash leaves at most sound lines that no head counts.
If there is no head, though the lock or an answer shows that there was one, lines may be gone: no budget is spent then.
NAME.sets, with a head and a lock of its own, is kept in the same way: the sets of exact sums (`runs.node_sets`).
If the owner puts back both files from an older copy, the node forgets what it has spent since the copy was made: a
folder cannot detect this.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from fedlearn.cache import trusted as files
from fedlearn.core.errors import UsageError, quoted
from fedlearn.privacy.ledger_lines import LedgerDamaged, check_of, lines_in
from fedlearn.runs.files import sync_folder, write_atomically

SUFFIX = ".ledger"
FULL = 10 * 2**30  # bytes of answers that are kept for one data set, not counting the last one
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Seen(NamedTuple):
    """How the files of a ledger look, so that a change of them shows: number of lines; what `stat` says of each."""

    lines: int
    file: tuple[int, ...] = ()
    head: tuple[int, ...] = ()


class LedgerFile:
    """The files of one data set's ledger; a `fedlearn.privacy.ledger.Storage`.

    Parameters
    ----------
    folder
        The folder of the node's owner; made if it does not exist.
    name
        The owner's name for the data: letters, digits, dots, dashes, underscores; at most 100.
    suffix
        Of the file of lines; another one has a head and a lock of its own.

    Raises
    ------
    UsageError
        If the name is not such a name.
    """

    def __init__(self, folder: Path, name: str, *, suffix: str = SUFFIX) -> None:
        if not _NAME.fullmatch(name):
            raise UsageError(f"data name {quoted(name)}: letters, digits, dots, dashes and underscores, at most 100")
        self.name = name
        self.path = folder / f"{name}{suffix}"
        beside = _beside(suffix)
        self._head = folder / f"{name}.{beside}head"
        self._lock = folder / f"{name}.{beside}lock"
        self._published = folder / f"{name}.{beside}published"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until no other process spends, and let no other process spend in the block; a process that dies lets go.

        Raises
        ------
        UsageError
            If the disk cannot keep a ledger.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._lock.open("ab") as file:
            self._locked(file, fcntl.LOCK_EX)
            yield

    def check_disk(self) -> None:
        """Raise UsageError if the disk cannot keep a ledger: two processes could spend one budget, or forget it."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock.open("ab") as file, suppress(BlockingIOError):
                self._locked(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(f"--ledger {self.path.parent}: {error.strerror}: name a folder of yours") from None

    def _locked(self, file: BinaryIO, kind: int) -> None:
        if not files.lock(file.fileno(), kind):
            missing = "knows no locks"
        elif not self.path.exists() and not files.sync_folder(self.path.parent):
            missing = "syncs no folders"
        else:
            return
        raise UsageError(
            f"--ledger {self.path.parent}: its disk {missing}: two processes could spend the same budget, or a power "
            "failure have it forgotten; name a folder on another disk"
        )

    def read(self) -> bytes:
        """Return all lines; empty if there is no ledger yet."""
        is_counted = self._head.exists()  # asked first, as the head is written after the first line
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            if is_counted or self._was_counted():
                self._check(b"")
            return b""
        with file:
            files.lock(file.fileno(), fcntl.LOCK_SH)  # a line and the head that counts it are seen together
            lines = file.read()
            self._check(lines)
        return lines

    def append(self, lines: bytes, *, after: Seen | None = None) -> None:
        """Append lines and sync them, then count them in the head; lines that cannot be written are removed again.

        Parameters
        ----------
        after
            What the caller has read, so that it need not be read again where the file is still the same.
        """
        with self.path.open("a+b", buffering=0) as file:
            self._locked(file, fcntl.LOCK_EX)
            size = os.fstat(file.fileno()).st_size
            if after is None or self.seen(after.lines) != after:
                file.seek(0)
                after = Seen(lines_in(file.read()))
            try:
                _write(file, lines)
            except OSError:
                with suppress(OSError):
                    file.truncate(size)
                raise
            if not size:
                sync_folder(self.path.parent)
            counted = {"lines": after.lines + lines_in(lines), "check": check_of(lines)}
            write_atomically(self._head, json.dumps(counted).encode())
            if not _size_of(self._lock):
                with self._lock.open("ab", buffering=0) as lock:  # in place, as other processes wait for this very file
                    _write(lock, b"there is a head\n")

    def seen(self, lines: int) -> Seen:
        """Return how file and head look now, after so many lines were read; it differs once one of them is written."""
        return Seen(lines, *(_look_of(each) for each in (self.path, self._head)))

    def keep(self, sha256: str, answer: bytes) -> None:
        """Keep the bytes of an answer under their SHA-256."""
        write_atomically(self._published / sha256, answer)

    def kept(self, sha256: str) -> bytes:
        """Return the bytes of an answer; empty if they are gone."""
        try:
            return (self._published / sha256).read_bytes()
        except OSError:
            return b""

    def is_full(self) -> bool:
        """Return whether no more answers are kept: a server could fill the disk with them. The answers are public."""
        return sum(_size_of(answer) for answer in self._published.glob("*")) >= FULL

    def _was_counted(self) -> bool:
        """Return whether there has been a head, by the files that are written after it."""
        return _size_of(self._lock) > 0 or bool(list(self._published.glob("*")))

    def _check(self, lines: bytes) -> None:
        """Raise LedgerDamaged if lines that the head has counted are gone or were changed."""
        try:
            head = json.loads(self._head.read_bytes())
            counted, check = int(head["lines"]), str(head["check"])
        except FileNotFoundError:
            if lines_in(lines) > 2 or self._was_counted():  # a crash leaves at most the first call's lines so
                raise LedgerDamaged(1, f"and all others are counted by {self._head.name}, which is missing") from None
            return
        except (ValueError, TypeError, KeyError):
            raise LedgerDamaged(1, f"and all others are counted by {self._head.name}, which is damaged") from None
        found = lines_in(lines)
        if found < counted:
            raise LedgerDamaged(found + 1, f"is missing: {counted} were written")
        upto = b"".join(lines.splitlines(keepends=True)[:counted])
        if check_of(upto) != check:
            raise LedgerDamaged(counted, f"is not the one that {self._head.name} names")


def names_in(folder: Path, *, suffix: str = SUFFIX) -> list[str]:
    """Return the names of the data whose ledgers lie in a folder, also of ledgers whose lines are gone."""
    suffixes = (suffix, *(f".{_beside(suffix)}{word}" for word in ("head", "published")))
    found = {path.stem for each in suffixes for path in folder.glob(f"*{each}")}
    return sorted(name for name in found if _NAME.fullmatch(name))


def _beside(suffix: str) -> str:
    """Return what stands before "head" and so on in the names of files beside one of this suffix."""
    return "" if suffix == SUFFIX else f"{suffix[1:]}-"


def _look_of(file: Path) -> tuple[int, ...]:
    with suppress(FileNotFoundError):
        found = file.stat()
        return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return ()


def _size_of(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


def _write(file: BinaryIO, data: bytes) -> None:
    while data:
        data = data[file.write(data) :]
    os.fsync(file.fileno())
