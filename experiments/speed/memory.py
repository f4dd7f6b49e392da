"""Measure memory, shared pages counted once, and processor time of a process and its descendants."""

from __future__ import annotations

from pathlib import Path

import psutil


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
