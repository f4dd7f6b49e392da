"""Tests that a README names as what holds a claim are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_holds_a_claim_of_privacy_is_there():
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "fedlearn/privacy/README.md").read_text(encoding="utf-8")))
    files = [file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py")]
    there = {name for text in files for name in re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)}
    assert len(named) > 20 and named <= there, named - there
