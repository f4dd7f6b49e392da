"""Files in a run folder that no checkpoint names: the remains of a killed write, or of a checkpoint that is gone."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from fedlearn.runs.names import BEST, CHECKPOINT, HISTORY, MODEL, PARTS, TABLE, memory_name, state_name


def without_a_checkpoint(folder: Path) -> str:
    """Return the name of a file that shows that rounds were committed; empty if there is none."""
    begun = {state_name(0), memory_name(0)}
    for path in sorted((folder / PARTS).glob("[!.]*")):
        name = f"{PARTS}/{path.name}"
        if name not in begun and (name != HISTORY or path.stat().st_size):
            return name
    return ""


def clear(folder: Path, named: Collection[str]) -> None:
    """Remove the files that a manifest does not name: those of the round before, and the remains of a killed write."""
    for path in (folder / PARTS).iterdir():
        if f"{PARTS}/{path.name}" not in {*named, HISTORY} and not path.is_dir():
            path.unlink()
    for name in (CHECKPOINT, MODEL, BEST, TABLE):
        (folder / f".{name}.tmp").unlink(missing_ok=True)
