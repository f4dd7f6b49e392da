"""The tables of a run folder as data frames."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fedlearn.core.errors import UsageError, said
from fedlearn.runs.safe_reading import open_regular

if TYPE_CHECKING:
    import pandas as pd

MOST_TABLE_BYTES = 1 << 28  # of metrics.csv and nodes.csv; a row takes about a hundred


def frame_of(path: Path, why: str) -> pd.DataFrame:
    """Return a table of CSV, each column as whole numbers, floats or texts.

    Parameters
    ----------
    why
        Why the file may not be there, for the error.

    Raises
    ------
    UsageError
        If it is not there, or cannot be read.
    """
    import pandas as pd

    try:
        with open_regular(path, most=MOST_TABLE_BYTES) as file:
            return pd.read_csv(file, dtype=str).apply(_numbers)
    except FileNotFoundError:
        raise UsageError(f"{path}: it is not there: {why}") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}: put back the file that was written") from None
    except (ValueError, MemoryError) as error:  # pandas' own errors are ValueErrors
        raise UsageError(f"{path}: it is not what was written: {said(error)}") from None


def _numbers(column: pd.Series) -> pd.Series:
    """Return a column as numbers if it holds numbers; pandas itself may read the last digit of a float wrongly."""
    for kind in ("int64", "float64"):
        with suppress(ValueError, TypeError):
            return column.astype(kind)
    return column
