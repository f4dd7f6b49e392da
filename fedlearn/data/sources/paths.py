"""Data sets by a path or name on the command line: a folder, a file, or a name on the Hub."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedlearn.data.dataset import Dataset
from fedlearn.data.folder import data_folder
from fedlearn.data.reading import check_unpacked, one_line_errors, opened, size_of
from fedlearn.data.sources.arrays import from_arrays
from fedlearn.data.sources.columns import from_table
from fedlearn.data.sources.image_folder import from_folder
from fedlearn.data.sources.leaf import from_leaf
from fedlearn.data.sources.libraries import from_hf
from fedlearn.plugging.options import options_for
from fedlearn.words.errors import DataNotFound, SettingError, UsageError

HUB = "hub:"
ARRAYS = ("X", "y", "X_test", "y_test", "groups", "groups_test")
RESERVED = ("data", "file", "folder", "path", "name")  # parameters of readers that are no options

Options = Mapping[str, Any]


@one_line_errors
def from_npz(file: str | Path, **options: Any) -> Dataset:
    """Return the arrays of a file of `numpy.savez` as a data set: X, y, and maybe X_test, y_test, groups, groups_test.

    `options` are keywords of `from_arrays`.
    """
    path = Path(file).expanduser().absolute()
    size_of(path)
    with opened(path) as stored:
        with zipfile.ZipFile(stored) as archive:
            check_unpacked(path, sum(member.file_size for member in archive.infolist()))
        stored.seek(0)
        with np.load(stored, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
    if not {"X", "y"} <= arrays.keys() <= set(ARRAYS):
        raise UsageError(
            f"{path} must hold X and y, and may hold {', '.join(ARRAYS[2:])}; it holds {', '.join(arrays)}"
        )
    return from_arrays(**arrays, **{"name": str(path), **options})


@one_line_errors
def is_path(name: str) -> bool:
    """Return whether `name` can only be a name on the Hub, a file or a folder."""
    return name.startswith(HUB) or _reader_of(Path(name)) is not None or "/" in name.partition(":")[0] or name == "."


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
        return from_hf(name.removeprefix(HUB), name=name, **_checked(from_hf, options))
    path = _found(name, data_dir)
    read = _reader_of(path)
    if read is None:
        raise SettingError("data.dataset", name, f"a data file must end in {', '.join(READERS)}")
    if read is from_npz:  # its options are the parameters of from_arrays
        return from_npz(path, **options_for(from_arrays, options, setting="data.options", reserved=("name", *ARRAYS)))
    return read(path, **_checked(read, options))


def _checked(read: Callable[..., Dataset], options: Options) -> dict[str, Any]:
    return options_for(read, options, setting="data.options", reserved=RESERVED, whole=True)


def _found(name: str, data_dir: str) -> Path:
    path = Path(name).expanduser()
    if path.is_absolute() or path.exists():
        looked_at = str(path.absolute())
    else:
        folder, looked_at = data_folder(data_dir, wanted=name)
        path = folder / path if folder is not None else path
    if not path.exists():
        hint = f"; for the Hugging Face Hub write {HUB}{name}" if name.count("/") == 1 and not path.suffix else ""
        raise DataNotFound(f"data.dataset = {name!r}: there is no such file or folder here, and {looked_at}{hint}")
    return path.absolute()


def _reader_of(path: Path) -> Callable[..., Dataset] | None:
    if path.is_dir():
        is_leaf = any(next(part.glob("*.json"), None) for part in (path, path / "train"))
        return from_leaf if is_leaf else from_folder
    return READERS.get(path.suffix)


def _schema_file(file: Path) -> Dataset:
    from fedlearn.data.tables import load_schema_file

    return load_schema_file(str(file), "")


READERS: dict[str, Callable[..., Dataset]] = {
    ".csv": from_table,
    ".parquet": from_table,
    ".json": from_leaf,
    ".npz": from_npz,
    ".toml": _schema_file,
}
