"""The status of a server: its sites, the run in progress, the latest runs, disks, and the certificate.

All is read from files, of a server that runs or not: Flower's database in the folder ``state`` (which clients are
registered, and until when each counts as online), and the logs below the folder of runs. No score and nothing of a
record is in it; of a run whose draws are secret, no counts of clients.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from fedlearn.core.errors import UsageError
from fedlearn.runs.log import EventTail, RunView
from fedlearn.runs.names import EVENTS

LATEST = 10  # runs that are read
PREFIX = "partition-"  # of the name under which a client's key is registered
NODES = """
    SELECT name, public_key, status, online_until, last_activated_at, last_deactivated_at
    FROM node WHERE unregistered_at IS NULL
"""
REFUSING = ("refused", "not-ready")


@dataclass
class Site:
    """One client that is registered.

    Parameters
    ----------
    client
        Its number; -1 where its key was registered by another name.
    fingerprint
        The first 16 hexadecimal digits of the SHA-256 of its public key.
    is_online, last_seen
        Whether it counts as online; else when it last did, in UTC.
    updates, refusals
        Updates in the latest runs; its refusals, by word.
    """

    client: int
    fingerprint: str
    is_online: bool
    last_seen: str
    updates: int = 0
    refusals: dict[str, int] = field(default_factory=dict)


def status_of(*, keys: Path, state: Path, runs: Path, now: datetime | None = None) -> dict[str, Any]:
    """Return the status as plain values.

    Raises
    ------
    UsageError
        If the database of clients cannot be read.
    """
    now = now or datetime.now(UTC)
    logs = sorted(runs.glob(f"*/{EVENTS}"), key=_changed)[-LATEST:]
    read = [_run_of(log) for log in logs]
    sites = _sites(state / "superlink.db", now)
    for site in sites:
        site.updates = sum(updates[site.client] for _, updates, _ in read)
        words: Counter[str] = Counter()
        for _, _, refused in read:
            words += refused.get(site.client, Counter())
        site.refusals = dict(sorted(words.items()))
    return {
        "time": now.isoformat(timespec="seconds"),
        "sites": [asdict(site) for site in sites],
        "runs": [run for run, *_ in reversed(read)],
        "disk_free_bytes": {
            name: shutil.disk_usage(folder).free
            for name, folder in (("state", state), ("runs", runs))
            if folder.is_dir()
        },
        "certificate_until": _certificate(keys),
    }


def _changed(log: Path) -> float:
    with suppress(OSError):  # it has just been moved away
        return log.stat().st_mtime
    return 0.0


def _sites(database: Path, now: datetime) -> list[Site]:
    if not database.exists():
        return []
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, timeout=10)) as opened:
            rows = opened.execute(NODES).fetchall()
    except sqlite3.Error as error:
        raise UsageError(f"{database}: {error}: is it the folder --state of a server?") from None
    return sorted((_site(row, now) for row in rows), key=lambda site: site.client)


def _site(row: Sequence[Any], now: datetime) -> Site:
    name, key, status, until, activated, deactivated = row
    number = str(name).removeprefix(PREFIX)
    is_online = status == "online" and float(until or 0) > now.timestamp()
    ended = datetime.fromtimestamp(float(until), UTC).isoformat() if until else ""
    last = now.isoformat() if is_online else max(ended if activated else "", deactivated or "")
    return Site(
        int(number) if number.isdecimal() else -1, sha256(bytes(key)).hexdigest()[:16], is_online,
        min(last, now.isoformat())[:19],
    )  # fmt: skip


def _run_of(log: Path) -> tuple[Mapping[str, Any], Counter[int], dict[int, Counter[str]]]:
    """Return what a log says of its run, and by client its updates and refusals."""
    view, updates, refused, ended = RunView(), Counter[int](), dict[int, Counter[str]](), ""
    with suppress(OSError, KeyError, TypeError, ValueError):  # what is no log of ours ends where it stops being one
        for event in EventTail(log).read():
            view.take(event)
            if event["event"] == "reported":
                updates[int(event["partition"])] += 1
            if event["event"] in REFUSING:
                word = str(event.get("reason", "")).partition(":")[0][:40]
                refused.setdefault(int(event["partition"]), Counter())[word] += 1
            ended = event["status"] if event["event"] == "ended" else ""
    about = {
        "name": log.parent.name, "state": ended or "in progress", "phase": "" if ended else view.phase,
        "completed": view.committed, "rounds": view.rounds, "attempt": view.attempt, "warning": view.warning,
    }  # fmt: skip
    return about, updates, refused


def _certificate(keys: Path) -> str:
    from fedlearn.engine.deployment.keys import valid_until

    with suppress(OSError, ValueError):
        return valid_until(keys).isoformat(timespec="seconds")
    return ""
