"""Data sets from files of `numpy.savez`."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedlearn.core.errors import UsageError
from fedlearn.data.dataset import Dataset
from fedlearn.data.reading import check_unpacked, one_line_errors, opened, size_of
from fedlearn.data.sources.array_source import from_arrays
from fedlearn.data.sources.channels import Channels
from fedlearn.data.sources.declared import TEST_SHARE

ARRAYS = ("X", "y", "X_test", "y_test", "groups", "groups_test")


@one_line_errors
def from_npz(
    file: str | Path,
    *,
    classes: int | Sequence[str] | None = None,
    vocabulary: int | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    channels: Channels | None = None,
    test_share: float = TEST_SHARE,
) -> Dataset:
    """Return the arrays of a file as a data set: X, y, and maybe X_test, y_test, groups, groups_test.

    Parameters
    ----------
    file
        Path that ends in .npz.
    classes, vocabulary, mean, std, channels, test_share
        As in `from_arrays`.
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
    return from_arrays(
        **arrays, name=str(path),
        classes=classes, vocabulary=vocabulary, mean=mean, std=std, channels=channels, test_share=test_share,
    )  # fmt: skip
