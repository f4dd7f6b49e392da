"""A slice is a smaller array of the same name; in the update of a client the other entries are null."""

import numpy as np
import pytest

from fedlearn.config import RunConfig
from fedlearn.core.errors import SettingError
from fedlearn.core.state import Entries, layout_of
from fedlearn.models.slices.slicing import Slices, Slicing, ordered_units, rolling_units
from tests.oracles import images


def axis(size, width):
    return np.stack([np.full(size, width), np.arange(size) % width])


STATE = {"w": np.arange(24.0).reshape(6, 4), "b": np.arange(6.0), "raw": np.arange(3.0)}
AXES = {"w": [axis(6, 6), None], "b": [axis(6, 6)]}


@pytest.mark.parametrize(("keep", "units"), [(ordered_units, [0, 1, 2]), (rolling_units, [0, 4, 5])])
def test_a_slice_has_the_entries_of_its_units_and_comes_back_to_their_places(keep, units):
    slices = Slices(keep, AXES, layout_of(STATE))
    found = slices.of(STATE, 0.5, 5)
    np.testing.assert_array_equal(found["w"], STATE["w"][units])
    np.testing.assert_array_equal(found["b"], STATE["b"][units])
    assert found["raw"] is STATE["raw"]
    assert layout_of(found) == slices.layout(0.5, 5)
    whole = slices.back({name: Entries(array.reshape(-1)) for name, array in found.items()}, 0.5, 5)
    assert whole["raw"].positions is None
    for name in ("w", "b"):
        np.testing.assert_array_equal(STATE[name].reshape(-1)[whole[name].positions], found[name].reshape(-1))


def test_what_a_codec_leaves_out_of_a_slice_is_null_too():
    slices = Slices(ordered_units, AXES, layout_of(STATE))
    whole = slices.back({"w": Entries(np.array([7.0, 8.0]), np.array([1, 9]))}, 0.5, 1)
    assert whole["w"].positions.tolist() == [1, 9]
    whole = Slices(rolling_units, AXES, layout_of(STATE)).back({"w": Entries(np.array([7.0]), np.array([4]))}, 0.5, 5)
    assert whole["w"].positions.tolist() == [16]


@pytest.mark.parametrize("keep", [ordered_units, rolling_units])
@pytest.mark.parametrize("width", [1, 2, 7, 10, 64])
def test_a_slice_has_one_unit_at_least_and_all_at_ratio_1(keep, width):
    assert keep(width, 0.01, 3).sum() == 1
    assert keep(width, 1.0, 3).all()
    assert ordered_units(10, 0.7, 1).sum() == rolling_units(10, 0.7, 1).sum() == 7  # 0.7 * 10 is above 7 in binary


def test_a_window_that_rolls_has_each_unit_equally_often():
    count = sum(rolling_units(10, 0.25, number).astype(int) for number in range(1, 11))
    assert count.tolist() == [2] * 10


def test_clients_take_the_ratios_of_a_list_in_turns():
    found = Slicing(ordered_units, (1.0, 0.5, 0.25)).by_client(RunConfig(clients=5), None)
    assert found.tolist() == [1.0, 0.5, 0.25, 1.0, 0.5]


def test_by_data_the_largest_client_takes_the_largest_ratio(monkeypatch):
    monkeypatch.setattr("fedlearn.models.slices.slicing._examples", lambda *_: np.array([10, 40, 20, 30]))
    found = Slicing(ordered_units, (0.25, 1.0), by_data=True).by_client(RunConfig(clients=4), None)
    assert found.tolist() == [0.25, 1.0, 0.25, 1.0]


def test_by_device_each_kind_has_its_ratio():
    dataset, config = images.dataset(), RunConfig(clients=4, devices={"name": "phones"})
    with pytest.raises(SettingError, match="give the ratio of devices of the kind"):
        Slicing(ordered_units, {"none": 0.5}).by_client(config, dataset)
    with pytest.raises(SettingError, match="there are no kinds of devices"):
        Slicing(ordered_units, {"none": 0.5}).by_client(RunConfig(clients=4), dataset)
