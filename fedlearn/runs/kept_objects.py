"""Keep code that was given as objects in the run folder: it is written before the run, and read by its processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from fedlearn.config import RunConfig, to_flower
from fedlearn.core.errors import SettingError
from fedlearn.plugins import objects
from fedlearn.runs.file_names import CHECKPOINT
from fedlearn.runs.files import sha256, storing, write_atomically
from fedlearn.runs.folder import RunFolder
from fedlearn.runs.manifest import Manifest


@contextmanager
def objects_kept(config: RunConfig) -> Iterator[None]:
    """Keep the objects that the settings name in the run folder; remove them again if no run was begun.

    Raises
    ------
    SettingError
        If the settings name an object that was neither given to this process nor found in a folder known to it.
    """
    folder = RunFolder(Path(config.out))
    contents = {
        folder.path / objects.file_of(reference): _content(setting, reference)
        for setting, value in to_flower(config).items()
        for reference in objects.references_in(str(value))
    }
    new = [path for path in contents if not path.exists()]
    with storing(folder.path):
        for path in new:
            write_atomically(path, contents[path])
        _given_again(folder.path, {f"{objects.FOLDER}/{path.name}": contents[path] for path in new})
    try:
        yield
    finally:
        if not folder.has_settings:
            for path in new:
                path.unlink(missing_ok=True)
            with suppress(OSError):
                (folder.path / objects.FOLDER).rmdir()  # removes only an empty folder


def _given_again(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Let the checkpoint name the new bytes of objects that were given again with the same fingerprints."""
    if not contents or not (folder / CHECKPOINT).exists():
        return
    manifest = Manifest.read(folder / CHECKPOINT)
    known = {name: sha256(content) for name, content in contents.items() if name in manifest.files}
    if known:
        write_atomically(folder / CHECKPOINT, replace(manifest, files={**manifest.files, **known}).packed())


def _content(setting: str, reference: str) -> bytes:
    try:
        return objects.content_of(reference)
    except ImportError as error:
        raise SettingError(setting, reference, f"it cannot be loaded: {error}") from error
