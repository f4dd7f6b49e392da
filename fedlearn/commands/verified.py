"""Compare a run with its checksums, as far as its files, data and code are here; run it again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from fedlearn.config import RunConfig, config_from
from fedlearn.core.errors import CheckpointError, FedlearnError, UsageError, said
from fedlearn.models.loaded import dataset_of, fingerprint_of
from fedlearn.plugins import objects
from fedlearn.runs.checksums import Checksums, changed_files, changed_parts, read_checksums
from fedlearn.runs.code_identity import changed_code, code_of, said_of_accepted
from fedlearn.runs.environment import versions
from fedlearn.runs.file_names import CHECKPOINT, EVENTS, MANIFEST, SETTINGS, SUMMARY, state_name
from fedlearn.runs.folder import RunFolder
from fedlearn.runs.manifest import Manifest

NO_MANIFEST = f"{MANIFEST}: missing: the run is of an earlier version, is running or was killed"
GONE = f"{MANIFEST}: it is missing, and the run has ended: no file but those of {CHECKPOINT} can be compared"


@dataclass
class Verified:
    """What `fedlearn verify` has found: `wrong` ends it with exit code 1, `notes` say what it could not see."""

    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    files: int = 0
    again: str = ""


def verified(folder: Path, *, again: bool) -> Verified:
    """Return what differs between a run and its checksums and, with `again`, between its model and one made anew."""
    found = Verified()
    config, manifest = _settings_of(folder, found), _checkpoint_of(folder)
    _check_files(folder, manifest, found)
    if config is None:
        found.notes.append(f"{SETTINGS}: code and data were not compared, as it cannot be read")
        return found
    if manifest is not None:
        _check_code_and_data(folder, config, manifest, found)
        if again:
            found.again = _again(folder, config, manifest, found)
    return found


def _settings_of(folder: Path, found: Verified) -> RunConfig | None:
    """Return the settings of the run; None, and what is wrong with them is found, if they cannot be read.

    Raises
    ------
    UsageError
        If the folder holds no run.
    """
    try:
        return config_from({**RunFolder(folder).read_settings(), "out": str(folder)}, source=str(folder))
    except UsageError as error:
        if not any((folder / name).exists() for name in (MANIFEST, CHECKPOINT, SUMMARY)):
            raise
        found.wrong.append(f"{SETTINGS}: it cannot be read as it was written: {said(error)}")
        return None


def _checkpoint_of(folder: Path) -> Manifest | None:
    """Return the content of `checkpoint.json`; None where it cannot be read, which `changed_parts` says."""
    with suppress(CheckpointError):
        return Manifest.read(folder / CHECKPOINT)
    return None


def _check_files(folder: Path, manifest: Manifest | None, found: Verified) -> None:
    checksums = _read(folder, found)
    writes_checksums = manifest is not None and manifest.arithmetic > 0  # its version does
    if checksums is not None:
        found.files = len(checksums.files)
        found.wrong += changed_files(folder, checksums)
        found.wrong += _other_versions(checksums)
    elif not (folder / MANIFEST).exists():
        is_gone = writes_checksums and _has_ended(folder)
        (found.wrong if is_gone else found.notes).append(GONE if is_gone else NO_MANIFEST)
    found.wrong += changed_parts(folder, has_ended=checksums is not None)
    pages = folder / "report"
    if (report := _read(pages, found)) is not None:
        found.wrong += (f"report/{line}" for line in changed_files(pages, report))
    elif pages.is_dir() and not (pages / MANIFEST).exists():
        said_of = f"report/{MANIFEST}: it is missing: pages, tables and figures cannot be compared"
        (found.wrong if writes_checksums else found.notes).append(said_of)


def _has_ended(folder: Path) -> bool:
    """Return whether the log's last line is the end of the run, after which its checksums are written."""
    with suppress(OSError, ValueError, IndexError, TypeError, KeyError):
        last = (folder / EVENTS).read_bytes().splitlines()[-1]
        return bool(json.loads(last)["event"] == "ended")
    return False


def _read(folder: Path, found: Verified) -> Checksums | None:
    try:
        return read_checksums(folder)
    except (OSError, ValueError) as error:
        found.wrong.append(f"{folder.name}/{MANIFEST}: {said(error)}")
        return None


def _other_versions(checksums: Checksums) -> Iterator[str]:
    here = versions()
    for name, version in checksums.packages.items():
        if here.get(name) != version:
            yield f"{name}: the run had version {version}, here is {here.get(name)}"


def _check_code_and_data(folder: Path, config: RunConfig, manifest: Manifest, found: Verified) -> None:
    """Compare own code and data with those of the run, as far as they are here."""
    here = code_of(config)
    for name in changed_code(manifest.code, here):
        if name in here:
            found.wrong.append(f"{name}: this code was changed since the run")
        elif here:
            found.wrong.append(f"{name}: this code is missing, beside other code of the run")
        else:
            found.notes.append(f"{name}: this code is not here: start from the folder that it is imported from")
    found.notes += said_of_accepted(folder)
    if not manifest.data:
        found.notes.append(
            "data: private rows have no hash, as that would tell of them: nobody sees whether they differ"
        )
    elif any(objects.references_in(config.data.dataset)):
        found.notes.append("data: they were given as an object, which is not opened here: --again reads them")
    else:
        _check_data(folder, config, manifest.data, found)


def _check_data(folder: Path, config: RunConfig, fingerprint: str, found: Verified) -> None:
    try:
        dataset = dataset_of(config)
        if fingerprint_of(config, dataset) != fingerprint:
            found.wrong.append(f"data: {said(config.data.dataset)} holds other rows than the run had")
        elif RunFolder(folder).has_other_table(dataset.spec):
            found.wrong.append(f"data: {said(config.data.dataset)} declares its table in another way than for the run")
    except (FedlearnError, OSError) as error:
        found.notes.append(f"data: they were not compared: {said(error)}")


def _again(folder: Path, config: RunConfig, manifest: Manifest, found: Verified) -> str:
    """Run the settings again, for as many rounds as the run has; return the SHA-256 of the model."""
    from fedlearn.commands.run_once import run_once

    before = manifest.files.get(state_name(manifest.rounds))
    objects.look_in(folder)
    with TemporaryDirectory(prefix="fedlearn-verify-") as place:
        rounds = config.rounds.model_copy(update={"total": manifest.rounds})
        stop = config.stop.model_copy(update={"time_limit": ""})
        repeated = config.model_copy(update={"out": f"{place}/run", "rounds": rounds, "stop": stop})
        sha = str(run_once(repeated, is_new=True).read_summary()["model_sha256"])
    if sha != before:
        found.wrong.append(f"again: the model has the SHA-256 {sha}, not {before}")
        if config.privacy.noise == "secure":
            found.notes.append("again: noise that no seed gives is another each time")
    return sha
