"""A disk in memory that can lose what was not synced: the server's own code writes to it by Python's own functions.

The files lie in no folder of the machine: what Python's functions would ask the operating system about a path below
`ROOT` is answered here. Whatever is opened for writing, renamed, removed or synced there is an operation; at a given
one the session ends, and nothing that is done later reaches the disk.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import random
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from tests.faults.schedules import Kill

ROOT = Path("/a simulated disk/run")
_TOP = str(ROOT)
_PATH = type(ROOT)
_BELOW = f"{_TOP}{os.sep}"
_FIRST_DESCRIPTOR = 1 << 30  # the operating system's own are far smaller
_os = {name: getattr(os, name) for name in (
    "open", "fdopen", "close", "fsync", "fstat", "stat", "lstat", "listdir", "scandir", "mkdir", "unlink", "replace",
)}  # fmt: skip
_open = io.open
_MISSING = os.strerror(errno.ENOENT)


class Killed(BaseException):
    """The server's process is gone.

    Parameters
    ----------
    now
        With this very operation.
    """

    def __init__(self, *, now: bool = False) -> None:
        self.now = now
        super().__init__("killed")


class _File:
    """The content of a file, and its synced part."""

    def __init__(self, number: int, data: bytes = b"") -> None:
        self.number = number
        self.data = bytearray(data)
        self.synced = data


class Disk:
    """A folder, and what of it would survive a power failure."""

    def __init__(self) -> None:
        self.operations = 0
        self._kill: Kill | None = None
        self._dead = False
        self._numbers = count(1)
        self._folders: dict[str, dict[str, _File]] = {_TOP: {}}  # folder -> name -> file
        self._synced: dict[str, dict[str, _File]] = {_TOP: {}}  # the same, as last synced
        self._changes: list[tuple[str, str, _File | None]] = []  # (folder, name, file or gone), not synced yet
        self._opened: dict[int, tuple[_File | str, int]] = {}  # descriptor -> file or folder, flags

    @property
    def names(self) -> list[str]:
        """All files, by their paths below the root, in order."""
        paths = [f"{folder}{os.sep}{name}" for folder, names in self._folders.items() for name in names]
        return sorted(path[len(_BELOW) :] for path in paths)

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Answer for the operating system in the block."""
        ours = {name: getattr(self, f"_{name}") for name in _os}
        places = [(os, name, function) for name, function in ours.items()]
        places += [(os, "rename", self._replace), (io, "open", self._io_open), (builtins, "open", self._io_open)]
        before = [getattr(module, name) for module, name, _ in places]
        for module, name, function in places:
            setattr(module, name, function)
        try:
            yield
        finally:
            for (module, name, _), function in zip(places, before, strict=True):
                setattr(module, name, function)

    @contextmanager
    def session(self, kill: Kill | None) -> Iterator[None]:
        """Count what is done in the block, and end it where `kill` says."""
        self._kill, self._dead, self.operations = kill, False, 0
        try:
            yield
        finally:
            self._kill, self._dead = None, False
            self._opened.clear()

    def operation(self, *, takes_room: bool = False) -> None:
        """Count one, and end the session if it is the last."""
        if self._dead:
            raise Killed
        self.operations += 1
        if self._kill is None or self.operations < self._kill.operation:
            return
        if self._kill.how != "full":
            self._dead = True
            raise Killed(now=True)
        if takes_room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fail(self, seed: int) -> None:
        """Lose what a power failure loses: of what was not synced, a part, by a seed."""
        rng = random.Random(seed)
        there = {file.number: file for names in self._folders.values() for file in names.values()}
        kept = {number: _after_failure(file, rng) for number, file in there.items()}
        for folder in dict.fromkeys(change[0] for change in self._changes):  # in order in each, and in none among them
            mine = [change for change in self._changes if change[0] == folder]
            for change in mine[: rng.randint(0, len(mine))]:
                self._apply(*change)
        self._changes = []
        self._folders = {
            folder: {name: self._new(kept.get(file.number, file.synced)) for name, file in names.items()}
            for folder, names in self._synced.items()
        }  # of a file that a lost rename or removal has uncovered, what was synced
        self._synced = {folder: dict(names) for folder, names in self._folders.items()}

    def _new(self, data: bytes = b"") -> _File:
        return _File(next(self._numbers), data)

    def _apply(self, folder: str, name: str, file: _File | None) -> None:
        names = self._synced.setdefault(folder, {})
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file

    # --- Python's functions -------------------------------------------------------------------------------------------

    def _find(self, path: str) -> _File:
        folder, _, name = path.rpartition(os.sep)
        names = self._folders.get(folder)
        file = names.get(name) if names else None
        if file is None:
            raise FileNotFoundError(errno.ENOENT, _MISSING, path)
        return file

    def _put(self, path: str, file: _File | None) -> None:
        """Have a folder know a file by a name, or forget the name."""
        folder, _, name = path.rpartition(os.sep)
        if folder not in self._folders:
            raise FileNotFoundError(errno.ENOENT, _MISSING, path)
        if file is None:
            del self._folders[folder][name]
        else:
            self._folders[folder][name] = file
        self._changes.append((folder, name, file))

    def _io_open(self, path: Any, mode: str = "r", buffering: int = -1, *given: Any, **named: Any) -> Any:
        if (ours := _ours(path)) is None:
            return _open(path, mode, buffering, *given, **named)
        if mode == "rb":
            return _Reading(self._find(ours), self._described(self._find(ours), os.O_RDONLY))
        self.operation(takes_room=True)
        kind = {"xb": os.O_CREAT | os.O_EXCL, "wb": os.O_CREAT | os.O_TRUNC, "ab": os.O_CREAT | os.O_APPEND}[mode]
        return self._fdopen(self._made(ours, os.O_WRONLY | kind), mode, buffering)

    def _open(self, path: Any, flags: int, mode: int = 0o777, **named: Any) -> int:
        if (ours := _ours(path)) is None:
            return int(_os["open"](path, flags, mode, **named))
        if ours in self._folders:
            return self._described(ours, flags)
        if not flags & (os.O_WRONLY | os.O_RDWR):
            return self._described(self._find(ours), flags)
        self.operation()
        return self._made(ours, flags)

    def _made(self, path: str, flags: int) -> int:
        """Return the descriptor of a file that is to be written, and was made if it was not there."""
        folder, _, name = path.rpartition(os.sep)
        file = self._folders.get(folder, {}).get(name)
        if file is not None and flags & os.O_EXCL:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if file is None:
            if not flags & os.O_CREAT:
                self._find(path)
            file = self._new()
            self._put(path, file)
        if flags & os.O_TRUNC:
            file.data.clear()
        return self._described(file, flags)

    def _described(self, what: _File | str, flags: int) -> int:
        descriptor = _FIRST_DESCRIPTOR + next(self._numbers)
        self._opened[descriptor] = what, flags
        return descriptor

    def _fdopen(self, descriptor: int, mode: str = "r", buffering: int = -1, *given: Any, **named: Any) -> Any:
        if descriptor not in self._opened:
            return _os["fdopen"](descriptor, mode, buffering, *given, **named)
        file, flags = self._opened[descriptor]
        assert isinstance(file, _File)
        if mode == "rb":
            return _Reading(file, descriptor)
        return _Writing(self, file, descriptor, is_buffered=buffering != 0, appends=bool(flags & os.O_APPEND))

    def _close(self, descriptor: int) -> None:
        if self._opened.pop(descriptor, None) is None and descriptor < _FIRST_DESCRIPTOR:
            _os["close"](descriptor)

    def _fsync(self, descriptor: Any) -> None:
        number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
        if number not in self._opened:
            _os["fsync"](number)
            return
        self.operation()
        what, _ = self._opened[number]
        if isinstance(what, _File):
            what.synced = bytes(what.data)
            return
        for folder, name, file in self._changes:
            if folder == what:
                self._apply(folder, name, file)
        self._changes = [change for change in self._changes if change[0] != what]

    def _fstat(self, descriptor: int) -> os.stat_result:
        if descriptor not in self._opened:
            return os.stat_result(_os["fstat"](descriptor))
        return _about(self._opened[descriptor][0])

    def _stat(self, path: Any, **named: Any) -> os.stat_result:
        if (ours := _ours(path)) is None:
            return os.stat_result(_os["stat"](path, **named))
        return _about(ours if ours in self._folders else self._find(ours))

    def _lstat(self, path: Any, **named: Any) -> os.stat_result:
        return os.stat_result(_os["lstat"](path, **named)) if _ours(path) is None else self._stat(path)

    def _listdir(self, path: Any = ".") -> list[str]:
        if (ours := _ours(path)) is None:
            return list(_os["listdir"](path))
        deeper = [folder.rpartition(os.sep) for folder in self._folders]
        return [*(name for folder, _, name in deeper if folder == ours), *self._folders[ours]]

    def _scandir(self, path: Any = ".") -> Any:
        return _os["scandir"](path) if _ours(path) is None else _Scanned(self._listdir(path))

    def _mkdir(self, path: Any, *given: Any, **named: Any) -> None:
        if (ours := _ours(path)) is None:
            _os["mkdir"](path, *given, **named)
            return
        self.operation()
        if ours in self._folders:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), ours)
        self._folders[ours] = {}
        self._synced[ours] = {}  # a folder that was made is there: none of our claims is about an empty one

    def _unlink(self, path: Any, **named: Any) -> None:
        if (ours := _ours(path)) is None:
            _os["unlink"](path, **named)
            return
        self._find(ours)
        self.operation()
        self._put(ours, None)

    def _replace(self, source: Any, target: Any, **named: Any) -> None:
        if (ours := _ours(target)) is None:
            _os["replace"](source, target, **named)
            return
        self.operation()
        before = os.fspath(source)
        file = self._find(before)
        self._put(before, None)
        self._put(ours, file)


