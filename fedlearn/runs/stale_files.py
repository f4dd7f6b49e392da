"""Find and remove files that no checkpoint names: remains of a killed write, or of a checkpoint that is gone."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from fedlearn.core.errors import CheckpointError
from fedlearn.runs.file_names import BEST, CHECKPOINT, FROZEN, HISTORY, MODEL, PARTS, TABLE, memory_name, state_name


def check_not_lost(folder: Path) -> None:
    """Refuse, by a CheckpointError, a folder without a checkpoint in which rounds were stored."""
    begun = {state_name(0), memory_name(0)}
    for path in sorted((folder / PARTS).glob("[!.]*")):
        name = f"{PARTS}/{path.name}"
        if name not in begun and (name != HISTORY or path.stat().st_size):
            raise CheckpointError(
                f"{folder / CHECKPOINT} is missing, though {name} was stored with it: put it back, or begin another "
                "run in another folder (privacy that was spent on these rounds stays spent)"
            )


def clear(folder: Path, named: Collection[str]) -> None:
    """Remove the files that a manifest does not name: those of the round before, and the remains of a killed write."""
    for path in (folder / PARTS).iterdir():
        if f"{PARTS}/{path.name}" not in {*named, HISTORY} and not path.is_dir():
            path.unlink()
    for name in (CHECKPOINT, MODEL, BEST, FROZEN, TABLE):
        (folder / f".{name}.tmp").unlink(missing_ok=True)
