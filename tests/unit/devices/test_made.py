"""Fleets of the table: drawn as their sources say, and the same for every number of nodes."""

from __future__ import annotations

import numpy as np
import pytest

from fedlearn.config.tables.running_settings import DeviceSettings
from fedlearn.core.errors import SettingError
from fedlearn.devices import DEVICES, Fleet, load_devices
from fedlearn.devices.fleet import RANGES
from fedlearn.devices.made import phones

EXAMPLES = np.arange(400, dtype=np.int64)


def made(name, options="", count=400, seed=5):
    return load_devices(DeviceSettings(name=name, options=options), clients=count, seed=seed, examples=EXAMPLES[:count])


@pytest.mark.parametrize("name", DEVICES)
def test_a_device_does_not_depend_on_how_many_nodes_there_are(name):
    many, few = made(name), made(name, count=30)
    assert all((getattr(many, column)[:30] == getattr(few, column)).all() for column in RANGES)
    assert all((getattr(many, column) == getattr(made(name), column)).all() for column in RANGES)


@pytest.mark.parametrize("name", DEVICES)
def test_a_trip_ends_in_finite_time(name):
    fleet = made(name)
    assert all(0 <= fleet.until_trained(node, examples=10, bytes_down=1000) < 1e6 for node in range(400))


def test_phones_are_as_fast_as_fedscale_says():
    fleet = phones(clients=20_000, seed=1, examples=np.ones(20_000, np.int64))
    logs = np.log(fleet.seconds_per_example / 0.005)
    assert (logs.mean(), logs.std()) == pytest.approx((1.0, 0.6), abs=0.02)
    assert np.bincount(fleet.group) / 20_000 == pytest.approx([1 / 3] * 3, abs=0.015)
    slowest = fleet.seconds_per_example[fleet.group == fleet.groups.index("slow")].min()
    assert slowest > fleet.seconds_per_example[fleet.group == fleet.groups.index("middle")].max()


@pytest.mark.parametrize("correlation", [-1.0, -0.6, 0.0, 0.6, 1.0])
def test_phones_can_be_slow_where_there_are_more_data(correlation):
    count = 8000
    examples = np.random.default_rng(0).permutation(count)
    fleet = phones(clients=count, seed=1, examples=examples, slow_with_data=correlation)
    from scipy.stats import spearmanr

    found = spearmanr(examples, fleet.seconds_per_example)[0]
    assert found == pytest.approx(6 / np.pi * np.arcsin(correlation / 2), abs=0.03)  # of a normal copula


def test_trips_of_fedbuff_are_half_normal():
    trips = made("half-normal", '{"seconds": 2.0}').startup
    assert trips.min() >= 0
    assert np.sqrt(np.square(trips).mean()) == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("fones", "", "devices.name = 'fones': choose one of phones, half-normal, alike, or give module:attribute; "),
        ("phones", '{"dropout": 2}', "devices.options.dropout = 2: expected a number from 0 to 1"),
        ("phones", '{"drop_out": 0.1}', "devices.options.drop_out = 0.1: there is no such option; did you mean drop"),
        ("phones", '{"seed": 3}', "devices.options.seed = 3: there is no such option"),
        ("math:tau", "", "devices.name = 'math:tau': it cannot be called: it is of <class 'float'>"),
        (f"{__name__}:no_fleet", "", f"devices.name = '{__name__}:no_fleet': it returned <class 'dict'>, expected"),
        (f"{__name__}:broken", "", f"devices.name = '{__name__}:broken': it cannot be used here: ZeroDivisionError"),
        (f"{__name__}:too_few", "", f"devices.name = '{__name__}:too_few': it returned"),
    ],
)  # fmt: skip
def test_what_cannot_be_had_is_one_line_with_the_setting(name, options, text):
    with pytest.raises(SettingError) as error:
        made(name, options)
    assert str(error.value).startswith(text)
    assert "\n" not in str(error.value)


def broken(*, clients, seed, examples):
    return 1 / 0


def no_fleet(*, clients, seed, examples):
    return {}


def too_few(*, clients, seed, examples):
    return Fleet.of(clients - 1, seed)
