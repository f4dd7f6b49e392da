"""Measure what a run takes of its machine: processor time and memory of this process and of its children.

Both are read from /proc, so that no package is needed; on a machine without /proc they are None.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from fedlearn.core.clock import Clock

PROC = Path("/proc")
LOOK = 1.0  # seconds between looks at the processes of a run
PPID, UTIME, CSTIME, STARTTIME = 1, 11, 14, 19  # fields of /proc/PID/stat behind the name: parent, times, beginning


def cpu_seconds() -> float | None:
    """Return the processor time so far, in seconds over all cores, that of ended children included."""
    family = _family()
    ticks = sum(sum(map(int, fields[UTIME : CSTIME + 1])) for fields in family.values())
    return ticks / os.sysconf("SC_CLK_TCK") if family else None


class ProcessorTime:
    """Count the processor time of a run over all of its sessions.

    Parameters
    ----------
    earlier
        Seconds that earlier sessions took until they stored their last round; None if they are not known.
    """

    def __init__(self, earlier: float | None) -> None:
        self._earlier = self._seen = earlier
        self._began = cpu_seconds()
        self._looked = time.monotonic()

    def seconds(self) -> float | None:
        """Return the seconds so far, over all cores; None if they are not known."""
        now = cpu_seconds()
        if now is None or self._began is None or self._earlier is None:
            return None
        return self._earlier + now - self._began

    def lately(self) -> float | None:
        """Return the seconds as of at most `LOOK` ago: a look takes milliseconds where there are many processes."""
        if time.monotonic() - self._looked >= LOOK:
            self._looked, self._seen = time.monotonic(), self.seconds()
        return self._seen


class RunTime:
    """Count how long a run takes over all of its sessions: in real time, and of processors.

    Parameters
    ----------
    wall
        Real time.
    seconds, cpu_seconds
        What earlier sessions took until they stored their last round; None of processor time that is not known.
    """

    def __init__(self, wall: Clock, seconds: float, cpu_seconds: float | None) -> None:
        self._wall, self._earlier, self._began = wall, seconds, wall.now()
        self.processor = ProcessorTime(cpu_seconds)

    @property
    def seconds(self) -> float:
        """The seconds so far, in real time."""
        return self._earlier + self._wall.now() - self._began


def memory_bytes(process: int | None = None) -> int | None:
    """Return the proportional set size in bytes: memory that several processes share counts once.

    Parameters
    ----------
    process
        Whose memory, with that of its descendants; of this process unless given.
    """
    if not (family := _family(process)):
        return None
    with ThreadPoolExecutor() as readers:  # the system adds up a process's pages meanwhile, milliseconds for each
        kilobytes = [size for size in readers.map(_pss, family) if size is not None]
    return 1024 * sum(kilobytes) if kilobytes else None


def beginning_of(process: int) -> int | None:
    """Return when a process has begun, in ticks since the machine's start; None where it has ended."""
    with suppress(OSError, ValueError, IndexError):
        return int(_stat(str(process)).rpartition(b")")[2].split()[STARTTIME])
    return None


def memory_peak_bytes() -> int | None:
    """Return the largest resident size in bytes that one process of the run has had at any time; None without /proc."""
    return max((size for size in map(_largest, _family()) if size is not None), default=None)


def _family(process: int | None = None) -> dict[int, list[str]]:
    """Return process id -> fields of /proc/PID/stat, for a process (this one) and all of its descendants."""
    stats: dict[int, list[str]] = {}
    with suppress(OSError):
        for each in (entry.name for entry in os.scandir(PROC) if entry.name.isdecimal()):
            with suppress(OSError):  # it has just ended
                stats[int(each)] = _stat(each).rpartition(b")")[2].decode().split()
    family = {os.getpid() if process is None else process} & stats.keys()
    while new := {member for member, fields in stats.items() if int(fields[PPID]) in family} - family:
        family |= new
    return {member: stats[member] for member in family}


def _stat(process: str) -> bytes:
    """Return the content of a process's stat; without a Path or a buffer for each of hundreds of processes."""
    descriptor = os.open(f"{PROC}/{process}/stat", os.O_RDONLY)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def _pss(process: int) -> int | None:
    """Return a process's proportional set size in kB."""
    return _kilobytes(process, "smaps_rollup", "Pss:")


def _largest(process: int) -> int | None:
    size = _kilobytes(process, "status", "VmHWM:")
    return None if size is None else 1024 * size


def _kilobytes(process: int, file: str, name: str) -> int | None:
    with suppress(OSError, ValueError):
        for line in (PROC / str(process) / file).read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    return None
