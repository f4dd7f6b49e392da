"""Measure memory, shared pages counted once, and processor time of a process and its descendants."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

LOOK = 0.5  # seconds between readings
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Watched:
    """Measurements of a command.

    Parameters
    ----------
    looks
        Pairs (seconds since the epoch, processor seconds of all processes by then), the first at the beginning.
    pss
        The largest memory in bytes; 0 if memory was not read.
    """

    printed: str
    looks: Sequence[tuple[float, float]]
    pss: int

    @property
    def began(self) -> float:
        """When the command began, in seconds since the epoch."""
        return self.looks[0][0]

    @property
    def cpu(self) -> float:
        """Processor seconds of the whole command."""
        return self.looks[-1][1]

    def cpu_between(self, begin: float, end: float) -> float:
        """Return the processor seconds between two moments, interpolated between the readings around them."""
        moments, used = np.array(self.looks).T
        return float(np.interp(end, moments, used) - np.interp(begin, moments, used))


def watched(command: Sequence[str], *, memory: bool = False) -> Watched:
    """Run a command in the project's folder; raise CalledProcessError where it fails."""
    pss, looks = 0, [(time.time(), 0.0)]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL, cwd=ROOT)
        while process.poll() is None:
            time.sleep(LOOK)
            looks.append((time.time(), max(cpu_of_children(process.pid), looks[-1][1])))
            pss = max(pss, pss_of_children(process.pid)) if memory else 0
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        output.seek(0)
        return Watched(output.read(), looks, pss)


def pss_of_children(pid: int) -> int:
    """Return the proportional set size of a process and all its descendants, in bytes (Linux).

    PSS divides each shared page by the number of processes that map it, so that the sum counts it once.
    """
    return sum(_pss(process.pid) for process in _family(pid))


def cpu_of_children(pid: int) -> float:
    """Return the seconds of processor time that a process and all its living descendants have used."""
    return sum(_cpu(process) for process in _family(pid))


def _family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _cpu(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def _pss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return 0  # the process has just ended
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
