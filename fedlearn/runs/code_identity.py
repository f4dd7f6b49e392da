"""Own code is a part of a run's identity: a resume with other code is refused, unless it is accepted."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fedlearn.config import RunConfig, to_flower
from fedlearn.core.errors import UsageError
from fedlearn.plugins.own_code import own_code
from fedlearn.runs.arithmetic import CHANGES, changes_since
from fedlearn.runs.file_names import CHECKPOINT
from fedlearn.runs.files import storing, write_atomically
from fedlearn.runs.manifest import Manifest

log = logging.getLogger(__name__)


def code_of(config: RunConfig) -> dict[str, str]:
    """Return file -> SHA-256 of the own code that settings name."""
    return own_code(value for value in to_flower(config).values() if isinstance(value, str))


def checked_code(folder: Path, config: RunConfig) -> dict[str, str]:
    """Return the own code of a run, once that of a stored run is found to be the same.

    Raises
    ------
    UsageError
        Naming the first file that has changed.
    """
    code = code_of(config)
    if not (folder / CHECKPOINT).exists():
        return code
    manifest = Manifest.read(folder / CHECKPOINT)
    if changed := changed_code(manifest.code, code):
        raise UsageError(
            f"{changed[0]}: it has changed since the run in {folder} began, and is part of that run: restore it, or "
            "continue with the present code by --accept-code; the results will say so"
        )
    if code and not manifest.code:
        log.warning(
            "%s: the version that began the run stored no checksums of own code: it continues unchecked", folder
        )
    return code


def changed_code(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the files that have changed or gone, of those that were there before."""
    return [name for name, digest in before.items() if now.get(name) != digest]


def accept_code(folder: Path, config: RunConfig) -> None:
    """Let the run in a folder go on with code as it is, own and fedlearn's, and note what changed after which round."""
    manifest, code = Manifest.read(folder / CHECKPOINT), code_of(config)
    changed = changed_code(manifest.code, code)
    changed += [f"fedlearn's {name}" for name in changes_since(manifest.arithmetic)]
    if changed:
        accepted = [*manifest.accepted, f"{', '.join(changed)} after round {manifest.rounds}"]
        manifest = replace(manifest, code=code, accepted=accepted, arithmetic=len(CHANGES))
        with storing(folder):
            write_atomically(folder / CHECKPOINT, manifest.packed())


def said_of_accepted(folder: Path) -> list[str]:
    """Return a line for each change of code that was accepted in the run in a folder."""
    if not (folder / CHECKPOINT).exists():
        return []
    return [f"code was changed, and accepted: {each}" for each in Manifest.read(folder / CHECKPOINT).accepted]
