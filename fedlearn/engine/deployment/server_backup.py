"""Backup and restore of a server: its keys with the log of admissions, and its runs, in one file.

The file is a plain tar. Its last member is a list of all files with their SHA-256, so a file that was cut or changed is
found before anything is written. Messages in transit (``state``) are not in it: an interrupted run goes on from its
last completed round. Nothing of a client is in it, either: a ledger that is older than the last answer would forget
what was spent.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import file_digest
from pathlib import Path, PurePosixPath
from typing import IO

from fedlearn.core.errors import RunFailed, UsageError, quoted
from fedlearn.engine.deployment.admitting import Admissions
from fedlearn.privacy.ledger_lines import LedgerDamaged

LIST = "backup.json"
PARTS = ("keys", "runs")
TRIES, PAUSE = 40, 0.25  # a run that is written to is copied again, after so many seconds
LARGEST_LIST = 1 << 28  # bytes


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup holds.

    Parameters
    ----------
    made
        When, in UTC.
    files
        Their number.
    runs
        Names of the runs.
    left_out
        Links and other files that are no plain ones.
    later
        Steps of admission that came after it, of a restore.
    """

    made: str
    files: int
    runs: list[str]
    left_out: list[str]
    later: int = 0


def back_up(file: Path, *, keys: Path, runs: Path) -> Backup:
    """Write a backup, while the server runs; an existing file is replaced once the new one is whole.

    Raises
    ------
    UsageError
        If there are no keys, or the file would lie in a folder that it holds.
    RunFailed
        If a run is written to all the time.
    """
    if not (keys / "public" / "ca.crt").is_file():
        raise UsageError(f"--keys {keys}: it has no public/ca.crt: name the folder of the server's keys")
    if any(file.absolute().is_relative_to(folder.absolute()) for folder in (keys, runs)):
        raise UsageError(f"{file}: name a file outside of {keys} and {runs}")
    sums: dict[str, str] = {}
    left_out: list[str] = []
    names = sorted(each.name for each in runs.iterdir() if each.is_dir()) if runs.is_dir() else []
    aside = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(aside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)  # it holds private keys
    try:
        with os.fdopen(descriptor, "wb") as opened, tarfile.open(fileobj=opened, mode="w") as tar:
            for folder, name in [(keys, "keys"), *((runs / name, f"runs/{name}") for name in names)]:
                with _copied(folder, beside=file.absolute().parent) as copy:
                    for path in sorted(copy.rglob("*")):
                        inside = f"{name}/{path.relative_to(copy).as_posix()}"
                        if path.is_symlink() or not (path.is_file() or path.is_dir()):
                            left_out.append(inside)
                        elif path.is_file():
                            sums[inside] = _sum_of(path)
                            tar.add(path, inside, recursive=False)
            made = datetime.now(UTC).isoformat(timespec="seconds")
            about = json.dumps({"made": made, "runs": names, "sha256": sums}).encode()
            member = tarfile.TarInfo(LIST)
            member.size = len(about)
            tar.addfile(member, io.BytesIO(about))
            tar.close()
            opened.flush()
            os.fsync(opened.fileno())
        aside.replace(file)
    finally:
        aside.unlink(missing_ok=True)
    return Backup(made, len(sums), names, left_out)


@contextmanager
def _copied(folder: Path, *, beside: Path) -> Iterator[Path]:
    """Yield a copy of a folder that was not written to while it was made, with its modes; remove it at the end."""
    with tempfile.TemporaryDirectory(dir=beside, prefix=".backup-") as place:
        copy = Path(place) / "copy"
        for _ in range(TRIES):
            before = _seen(folder)
            try:
                shutil.copytree(folder, copy, symlinks=True)
            except (OSError, shutil.Error):  # a file was renamed or removed meanwhile; or it stays unreadable
                if before == _seen(folder):
                    raise
            else:
                if before == _seen(folder):
                    break
            shutil.rmtree(copy, ignore_errors=True)
            time.sleep(PAUSE)
        else:
            raise RunFailed(f"{folder}: it is written to all the time: back up when this run has ended")
        yield copy


def _seen(folder: Path) -> list[tuple[str, int, int, int]]:
    seen = []
    for path in sorted(folder.rglob("*")):
        with suppress(FileNotFoundError):
            found = path.lstat()
            seen.append((str(path), found.st_ino, found.st_size, found.st_mtime_ns))
    return seen


def restore(file: Path, folder: Path, *, log: Path | None = None) -> Backup:
    """Restore the folders ``keys`` and ``runs`` of a backup into a folder that has neither; a failure writes nothing.

    Parameters
    ----------
    log
        A later copy of the log of admissions: what it says since the backup counts, such as a revocation.

    Raises
    ------
    UsageError
        If the folder has one of them, the file is no whole backup, or the log is not one that follows the backup's.
    """
    for part in PARTS:
        if (folder / part).exists() and (not (folder / part).is_dir() or any((folder / part).iterdir())):
            raise UsageError(f"{folder / part}: it is not empty, and nothing is replaced: name another --folder")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".restore-") as place:
        try:
            with tarfile.open(file, mode="r:") as tar:
                about = _unpacked(tar, Path(place))
        except (tarfile.TarError, ValueError, KeyError, TypeError, AttributeError, RecursionError, EOFError) as error:
            raise UsageError(f"{file}: it is no whole backup of a server ({error}): take an older one") from None
        if log is not None:
            later = _later(log, Path(place) / "keys")
            about = replace(about, later=later)
        for part in PARTS:
            if (Path(place) / part).exists():
                if (folder / part).is_dir():
                    (folder / part).rmdir()
                (Path(place) / part).rename(folder / part)
    return about


def _later(log: Path, keys: Path) -> int:
    try:
        return Admissions(keys).go_on_from(log.read_bytes())
    except OSError as error:
        raise UsageError(f"--log {log}: {error.strerror}") from None
    except (LedgerDamaged, UsageError) as error:
        raise UsageError(f"--log {log}: {error}") from None


def _unpacked(tar: tarfile.TarFile, place: Path) -> Backup:
    """Write the members of a backup, and compare them with its list; raise ValueError where they differ."""
    found: dict[str, str] = {}
    about = None
    for member in tar:
        if member.name == LIST and about is None and member.isfile() and member.size <= LARGEST_LIST:
            about = json.loads(_opened(tar, member).read())
            continue
        inside = PurePosixPath(member.name)
        is_ours = len(inside.parts) > 1 and inside.parts[0] in PARTS and ".." not in inside.parts
        if not (member.isfile() and is_ours and inside.as_posix() == member.name and member.name not in found):
            raise ValueError(f"{quoted(member.name)} is no file of one")
        path = place / inside
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        with path.open("wb") as written:
            shutil.copyfileobj(_opened(tar, member), written)
        path.chmod(member.mode & 0o755)
        found[member.name] = _sum_of(path)
    if about is None:
        raise ValueError("its list of files is missing")
    if found != dict(about["sha256"]):
        differing = sorted({*found.items()} ^ {*about["sha256"].items()})
        raise ValueError(f"{quoted(differing[0][0])} is not as it was written")
    return Backup(str(about["made"]), len(found), [str(name) for name in about["runs"]], [])


def _opened(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    opened = tar.extractfile(member)
    assert opened is not None
    return opened


def _sum_of(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
