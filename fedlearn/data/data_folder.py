"""The user's folder of data sets, the identity of its files, and whether downloads are allowed."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from fedlearn.core.errors import SettingError
from fedlearn.data.reading import size_of

NETWORK_TIMEOUT = 20.0  # seconds without an answer

_offline = ContextVar("offline", default=False)  # of this thread or task alone: other threads may download meanwhile


def data_folder(data_dir: str, *, wanted: str) -> tuple[Path | None, str]:
    """Return the data folder, or None; and a text for an error, which says that `wanted` is not in the folder.

    Parameters
    ----------
    data_dir
        The setting ``data.dir``; empty means the environment variable FEDLEARN_DATA.
    wanted
        Subject and verb of that text, as ``"adult.parquet is"``.

    Raises
    ------
    SettingError
        If `data_dir` is no folder.
    """
    named = data_dir or os.environ.get("FEDLEARN_DATA", "")
    if not named:
        return None, "data.dir and FEDLEARN_DATA are not set"
    folder = Path(named).expanduser().absolute()
    if data_dir and not folder.is_dir():
        raise SettingError("data.dir", data_dir, "there is no such folder")
    if not folder.is_dir():
        return None, f"FEDLEARN_DATA = {named} is not a folder"
    return folder, f"{wanted} not in {folder}"


def identity(*paths: Path) -> str:
    """Return a text that changes when a regular file is replaced: real paths, sizes and times of change."""
    found = [(path, size_of(path)) for path in paths]
    return "\n".join(f"{path.resolve()} {stat.st_size} {stat.st_mtime_ns}" for path, stat in found)


@contextmanager
def no_downloads() -> Iterator[None]:
    """Let `check_download` refuse downloads, as long as the block lasts."""
    before = _offline.set(True)
    try:
        yield
    finally:
        _offline.reset(before)


def check_download() -> None:
    """Raise OSError, as a missing network would, within `no_downloads`; loaders call it before they download."""
    if _offline.get():
        raise OSError("not tried: only a run may download")


@contextmanager
def socket_timeout(seconds: float) -> Iterator[None]:
    """Give sockets of this process a timeout, for downloads by libraries that have no parameter for it."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def one_line(error: Exception) -> str:
    """Return the text of an error in one line; the name of its class if it has no text."""
    return " ".join(str(error).split()) or type(error).__name__
