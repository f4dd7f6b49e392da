"""Processor time and memory of a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fedlearn.runs import machine_usage

pytestmark = pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc")

HOLDS = """
import sys
held = bytearray(60_000_000)
held[::4096] = b"x" * len(held[::4096])
print(flush=True)
sys.stdin.read()
"""


def test_memory_and_time_of_a_child_are_counted():
    before, began = machine_usage.memory_bytes(), machine_usage.cpu_seconds()
    with subprocess.Popen([sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        assert machine_usage.memory_bytes() - before > 50_000_000
        child.stdin.close()
    assert machine_usage.cpu_seconds() >= began


def test_without_proc_nothing_is_known(monkeypatch, tmp_path):
    monkeypatch.setattr(machine_usage, "PROC", tmp_path)
    assert machine_usage.memory_bytes() is None and machine_usage.cpu_seconds() is None


def test_processor_time_goes_on_from_earlier_sessions(monkeypatch):
    readings = iter([100.0, 103.0, 107.0])
    monkeypatch.setattr(machine_usage, "cpu_seconds", lambda: next(readings))
    monkeypatch.setattr(machine_usage, "LOOK", 0.0)
    taken = machine_usage.ProcessorTime(earlier=50.0)
    assert (taken.lately(), taken.seconds()) == (53.0, 57.0)


def test_processes_are_looked_at_once_a_second(monkeypatch):
    readings = iter([100.0])
    monkeypatch.setattr(machine_usage, "cpu_seconds", lambda: next(readings))
    assert machine_usage.ProcessorTime(earlier=50.0).lately() == 50.0


@pytest.mark.parametrize(("earlier", "now"), [(None, 3.0), (50.0, None)])
def test_processor_time_is_unknown_where_a_part_of_it_is(earlier, now, monkeypatch):
    monkeypatch.setattr(machine_usage, "cpu_seconds", lambda: now)
    assert machine_usage.ProcessorTime(earlier).seconds() is None
