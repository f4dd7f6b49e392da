"""Processor time and memory of a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fedlearn.runs import usage

pytestmark = pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc")

HOLDS = """
import sys
held = bytearray(60_000_000)
held[::4096] = b"x" * len(held[::4096])
print(flush=True)
sys.stdin.read()
"""


def test_memory_and_time_of_a_child_are_counted():
    before, began = usage.memory_bytes(), usage.cpu_seconds()
    with subprocess.Popen([sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        assert usage.memory_bytes() - before > 50_000_000
        child.stdin.close()
    assert usage.cpu_seconds() >= began


def test_without_proc_nothing_is_known(monkeypatch, tmp_path):
    monkeypatch.setattr(usage, "PROC", tmp_path)
    assert usage.memory_bytes() is None and usage.cpu_seconds() is None
