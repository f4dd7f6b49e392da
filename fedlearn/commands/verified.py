"""Compare a run with its checksums, as far as its files, data and code are here; run it again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedlearn.config import RunConfig, config_from
from fedlearn.core.errors import FedlearnError, said
from fedlearn.plugins import objects
from fedlearn.runs.checksums import Checksums, changed_files, changed_parts, read_checksums
from fedlearn.runs.code_identity import changed_code, code_of, said_of_accepted
from fedlearn.runs.environment import environment
from fedlearn.runs.folder import RunFolder
from fedlearn.runs.manifest import Manifest
from fedlearn.runs.names import CHECKPOINT, MANIFEST

NO_MANIFEST = f"{MANIFEST}: there is none: the run is of an earlier version, goes on or was killed, or the file is gone"


@dataclass
class Verified:
    """What `fedlearn verify` has found: `wrong` ends it with exit code 1, `notes` say what it could not see."""

    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    files: int = 0
    again: str = ""


def verified(folder: Path, *, again: bool) -> Verified:
    """Return what differs between a run and its checksums and, with `again`, between its model and one made anew."""
    found, config = Verified(), _settings_of(folder)
    _check_files(folder, found)
    _check_code_and_data(folder, config, found)
    if again:
        found.again = _again(folder, config, found)
    return found


def _settings_of(folder: Path) -> RunConfig:
    return config_from({**RunFolder(folder).read_settings(), "out": str(folder)}, source=str(folder))


def _check_files(folder: Path, found: Verified) -> None:
    checksums = _read(folder, found)
    if checksums is None:
        found.notes.append(NO_MANIFEST)
    else:
        found.files = len(checksums.files)
        found.wrong += changed_files(folder, checksums)
        found.wrong += _other_versions(checksums)
    found.wrong += changed_parts(folder)
    if (report := _read(folder / "report", found)) is not None:
        found.wrong += (f"report/{line}" for line in changed_files(folder / "report", report))


def _read(folder: Path, found: Verified) -> Checksums | None:
    try:
        return read_checksums(folder)
    except (OSError, ValueError) as error:
        found.wrong.append(f"{folder.name}/{MANIFEST}: {said(error)}")
        return None


def _other_versions(checksums: Checksums) -> Iterator[str]:
    here = environment()["packages"]
    for name, version in checksums.packages.items():
        if here.get(name) != version:
            yield f"{name}: the run had version {version}, here is {here.get(name)}"


def _check_code_and_data(folder: Path, config: RunConfig, found: Verified) -> None:
    """Compare own code and data with those of the run, as far as they are here."""
    manifest = Manifest.read(folder / CHECKPOINT)
    here = code_of(config)
    for name in changed_code(manifest.code, here):
        if name in here:
            found.wrong.append(f"{name}: this code was changed since the run")
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
        _check_data(config, manifest.data, found)


def _check_data(config: RunConfig, fingerprint: str, found: Verified) -> None:
    from fedlearn.models.loaded import dataset_of, fingerprint_of

    try:
        if fingerprint_of(config, dataset_of(config)) != fingerprint:
            found.wrong.append(f"data: {said(config.data.dataset)} holds other rows than the run had")
    except (FedlearnError, OSError) as error:
        found.notes.append(f"data: they were not compared: {said(error)}")


def _again(folder: Path, config: RunConfig, found: Verified) -> str:
    """Run the settings again, for as many rounds as the run has; return the SHA-256 of the model."""
    from fedlearn.commands.run_once import run_once

    summary: dict[str, Any] = RunFolder(folder).read_summary()
    objects.look_in(folder)
    with TemporaryDirectory(prefix="fedlearn-verify-") as place:
        rounds = config.rounds.model_copy(update={"total": summary["rounds"]})
        stop = config.stop.model_copy(update={"time_limit": ""})
        repeated = config.model_copy(update={"out": f"{place}/run", "rounds": rounds, "stop": stop})
        sha = str(run_once(repeated, is_new=True).read_summary()["model_sha256"])
    if sha != summary["model_sha256"]:
        found.wrong.append(f"again: the model has the SHA-256 {sha}, not {summary['model_sha256']}")
        if config.privacy.noise == "secure":
            found.notes.append("again: noise that no seed gives is another each time")
    return sha
