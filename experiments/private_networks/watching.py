"""The processor time of a command and of all processes it has started, over time."""

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
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Watched:
    """What a command has printed, and pairs (seconds since the epoch, processor seconds used by then)."""

    printed: str
    looks: Sequence[tuple[float, float]]

    @property
    def cpu(self) -> float:
        """Processor seconds of the whole command."""
        return self.looks[-1][1]

    def cpu_between(self, begin: float, end: float) -> float:
        """Return the processor seconds between two moments, interpolated between the readings around them."""
        moments, used = np.array(self.looks).T
        return float(np.interp(end, moments, used) - np.interp(begin, moments, used))


def watched(command: Sequence[str]) -> Watched:
    """Run a command in the project's folder; raise CalledProcessError where it fails."""
    looks = [(time.time(), 0.0)]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL, cwd=ROOT)
        while process.poll() is None:
            time.sleep(LOOK)
            looks.append((time.time(), max(_cpu_of_family(process.pid), looks[-1][1])))
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        output.seek(0)
        return Watched(output.read(), looks)


def _cpu_of_family(pid: int) -> float:
    used = 0.0
    try:
        parent = psutil.Process(pid)
        for each in (parent, *parent.children(recursive=True)):
            times = each.cpu_times()
            used += times.user + times.system
    except psutil.NoSuchProcess:
        return 0.0
    return used
