"""A disk that can lose what was not synced: the server's own code writes to it by Python's own functions.

The files lie in a folder of the machine, best in memory. Whatever is opened for writing, renamed, removed or synced
below that folder is an operation; at a given one the session ends, and nothing that is done later reaches the disk.
"""

# What `pathlib` calls is replaced here:
# ruff: noqa: PTH112, PTH115, PTH116, PTH118

from __future__ import annotations

import builtins
import errno
import io
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.faults.schedules import Kill

_open, _os_open, _fdopen, _fsync = io.open, os.open, os.fdopen, os.fsync
_replace, _unlink, _mkdir = os.replace, os.unlink, os.mkdir
WRITING = os.O_WRONLY | os.O_RDWR


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


class Disk:
    """A folder, and what of it would survive a power failure.

    Parameters
    ----------
    root
        The folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.operations = 0
        self._prefix = f"{root}{os.sep}"
        self._kill: Kill | None = None
        self._dead = False
        self._open: list[Any] = []  # what is opened for writing in this session
        self._synced: dict[int, bytes] = {}  # inode -> content, as it was last synced
        self._entries: dict[str, dict[str, int]] = {str(root): {}}  # folder -> name -> inode, as last synced
        self._changes: list[tuple[str, str, int | None]] = []  # (folder, name, inode or gone), not synced yet

    @contextmanager
    def session(self, kill: Kill | None) -> Iterator[None]:
        """Watch what is done to the folder in the block, and end it where `kill` says."""
        self._kill, self._dead, self.operations = kill, False, 0
        patched = {
            (io, "open"): self._opened, (builtins, "open"): self._opened, (os, "fdopen"): self._fd_opened,
            (os, "fsync"): self._sync, (os, "replace"): self._rename, (os, "rename"): self._rename,
            (os, "unlink"): self._remove, (os, "mkdir"): self._make,
        }  # fmt: skip
        before = {place: getattr(*place) for place in patched}
        for (module, name), function in patched.items():
            setattr(module, name, function)
        try:
            yield
        finally:
            for (module, name), function in before.items():
                setattr(module, name, function)
            for stream in self._open:
                stream.close()
            self._open = []

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

    def fail(self) -> None:
        """Lose what a power failure loses: of what was not synced, a part."""
        assert self._kill is not None
        rng = random.Random(self._kill.seed)
        contents = {}
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = os.path.join(folder, name)
                with _open(path, "rb") as file:
                    contents[os.stat(path).st_ino] = file.read()
        kept = {inode: self._after_failure(inode, data, rng) for inode, data in contents.items()}
        for folder in dict.fromkeys(change[0] for change in self._changes):  # in order in each, and in none among them
            mine = [change for change in self._changes if change[0] == folder]
            for change in mine[: rng.randint(0, len(mine))]:
                self._apply(*change)
        shutil.rmtree(self.root)
        self.root.mkdir()
        entries, before = self._entries, self._synced
        self._entries, self._changes, self._synced = {str(self.root): {}}, [], {}
        for folder, names in entries.items():
            Path(folder).mkdir(parents=True, exist_ok=True)
            for name, inode in names.items():
                path = Path(folder, name)
                path.write_bytes(kept.get(inode, before.get(inode, b"")))  # or what a lost rename has uncovered
                self._entries.setdefault(folder, {})[name] = path.stat().st_ino
                self._synced[path.stat().st_ino] = path.read_bytes()

    def _after_failure(self, inode: int, data: bytes, rng: random.Random) -> bytes:
        """Return what a file holds afterwards: what was synced, or all, or something between."""
        synced = self._synced.get(inode, b"")
        if synced == data or rng.random() < 0.3:
            return data
        if data.startswith(synced) and rng.random() < 0.5:
            return data[: rng.randint(len(synced), len(data))]
        return synced

    def _apply(self, folder: str, name: str, inode: int | None) -> None:
        names = self._entries.setdefault(folder, {})
        if inode is None:
            names.pop(name, None)
        else:
            names[name] = inode

    # --- Python's functions -------------------------------------------------------------------------------------------

    def _is_below(self, path: Any) -> bool:
        return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(self._prefix)

    def _opened(self, file: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
        if not (self._is_below(file) and set(mode) & {*"wax+"}):
            return _open(file, mode, *given, **named)
        self.operation(takes_room=True)
        stream = _open(file, mode, 0)
        self._note(str(file), os.fstat(stream.fileno()).st_ino)
        self._open.append(stream)
        return _Stream(stream, self, is_buffered=given[:1] != (0,) and named.get("buffering") != 0)

    def _fd_opened(self, descriptor: int, mode: str = "r", *given: Any, **named: Any) -> Any:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if not (self._is_below(path) and set(mode) & {*"wax+"}):
            return _fdopen(descriptor, mode, *given, **named)
        self.operation()
        self._note(path, os.fstat(descriptor).st_ino)
        stream = _fdopen(descriptor, mode, 0)
        self._open.append(stream)
        return _Stream(stream, self, is_buffered=named.get("buffering") != 0)

    def _sync(self, descriptor: Any) -> None:
        number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
        path = os.readlink(f"/proc/self/fd/{number}")
        if not (self._is_below(path) or path == str(self.root)):
            return
        self.operation()
        if os.path.isdir(path):
            for folder, name, inode in self._changes:
                if folder == path:
                    self._apply(folder, name, inode)
            self._changes = [change for change in self._changes if change[0] != path]
        else:
            with _open(path, "rb") as file:
                self._synced[os.fstat(number).st_ino] = file.read()

    def _rename(self, source: Any, target: Any, **named: Any) -> None:
        if self._is_below(target):
            self.operation()
            inode = os.stat(source).st_ino
            self._changes += [(*os.path.split(os.fspath(source)), None), (*os.path.split(os.fspath(target)), inode)]
        _replace(source, target, **named)

    def _remove(self, path: Any, **named: Any) -> None:
        if self._is_below(path):
            if os.path.lexists(path):
                self.operation()
            self._changes.append((*os.path.split(os.fspath(path)), None))
        _unlink(path, **named)

    def _make(self, path: Any, *given: Any, **named: Any) -> None:
        if self._is_below(path):
            self.operation()
        _mkdir(path, *given, **named)  # a folder that was made is there: none of our claims is about an empty one
        if self._is_below(path):
            self._entries.setdefault(os.fspath(path), {})

    def _note(self, path: str, inode: int) -> None:
        folder, name = os.path.split(path)
        if self._entries.get(folder, {}).get(name) != inode and (folder, name, inode) not in self._changes:
            self._changes.append((folder, name, inode))


class _Stream:
    """A file that is written to; what Python has buffered is lost with the process."""

    def __init__(self, stream: Any, disk: Disk, *, is_buffered: bool) -> None:
        self._stream, self._disk, self._is_buffered = stream, disk, is_buffered
        self._buffer = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

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
                    self._stream.write(data[: len(data) // 2])
                raise
            self._stream.write(data)

    def truncate(self, size: int | None = None) -> int:
        self.flush()
        self._disk.operation()
        done: int = self._stream.truncate(size)
        return done

    def seek(self, *given: int) -> int:
        self.flush()
        place: int = self._stream.seek(*given)
        return place

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self._stream.close()

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
