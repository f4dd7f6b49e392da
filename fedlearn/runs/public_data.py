"""Read data.json: what is public of the data of a run."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from fedlearn.core.errors import UsageError
from fedlearn.data.data_spec import DataSpec
from fedlearn.runs.file_names import DATA
from fedlearn.runs.safe_reading import read_small


def read_spec(folder: Path) -> DataSpec:
    """Return what is public of the data set of the run in a folder.

    Raises
    ------
    UsageError
        If the file was not stored, or cannot be read.
    """
    path = folder / DATA
    try:
        return TypeAdapter(DataSpec).validate_json(read_small(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}: the run was not begun, or by an earlier version") from None
    except ValidationError as error:
        raise UsageError(f"{path}: it is not what was written: {error.errors()[0]['msg']}") from None
