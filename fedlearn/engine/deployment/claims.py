"""The partition of a client: the first whose node key no other client has locked."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from fedlearn.cache import trusted as files
from fedlearn.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class Claim:
    """A partition that is claimed while `lock` is open; the operating system releases it when the process ends."""

    partition_id: int
    num_partitions: int
    key: Path
    lock: int


def claim(keys: Path, claims: Path, *, partition_id: int | None = None) -> Claim:
    """Claim a partition for this client.

    Parameters
    ----------
    keys
        Folder with one private key for each partition, named by its number.
    claims
        Folder of locks, shared by all clients of this host.
    partition_id
        The partition to claim; None claims the first free one.
    """
    there = sorted(int(path.name) for path in keys.iterdir() if path.name.isdigit()) if keys.is_dir() else []
    if not there:
        raise UsageError(
            f"--keys {keys}: there is no client key; run fedlearn keys on the server, and copy nodes/N here"
        )
    if partition_id is not None and partition_id not in there:
        raise UsageError(f"partition {partition_id}: there is no client key {keys / str(partition_id)}")
    claims.mkdir(parents=True, exist_ok=True)
    for each in there if partition_id is None else [partition_id]:
        lock = os.open(claims / str(each), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
        try:
            if not files.lock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB):
                _without_locks(claims, partition_id)
        except BlockingIOError:
            os.close(lock)
            continue
        return Claim(each, there[-1] + 1, keys / str(each), lock)
    which = f"partition {partition_id} is" if partition_id is not None else f"all {len(there)} partitions are"
    raise UsageError(f"{which} taken by other clients: start no more clients than keys were made for (CLIENTS)")


def _without_locks(claims: Path, partition_id: int | None) -> None:
    """On a disk without locks raise UsageError if no partition is named, else warn that the claim is not checked."""
    if partition_id is None:
        raise UsageError(
            f"--claims {claims}: its disk knows no locks: name a folder on another disk, or give --partition"
        )
    files.say_once(f"--claims {claims}: its disk knows no locks: start no second client for partition {partition_id}")
