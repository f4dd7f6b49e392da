"""Windows of a long table: by series, in the order of time, with no row in examples of both parts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fedlearn.core.errors import SettingError, UsageError
from fedlearn.data import from_windows, load_dataset
from fedlearn.data.private_examples import DataSource, Protected
from fedlearn.plugins.objects import reference_to

HOURS = pd.date_range("2026-03-01", periods=50, freq="h")
FRAME = pd.DataFrame(
    {"town": np.repeat(["b", "a", "c"], 50), "hour": [*HOURS] * 3, "load": np.arange(150.0), "heat": -np.arange(150.0)}
)
NAMES = {"target": "load", "series": "town", "time": "hour"}


def shuffled() -> pd.DataFrame:
    return FRAME.sample(frac=1, random_state=2)


def test_windows_and_what_follows_them_are_those_of_a_loop_over_sorted_rows():
    found = from_windows(shuffled(), **NAMES, window=6, horizon=3, stride=4)
    expected = {part: [] for part in ("train", "test")}
    for town, rows in FRAME.groupby("town"):
        for part, of_part in (("train", rows.iloc[:40]), ("test", rows.iloc[40:])):
            load, both = of_part["load"].to_numpy(), of_part[["load", "heat"]].to_numpy()
            for start in range(0, len(of_part) - 9 + 1, 4):
                expected[part].append((town, both[start : start + 6], load[start + 6 : start + 9]))
    for part, examples in (("train", found.train), ("test", found.test)):
        towns, windows, follow = zip(*expected[part], strict=True)
        assert [found.group_names[group] for group in examples.groups] == list(towns)
        assert np.array_equal(examples.inputs, np.array(windows, np.float32))
        assert np.array_equal(examples.targets, np.array(follow, np.float32))


@pytest.mark.parametrize(("window", "horizon", "stride", "share"), [(5, 1, 1, 0.2), (3, 4, 2, 0.5), (9, 2, 7, 0.3)])
def test_no_row_is_in_examples_of_both_parts_or_of_two_series(window, horizon, stride, share):
    found = from_windows(
        shuffled(), **NAMES, inputs="load", window=window, horizon=horizon, stride=stride, test_share=share
    )
    rows = [
        {*examples.inputs.ravel().tolist(), *np.ravel(examples.targets).tolist()}
        for examples in (found.train, found.test)
    ]
    assert rows[0]
    assert rows[1]
    assert not rows[0] & rows[1]
    for town in range(3):  # each value of "load" is a row of one town
        mine = found.train.inputs[found.train.groups == town]
        assert len({int(value) // 50 for value in mine.ravel()}) == 1
        assert mine.max() < found.test.inputs[found.test.groups == town].min()


def test_files_are_read_by_their_options_as_frames_are(tmp_path):
    frame, found = shuffled(), from_windows(shuffled(), **NAMES, window=8)
    frame.to_csv(tmp_path / "long.csv", index=False)
    frame.to_parquet(tmp_path / "long.parquet")
    for name in ("long.csv", "long.parquet"):
        options = '{"target": "load", "series": "town", "time": "hour", "window": 8}'
        read = load_dataset(str(tmp_path / name), "", options=options)
        assert np.array_equal(read.train.inputs, found.train.inputs)
        assert np.array_equal(read.test.targets, found.test.targets)
        assert read.group_names == ("a", "b", "c")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"window": 0}, "window = 0: write a whole number of rows"),
        ({"window": 45}, "no series has 46 rows to train on"),
        ({"window": 20}, "no series has 21 rows for testing, of its last rows: take a larger test_share"),
        ({"window": 4, "target": "rain"}, "has no column 'rain'"),
        ({"window": 4, "series": None}, r"has the time 2026-03-01T00:00:00\.0+ twice"),
    ],
)
def test_what_makes_no_windows_is_said(changes, said):
    with pytest.raises(UsageError, match=said):
        from_windows(FRAME, **{**NAMES, "inputs": "load", **changes})


def test_uneven_steps_are_told_and_a_missing_value_is_named():
    assert "differ, from 0 days 01:00:00 to 0 days 02:00:00" in from_windows(FRAME.drop(7), **NAMES, window=4).notice
    assert not from_windows(FRAME, **NAMES, window=4).notice
    with pytest.raises(UsageError, match="row 3, column 'heat': no value"):
        from_windows(FRAME.assign(heat=FRAME["heat"].where(FRAME.index != 3)), **NAMES, window=4)


def test_private_records_are_no_windows_and_private_clients_may_have_them():
    source = DataSource(reference_to(from_windows(FRAME, **NAMES, window=4), name="windows"))
    with pytest.raises(SettingError, match=r"windows of rows, and a row is in several.*--private nodes"):
        source.read(Protected.RECORDS)
    assert len(source.read(Protected.NODES).train) == 3 * 36
