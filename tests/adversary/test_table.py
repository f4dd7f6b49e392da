"""The table of faults names tests that exist, and leaves none out that the attack found; later ones may be added."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
COUNTS = {"A": 11, "B": 4, "C": 6, "D": 6, "E": 3, "F": 4, "U": 3}


def test_every_test_of_the_table_exists():
    named = set(re.findall(r"`(test_\w+)`", (HERE / "README.md").read_text(encoding="utf-8")))
    texts = [path.read_text(encoding="utf-8") for path in HERE.parent.rglob("test_*.py")]
    defined = {name for text in texts for name in re.findall(r"^def (test_\w+)", text, re.MULTILINE)}
    assert len(named) > 30
    assert named - defined == set()


def test_no_fault_is_left_out():
    rows = re.findall(r"^\| ([A-FU]\d.*?) \|", (HERE / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    faults = {word for row in rows for word in row.split(", ")}
    assert faults >= {f"{letter}{number}" for letter, count in COUNTS.items() for number in range(1, count + 1)}
