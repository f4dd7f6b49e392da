"""Whole numbers beyond 2^24: refused where float32 would make most of them one number, by every door."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fedlearn.core.errors import UsageError
from fedlearn.data import from_any, from_arrays
from fedlearn.data.sources.named_columns import from_table

IDS = [2**53 + 1 + 2 * place for place in range(20)]
LABELS = [0, 1] * 10
FRAME = pd.DataFrame({"id": IDS, "k": LABELS})


def of_csv(folder):
    FRAME.to_csv(folder / "ids.csv", index=False)
    return from_table(folder / "ids.csv", target="k")


def of_parquet(folder):
    FRAME.to_parquet(folder / "ids.parquet")
    return from_table(folder / "ids.parquet", target="k")


DOORS = {
    "csv": of_csv,
    "parquet": of_parquet,
    "frame": lambda _: from_any((FRAME, "k")),
    "frame of two kinds": lambda _: from_any((FRAME.assign(b=0.5), "k")),
    "array": lambda _: from_arrays(np.array(IDS, np.float64)[:, None], LABELS),
}


@pytest.mark.parametrize("door", DOORS)
def test_ids_that_float32_does_not_tell_apart_are_refused_with_their_column(door, tmp_path):
    with pytest.raises(UsageError, match=r"column ('id'|0) holds \d+ different whole numbers.*leave ids out"):
        DOORS[door](tmp_path)


@pytest.mark.parametrize("numbers", [np.arange(20.0) * 1_000_003, np.arange(20.0) * 2**40, np.arange(20.0) * 1e20 / 3])
def test_large_numbers_that_are_told_apart_are_taken(numbers):
    assert len(np.unique(from_arrays(numbers[:, None], LABELS, test_share=0.1).train.inputs)) == 18
