"""Return who has which data as a data frame, from the counts that a run has stored (dealt.json)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fedlearn.core.errors import UsageError
from fedlearn.report.partition_report import as_frame
from fedlearn.runs.file_names import DEALT
from fedlearn.runs.label_counts import read_dealt

if TYPE_CHECKING:
    import pandas as pd


def counts_of(folder: Path, class_names: Callable[[], tuple[str, ...]]) -> pd.DataFrame:
    """Return the counts of the run in a folder; `class_names` returns the names of its classes, where it has them.

    Raises
    ------
    UsageError
        If the run has stored no counts, or they cannot be read.
    """
    path = folder / DEALT
    try:
        dealt = read_dealt(folder)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if dealt is None:
        raise UsageError(f"{path}: it is not there: clients of a private model, or of a network, keep it secret")
    return as_frame(dealt, class_names)