def _ours(path: Any) -> str | None:
    """Return a path on the simulated disk as text; None of any other."""
    text = path if type(path) is str else str(path) if type(path) is _PATH else ""
    return text if text.startswith(_BELOW) or text == _TOP else None


def _about(what: _File | str) -> os.stat_result:
    mode, number, size = (stat.S_IFDIR, 0, 0) if isinstance(what, str) else (stat.S_IFREG, what.number, len(what.data))
    return os.stat_result((mode | 0o755, number, 1, 1, 0, 0, size, 0, 0, 0))


def _after_failure(file: _File, rng: random.Random) -> bytes:
    """Return the content of a file after a power failure: the synced part, all, or anything between."""
    synced, data = file.synced, bytes(file.data)
    if synced == data or rng.random() < 0.3:
        return data
    if data.startswith(synced) and rng.random() < 0.5:
        return data[: rng.randint(len(synced), len(data))]
    return synced


class _Scanned(list[Any]):
    """The names in a folder, as `os.scandir` gives them."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(_Entry(name) for name in names)

    def __enter__(self) -> _Scanned:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class _Entry:
    def __init__(self, name: str) -> None:
        self.name = name


class _Reading(io.BytesIO):
    """A file that is read, as it is when it is opened."""

    def __init__(self, file: _File, descriptor: int) -> None:
        super().__init__(file.data)
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor


class _Writing:
    """A file that is written to; what Python has buffered is lost with the process."""

    def __init__(self, disk: Disk, file: _File, descriptor: int, *, is_buffered: bool, appends: bool) -> None:
        self._disk, self._file, self._descriptor = disk, file, descriptor
        self._is_buffered, self._appends = is_buffered, appends
        self._place = 0
        self._buffer = b""

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: Any) -> int:
        self._buffer += bytes(data)
        if not self._is_buffered:
            self.flush()
        return len(data)

    def flush(self) -> None:
        if self._buffer:
            data, self._buffer = self._buffer, b""
            try:
                self._disk.operation(takes_room=True)
            except (OSError, Killed) as end:
                if isinstance(end, OSError) or end.now:  # a disk without room takes what it can, too
                    self._put(data[: len(data) // 2])
                raise
            self._put(data)

    def _put(self, data: bytes) -> None:
        held = self._file.data
        place = len(held) if self._appends else self._place
        held[place : place + len(data)] = data
        self._place = place + len(data)

    def truncate(self, size: int) -> int:
        self.flush()
        self._disk.operation()
        del self._file.data[size:]
        return size

    def seek(self, place: int) -> int:
        self.flush()
        self._place = place
        return place

    def close(self) -> None:
        try:
            self.flush()
        finally:
            os.close(self._descriptor)

    def __enter__(self) -> _Writing:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
