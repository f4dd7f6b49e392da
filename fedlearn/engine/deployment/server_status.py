"""The status of a server: its sites, the run in progress, the latest runs, disks, and the certificate.

All is read from files, of a server that runs or not: Flower's database in the folder ``state`` (which clients are
registered, and until when each counts as online), and the logs below the folder of runs. No score and nothing of a
record is in it; of a run whose draws are secret, no counts of clients.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from fedlearn.core.errors import UsageError
from fedlearn.engine.deployment.server_processes import PROCESS, SEEN
from fedlearn.runs.file_names import EVENTS
from fedlearn.runs.folder import RunFolder
from fedlearn.runs.log import Event, EventTail, RunView
from fedlearn.runs.machine_usage import beginning_of, memory_bytes
from fedlearn.runs.secret_participation import is_secret, of_the_run

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
    version
        Of fedlearn, as the client says it; empty if it has not said one.
    behind
        Seconds by which its clock, and the way, are behind the server's at its last request; None if unknown.
    updates, refusals
        Updates in the latest runs; its refusals, by word.
    """

    client: int
    fingerprint: str
    is_online: bool
    last_seen: str
    version: str = ""
    behind: float | None = None
    updates: int = 0
    refusals: dict[str, int] = field(default_factory=dict)


def hides_counts(log: Path) -> bool:
    """Return whether the draws of a run are secret, or its settings cannot be read."""
    try:
        return is_secret(RunFolder(log.parent).read_settings())
    except (UsageError, OSError):
        return True


def shown_events(tail: EventTail, *, hides: bool) -> Iterator[Event]:
    """Yield the new events of a log; with `hides`, without events and counts that reveal which clients took part."""
    for event in tail.read():
        if (shown := of_the_run(event) if hides else event) is not None:
            yield shown


class RunRead:
    """What the log of a run says: its progress, and by client its updates and refusals."""

    def __init__(self, log: Path) -> None:
        self._log, self._tail, self._view, self._ended = log, EventTail(log), RunView(), ""
        self._hides = hides_counts(log)
        self.updates: Counter[int] = Counter()
        self.refused: dict[int, Counter[str]] = {}

    def read_on(self) -> None:
        """Read what was appended to the log; what is no log of ours ends where it stops being one."""
        with suppress(OSError, KeyError, TypeError, ValueError):
            for event in shown_events(self._tail, hides=self._hides):
                self._view.take(event)
                if event["event"] == "reported":
                    self.updates[int(event["partition"])] += 1
                if event["event"] in REFUSING:
                    word = str(event.get("reason", "")).partition(":")[0][:40]
                    self.refused.setdefault(int(event["partition"]), Counter())[word] += 1
                self._ended = event["status"] if event["event"] == "ended" else ""

    @property
    def withholds(self) -> bool:
        """Whether the run is in progress and no count of its clients may show: memory would tell of messages."""
        return self._hides and not self._ended

    def about(self) -> dict[str, Any]:
        """Return the progress of the run as plain values."""
        view, ended = self._view, self._ended
        return {
            "name": self._log.parent.name, "state": ended or "in progress", "phase": "" if ended else view.phase,
            "completed": view.committed, "rounds": view.rounds, "attempt": view.attempt, "warning": view.warning,
        }  # fmt: skip


def status_of(
    *, keys: Path, state: Path, runs: Path, now: datetime | None = None, read: dict[Path, RunRead] | None = None
) -> dict[str, Any]:
    """Return the status as plain values.

    Parameters
    ----------
    read
        The logs that the calls before have read, which this one reads on; it changes.

    Raises
    ------
    UsageError
        If the database of clients cannot be read.
    """
    now, read = now or datetime.now(UTC), {} if read is None else read
    logs = sorted(runs.glob(f"*/{EVENTS}"), key=_changed)[-LATEST:]
    for log in {*read} - {*logs}:
        del read[log]
    for log in logs:
        read.setdefault(log, RunRead(log)).read_on()
    sites, said = _sites(state / "superlink.db", now), _said(state / SEEN)
    for site in sites:
        about = said.get(site.fingerprint, {})
        site.version, site.behind = about.get("version", ""), about.get("behind")
        site.updates = sum(each.updates[site.client] for each in read.values())
        words = sum((each.refused.get(site.client, Counter()) for each in read.values()), Counter[str]())
        site.refusals = dict(sorted(words.items()))
    return {
        "time": now.isoformat(timespec="seconds"),
        "sites": [asdict(site) for site in sites],
        "runs": [read[log].about() for log in reversed(logs)],
        "disk_free_bytes": {
            name: shutil.disk_usage(folder).free
            for name, folder in (("state", state), ("runs", runs))
            if folder.is_dir()
        },
        "memory_bytes": None if any(each.withholds for each in read.values()) else server_memory(state),
        "certificate_until": _certificate(keys),
    }


def server_memory(state: Path) -> int | None:
    """Return the memory of the server that keeps its state in a folder; None where it is not running on this machine.

    Pages that its processes share count once. A server in containers, a part each, is none that is known here.
    """
    with suppress(OSError, ValueError, KeyError, TypeError):
        about = json.loads((state / PROCESS).read_bytes())
        process = int(about["process"])
        if about["began"] is not None and about["began"] == beginning_of(process):
            return memory_bytes(process)
    return None


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


def _said(file: Path) -> dict[str, dict[str, Any]]:
    """Return what the clients' requests have said, by the fingerprint of the key (`admission.Seen`)."""
    with suppress(OSError, ValueError, AttributeError):
        return dict(json.loads(file.read_bytes()).items())
    return {}


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


def _certificate(keys: Path) -> str:
    from fedlearn.engine.deployment.deployment_keys import valid_until

    with suppress(OSError, ValueError):
        return valid_until(keys).isoformat(timespec="seconds")
    return ""
