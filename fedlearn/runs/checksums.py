"""manifest.json: the checksums of the files of a run that has ended, and of its data and own code; and their check.

Checksums find damage and careless edits. Who changes a file on purpose computes its checksum anew, too: against that
only running the run again helps.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fedlearn.core.errors import CheckpointError
from fedlearn.runs.appended import Appended
from fedlearn.runs.environment import versions
from fedlearn.runs.file_names import (
    ANALYSIS,
    BEST,
    CHECKPOINT,
    CLASSES,
    DATA,
    DEALT,
    ENVIRONMENT,
    EVENTS,
    FROZEN,
    HISTORY,
    MANIFEST,
    MODEL,
    MODELS,
    NODES,
    PARTS,
    SETTINGS,
    STATISTICS,
    SUMMARY,
    TABLE,
    WHOLE,
    state_name,
)
from fedlearn.runs.files import sha256, write_atomically
from fedlearn.runs.manifest import Manifest
from fedlearn.runs.safe_reading import read_as
from fedlearn.runs.stored_round import read_part

FILES = (SETTINGS, ENVIRONMENT, DATA, DEALT, EVENTS, NODES, TABLE, MODEL, BEST, FROZEN, CHECKPOINT, CLASSES, STATISTICS,
         ANALYSIS, SUMMARY, f"{MODELS}/*.safetensors", f"{WHOLE}/*/{CHECKPOINT}", "objects/*.pickle")  # fmt: skip
REPORTED = ("[!.]*", "**/[!.]*")  # of a report


@dataclass(frozen=True, slots=True)
class Checksums:
    """The content of `manifest.json`.

    Parameters
    ----------
    files
        Name -> SHA-256.
    data
        The fingerprint of the data set; empty where its rows are private, as a hash would tell of them.
    code
        File -> SHA-256 of own code.
    packages
        Name -> version; also of Python.
    sha256
        That of all else in this file.
    """

    files: dict[str, str]
    data: str = ""
    code: dict[str, str] = field(default_factory=dict)
    packages: dict[str, str | None] = field(default_factory=dict)
    sha256: str = ""

    @property
    def own(self) -> str:
        """The SHA-256 that the content should have."""
        content = {name: value for name, value in asdict(self).items() if name != "sha256"}
        return sha256(json.dumps(content, sort_keys=True).encode())


def write_checksums(folder: Path) -> None:
    """Write the checksums of a run that has ended; none where its folder cannot be read or written any more."""
    with suppress(CheckpointError, OSError):
        manifest = Manifest.read(folder / CHECKPOINT)
        _write(folder, Checksums(_found(folder, FILES), manifest.data, dict(manifest.code), versions()))


def write_report_checksums(folder: Path) -> None:
    """Write the checksums of the pages, tables and figures of a report."""
    _write(folder, Checksums(_found(folder, REPORTED)))


def _write(folder: Path, found: Checksums) -> None:
    content = {**asdict(found), "sha256": found.own}
    write_atomically(folder / MANIFEST, json.dumps(content, indent=1).encode())


def _found(folder: Path, patterns: tuple[str, ...]) -> dict[str, str]:
    paths = sorted({path for pattern in patterns for path in folder.glob(pattern)})
    found = {str(path.relative_to(folder)): digest for path in paths if (digest := _sha256(path))}
    return {name: digest for name, digest in found.items() if name != MANIFEST}


def _sha256(path: Path) -> str:
    """Return the SHA-256 of a file; empty if it is none that can be read."""
    with suppress(OSError):
        return content.sha256 if (content := Appended(path).read_on()) else ""
    return ""


def read_checksums(folder: Path) -> Checksums | None:
    """Return the checksums of a folder; None where there are none.

    Raises
    ------
    ValueError
        If the file is not what was written.
    """
    found = read_as(Checksums, folder / MANIFEST)
    if found is not None and found.own != found.sha256:
        raise ValueError("it was changed: its SHA-256 is not the one that it holds")
    return found


def changed_files(folder: Path, found: Checksums) -> Iterator[str]:
    """Yield a line for each file that has changed, gone or come since the checksums were written."""
    for name, digest in found.files.items():
        now = _sha256(folder / name)
        if now != digest:
            yield f"{name}: it was changed" if now else f"{name}: it is missing"
    patterns = FILES if CHECKPOINT in found.files else REPORTED
    yield from (f"{name}: it was added" for name in _found(folder, patterns) if name not in found.files)


def changed_parts(folder: Path, *, has_ended: bool) -> Iterator[str]:
    """Yield a line for each part of the last stored round that is not what `checkpoint.json` names.

    Of a run that has ended no other parts are left.
    """
    try:
        manifest = Manifest.read(folder / CHECKPOINT)
        history = read_part(folder, HISTORY, manifest.history_sha256, first=manifest.history_bytes)
    except CheckpointError as error:
        yield str(error).partition(";")[0]
        return
    for name, digest in manifest.files.items():
        try:
            read_part(folder, name, digest, first=manifest.sizes.get(name))
        except CheckpointError as error:
            yield str(error).partition(";")[0]
    parts = (f"{PARTS}/{path.name}" for path in sorted((folder / PARTS).glob("*")) if has_ended)
    yield from (f"{name}: it was added" for name in parts if name not in {*manifest.files, HISTORY})
    if _sha256(folder / MODEL) != manifest.files.get(state_name(manifest.rounds)):
        yield f"{MODEL}: it is not the model of round {manifest.rounds} in {CHECKPOINT}"
    yield from _changed_numbers(folder / TABLE, [json.loads(line) for line in history.splitlines()])
    with suppress(OSError, ValueError):
        if json.loads((folder / SUMMARY).read_bytes()).get("model_sha256") != _sha256(folder / MODEL):
            yield f"{SUMMARY}: its model_sha256 is not that of {MODEL}"


def _changed_numbers(path: Path, history: list[dict[str, float | None]]) -> Iterator[str]:
    """Yield a line for each number of the table of rounds that differs from the stored history."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, ValueError, csv.Error):
        yield f"{path.name}: it cannot be read"
        return
    if len(rows) != len(history):
        yield f"{path.name}: it has {len(rows)} rounds in place of {len(history)}"
    for place, (row, stored) in enumerate(zip(rows, history, strict=False), start=1):
        for name, value in stored.items():
            if name in row and not _is_same(row[name], value):
                yield f"{path.name}: round {place}, {name}: {row[name]} in place of {value}"


def _is_same(text: str, value: float | None) -> bool:
    if value is None:
        return text == ""
    with suppress(ValueError):
        return math.isclose(float(text), value, rel_tol=1e-12, abs_tol=6e-7) or text == str(value)
    return False
