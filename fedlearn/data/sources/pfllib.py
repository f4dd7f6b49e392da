"""Data sets from folders in the form of PFLlib: ``train/0.npz`` and ``test/0.npz`` hold the examples of client 0.

A file holds the arrays ``x`` and ``y``; PFLlib packs them in a dict, ``data``, which NumPy stores as a pickle. A pickle
can run code, so only what arrays are made of is unpickled. Pictures have their channels first, as in torch.

Source: Zhang et al. 2025, https://github.com/TsingZ0/PFLlib.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import DataNotFound, UsageError
from fedlearn.data.data_folder import identity
from fedlearn.data.dataset import Dataset
from fedlearn.data.entries import Arrays
from fedlearn.data.kept_arrays import dataset_at, with_facts
from fedlearn.data.reading import check_unpacked, one_line_errors, one_line_of, opened
from fedlearn.data.sources.channels import Channels
from fedlearn.data.sources.declared import TEST_SHARE, Declared, Given
from fedlearn.data.sources.fitting import with_counted

PACKED = "data.npy"  # the dict of PFLlib, in the archive
OF_ARRAYS = {
    ("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"), ("numpy._core.multiarray", "scalar"),
    ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode"),
}  # fmt: skip
"""All that a pickle of arrays names; none of it runs code of the file."""


@one_line_errors
def from_pfllib(
    folder: str | Path,
    *,
    classes: int | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    channels: Channels | None = None,
    test_share: float = TEST_SHARE,
) -> Dataset:
    """Return a folder in PFLlib's form as a data set, in which each client is a group: ``partition="natural"``.

    Parameters
    ----------
    folder
        Holds ``train/0.npz``, ``train/1.npz``, ..., and maybe ``test/0.npz``, ...
    classes, mean, std, test_share
        As in `from_arrays`.
    channels
        Where the channels of pictures (n, a, b, c) stand: first, unless given.

    Raises
    ------
    DataNotFound
        If there is no such file.
    UsageError
        With the file, if it does not hold x and y, or holds other objects than arrays.
    """
    root = Path(folder).expanduser().absolute()
    parts = [_files_of(root / part) for part in ("train", "test") if (root / part).is_dir()]
    if not parts or not parts[0]:
        raise DataNotFound(f"{root}: there is no train/0.npz in it")
    numbers = {int(file.stem): place for place, file in enumerate(parts[0])}
    if strangers := [file for file in (parts[1] if len(parts) > 1 else ()) if int(file.stem) not in numbers]:
        raise UsageError(f"{strangers[0]}: there is no such file in train")

    def make() -> Arrays:
        given = [_given(files, numbers) for files in parts]
        first = channels or ("first" if given[0][0].ndim == 4 else None)
        declared = Declared(str(root), classes=classes, mean=mean, std=std, channels=first)
        test = given[1] if len(given) > 1 and len(given[1][1]) else (None, None, None)
        return with_facts(*declared.checked(given[0], test, test_share=test_share))

    key = f"{identity(*parts[0], *(parts[1] if len(parts) > 1 else ()))}\n{classes=} {mean=} {std=} {channels=}"
    found = dataset_at(str(root), "pfllib", f"{key} {test_share=}", make)
    return with_counted(
        found, classes=classes, vocabulary=None, has_test=len(parts) > 1, also=["clients", "shape of x"]
    )


def _files_of(part: Path) -> list[Path]:
    """Return the files of the clients, in the order of their numbers."""
    return sorted((file for file in part.glob("*.npz") if file.stem.isdecimal()), key=lambda file: int(file.stem))


def _given(files: Sequence[Path], numbers: Mapping[int, int]) -> Given:
    """Return x, y and the client of each example of some files."""
    if not files:
        return np.empty(0), np.empty(0), np.empty(0)
    found = [_arrays_of(file) for file in files]
    for file, (x, _) in zip(files, found, strict=True):
        if x.shape[1:] != found[0][0].shape[1:]:
            raise UsageError(f"{file}: x has shape {x.shape}, and that of {files[0].name} {found[0][0].shape}")
    clients = np.repeat([numbers[int(file.stem)] for file in files], [len(y) for _, y in found])
    return np.concatenate([x for x, _ in found]), np.concatenate([y for _, y in found]), clients


def _arrays_of(file: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    with one_line_of(file), opened(file) as stored, zipfile.ZipFile(stored) as archive:
        check_unpacked(file, sum(member.file_size for member in archive.infolist()))
        if PACKED in archive.namelist():
            held = _unpickled(archive.read(PACKED))
        else:
            held = {Path(name).stem: _array_in(archive.read(name)) for name in archive.namelist()}
    x, y = (np.asarray(held.get(name)) if isinstance(held, dict) else np.empty(()) for name in ("x", "y"))
    if object in (x.dtype, y.dtype) or not (x.ndim and y.ndim) or len(x) != len(y):
        raise UsageError(f"{file}: it must hold arrays x and y of one length, as numbers, as PFLlib writes pictures")
    return x, y


def _array_in(content: bytes) -> Any:
    return np.load(io.BytesIO(content), allow_pickle=False)


def _unpickled(content: bytes) -> Any:
    """Return the dict in a file of NumPy: a header, then a pickle; None of a file that holds numbers."""
    packed = io.BytesIO(content)
    version = np.lib.format.read_magic(packed)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    if read(packed)[2] != np.dtype(object):
        return None
    held = _OnlyArrays(packed).load()
    return held.item() if isinstance(held, np.ndarray) and held.shape == () else held


class _OnlyArrays(pickle.Unpickler):
    """Unpickles arrays and plain values, and refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a part of NumPy's arrays; raise an error for any other object that a pickle names."""
        if (module, name) not in OF_ARRAYS:
            raise pickle.UnpicklingError(f"it holds {module}.{name}, and only arrays are read")
        return getattr(import_module(module.replace("numpy.core.", "numpy._core.")), name)
