"""Cells of an experiment that have ended, a line of a file each, so that a command goes on where it was stopped."""

from __future__ import annotations

import json
import subprocess
from datetime import date
from pathlib import Path
from typing import Any


def ended(file: Path) -> list[dict[str, Any]]:
    """Return what has ended, a line each; a line that was cut off by a kill counts for nothing."""
    found = []
    for line in file.read_text().splitlines() if file.exists() else []:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def keep(file: Path, cell: dict[str, Any]) -> dict[str, Any]:
    """Add a cell to the file with its date and commit, and return it."""
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    cell = cell | {"date": date.today().isoformat(), "commit": head.stdout.strip()}
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as lines:
        lines.write(json.dumps(cell) + "\n")
    return cell
