"""Keep whole checkpoints in a run folder, and begin another run from one.

A whole checkpoint holds the state, the memories of strategy, selector and nodes, and the typical norms: all that the
rounds after it depend on. Its files are links to those of the stored round, which are never written over (`memories.py`
appends behind the bytes that count), so that they take no further space while the run goes on. History, log and table
of nodes are not kept: they only grow, and the manifest says how many of their bytes belong to the round.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fedlearn.core.errors import CheckpointError
from fedlearn.runs.appended import APPENDED
from fedlearn.runs.file_names import BEST, CHECKPOINT, HISTORY, KEPT_WHOLE, WHOLE, whole_name
from fedlearn.runs.files import storing, sync_folder, write_atomically
from fedlearn.runs.manifest import Manifest, Setting


def keep_whole(folder: Path, manifest: Manifest) -> None:
    """Keep the round that a manifest names; before the round counts, so that a kill loses none."""
    place = folder / whole_name(manifest.rounds)
    for name in (*manifest.files, BEST):
        if (folder / name).exists():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            _link(folder / name, place / name)
    write_atomically(place / CHECKPOINT, manifest.packed())
    sync_folder(place)


def kept_rounds(folder: Path) -> list[int]:
    """Return the rounds of which whole checkpoints are kept, in order."""
    names = (path.parent.name for path in (folder / WHOLE).glob(f"*/{CHECKPOINT}"))
    return sorted(int(found[1]) for name in names if (found := KEPT_WHOLE.fullmatch(name)))


def begin_from(folder: Path, round_number: int, other: Path, settings: Mapping[str, Setting]) -> Manifest:
    """Make a run folder that holds the round which another one has kept; return its manifest.

    A kill leaves no checkpoint there; a second call then makes the folder whole.

    Parameters
    ----------
    other
        The folder that is made.
    settings
        What the run in it has to keep (`settings.kept_settings`).

    Raises
    ------
    CheckpointError
        If a file is missing, or the checkpoint is of another round.
    """
    place = folder / whole_name(round_number)
    manifest = Manifest.read(place / CHECKPOINT)
    if manifest.rounds != round_number:
        raise CheckpointError(f"{place}: it holds round {manifest.rounds}: put back the checkpoint that was written")
    sizes = {name: manifest.sizes.get(name) for name in manifest.files}
    with storing(other):
        for name, size in sizes.items():
            _copy(place / name, other / name, size)
        if (place / BEST).exists():
            _copy(place / BEST, other / BEST, None)
        _copy(folder / HISTORY, other / HISTORY, manifest.history_bytes)
        for name in APPENDED:
            if name in manifest.appended:
                _copy(folder / name, other / name, manifest.appended[name].size)
        write_atomically(other / CHECKPOINT, replace(manifest, settings=dict(settings)).packed())
    return manifest


def _link(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)  # of a round that a kill has left, and that is made again
    try:
        os.link(source, target)
    except OSError:  # a disk without links
        shutil.copy(source, target)


def _copy(source: Path, target: Path, size: int | None) -> None:
    """Write the first bytes of a file into another one; None: all of them. Later bytes tell of later rounds."""
    try:
        with source.open("rb") as file:
            data = file.read(-1 if size is None else size)
    except OSError as error:
        raise CheckpointError(f"{source}, from which training would begin, cannot be read: {error.strerror}") from None
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, data)
    shutil.copymode(source, target)  # the strategy's memory is for the owner of the run alone
