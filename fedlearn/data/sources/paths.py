"""Data sets by a path or name on the command line: a folder, a file, or a name on the Hub."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedlearn.core.errors import DataNotFound, SettingError
from fedlearn.data.data_folder import data_folder
from fedlearn.data.dataset import Dataset
from fedlearn.data.naming import FILE_SUFFIXES, HUB
from fedlearn.data.reading import ending_of, one_line_errors
from fedlearn.plugins import tables
from fedlearn.plugins.options import options_for
from fedlearn.plugins.registry import load_reference

WINDOW = "window"  # the option by which a table is read as series
ELSE = ": give the path of one that is there"
RESERVED = ("data", "file", "folder", "path", "name")  # parameters of readers that are no options

Options = Mapping[str, Any]


@one_line_errors
def from_path(name: str, data_dir: str, options: Options) -> Dataset:
    """Return the data set at a path, which is looked for here, then in the data folder; or the data set of the Hub.

    Raises
    ------
    DataNotFound
        If there is no such file, folder or data set.
    SettingError
        If this kind of data does not have an option.
    """
    if name.startswith(HUB):
        return _read(HUB, name.removeprefix(HUB), options, name=name)
    path = _found(name, data_dir)
    kind = _kind_of(path)
    if tables.DATA_READERS.get(kind) == tables.DATA_READERS[".csv"] and WINDOW in options:
        kind = "windows"
    if kind not in tables.DATA_READERS:
        raise SettingError("data.dataset", name, f"a data file must end in {', '.join(FILE_SUFFIXES)}")
    return _read(kind, path, options)


def _read(kind: str, data: str | Path, options: Options, **named: str) -> Dataset:
    read: Callable[..., Dataset] = load_reference(tables.DATA_READERS[kind])
    return read(data, **named, **options_for(read, options, setting="data.options", reserved=RESERVED, whole=True))


def _found(name: str, data_dir: str) -> Path:
    path = Path(name).expanduser()
    if path.is_absolute() or path.exists():
        looked_at = str(path.absolute())
    else:
        folder, looked_at = data_folder(data_dir, wanted=name)
        path = folder / path if folder is not None else path
    if not path.exists():
        hint = f"; for the Hugging Face Hub write {HUB}{name}" if name.count("/") == 1 and not path.suffix else ""
        raise DataNotFound(
            f"data.dataset = {name!r}: there is no such file or folder here, and {looked_at}{hint or ELSE}"
        )
    return path.absolute()


def _kind_of(path: Path) -> str:
    """Return the kind of a folder or file, by which `plugins.DATA_READERS` has its reader."""
    if not path.is_dir():
        return ending_of(path)
    if next((path / "train").glob("*.npz"), None):
        return "folder of .npz"
    is_leaf = any(next(part.glob("*.json"), None) for part in (path, path / "train"))
    return "folder of .json" if is_leaf else "folder"
