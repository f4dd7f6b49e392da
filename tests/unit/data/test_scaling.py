"""Scaling of columns by means and deviations that are given."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from fedlearn.core.errors import SettingError
from fedlearn.data import from_any, from_arrays, from_frame
from fedlearn.data.scaling import moments_in, scaled, text_of_moments
from fedlearn.models.torch.inputs import inputs_of

STATISTICS = {
    "count": 9,
    "deviation": 0,
    "columns": {"age": {"mean": 40, "std": 8, "counts": [9]}, "job": {"mean": None, "std": None, "counts": [9]}},
}
BOUNDS = {"age": (0, 100), "pay": (1, 100, "log"), "height": (100, 200)}


def table(**others):
    frame = pd.DataFrame({"age": [40.0, 48, np.nan], "pay": [10, 100, 1], "height": [150, 200, 100], "y": [1.0, 2, 3]})
    return from_frame(frame, frame, target="y", target_bounds=(0, 4), bounds=BOUNDS, **others)


def test_moments_are_a_text_a_file_or_the_statistics_of_a_run(tmp_path):
    (tmp_path / "statistics.json").write_text(json.dumps(STATISTICS))
    (tmp_path / "mine.json").write_text('{"age": [40, 8]}')
    for given in ('{"age": [40, 8]}', str(tmp_path), str(tmp_path / "statistics.json"), str(tmp_path / "mine.json")):
        assert moments_in(given) == {"age": (40, 8)}
        assert moments_in(text_of_moments(given)) == {"age": (40, 8)}


@pytest.mark.parametrize("given", ["/dev/null", "{", '{"age": [1]}', '{"age": [1, 0]}', '{"age": [1, NaN]}'])
def test_what_holds_no_moments_is_one_line(given):
    with pytest.raises(SettingError, match=r"data\.scaling = .*(MEAN, DEVIATION)"):
        moments_in(given)


@pytest.mark.parametrize("given", ["nowhere.json", "."])
def test_a_file_or_a_run_that_is_not_there_is_one_line(given):
    with pytest.raises(SettingError, match=r"there is no (nowhere\.json|statistics\.json): name a run"):
        moments_in(given)


def test_a_declared_table_is_scaled_where_moments_are_known_and_by_its_ranges_elsewhere():
    found = scaled(table(), '{"age": [40, 8], "pay": [9, 9], "y": [2, 0.5]}')
    np.testing.assert_allclose(inputs_of(found.spec)(found.test.inputs), [[0, 0, 0], [1, 1, 1], [0, -1, -1]], atol=1e-6)
    assert (found.spec.target_mean, found.spec.target_std) == ((2,), (0.5,))
    assert found.notice == "height: no deviation in data.scaling: the declared range scales"
    assert not scaled(table(), '{"age": [40, 8], "height": [1, 1]}').spec.target_mean


def test_columns_without_ranges_are_scaled_by_their_names():
    frame = pd.DataFrame({"a": [1.0, 3], "b": [10.0, 20], "y": [0, 1]})
    found = scaled(from_any((frame, frame, "y")), '{"b": [10, 5], "a": [1, 2], "y": [3, 3]}')
    np.testing.assert_array_equal(inputs_of(found.spec)(found.test.inputs.copy()), [[0, 0], [1, 2]])
    assert not found.spec.target_mean  # of classes


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            lambda: from_any((pd.DataFrame({"a": [1.0, 2], "y": [0, 1]}), "y")),
            "no mean and deviation of the column 'a'",
        ),
        (table, "no mean and deviation of the column 'age'"),
        (lambda: from_arrays(np.zeros((9, 3)), np.arange(9) % 2), "is none"),
    ],
)
def test_moments_of_other_columns_are_refused(data, said):
    with pytest.raises(SettingError, match=said):
        scaled(data(), '{"b": [0, 1]}')


def test_no_file_is_read_where_a_node_scales(tmp_path):
    (tmp_path / "statistics.json").write_text(json.dumps(STATISTICS))
    with pytest.raises(SettingError, match="a file is read where the run begins"):
        scaled(table(), str(tmp_path))
