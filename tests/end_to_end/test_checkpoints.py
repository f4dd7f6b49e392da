"""A run that was paused before features had rooms of their own resumes to the bytes that it had then."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests.checkpoints import ROWS, run

STORED = Path(__file__).parent / "checkpoints"
EXPECTED = json.loads((STORED / "expected.json").read_text(encoding="utf-8"))
QUICK = {"backdoor", "anchor", "nodes, adaptive clip"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in ROWS])
def test_a_run_that_was_paused_before_resumes_to_the_same_bytes(name, tmp_path):
    with tarfile.open(STORED / f"{name}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    paused = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))["model_sha256"]
    if run(ROWS[name], tmp_path / "anew")["model_sha256"] != paused:
        pytest.skip("this kind of processor comes to other bytes before the pause, too")
    assert run({**ROWS[name], "stop.after": 0}, tmp_path / "run")["model_sha256"] == EXPECTED[name]
