"""A fleet's answers follow from its numbers, at any time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.core.cohort import At
from fedlearn.devices import DAY, Fleet


def test_a_trip_takes_its_start_its_download_and_each_example():
    fleet = Fleet.of(2, 1, seconds_per_example=[0.5, 2.0], down=100.0, up=10.0, startup=[3.0, 0.0])
    assert fleet.until_trained(0, examples=4, bytes_down=200) == 3.0 + 2.0 + 2.0
    assert fleet.until_trained(1, examples=4, bytes_down=200) == 2.0 + 8.0
    assert fleet.upload(0, 25) == 2.5


@given(now=st.floats(0, 1e7), seed=st.integers(0, 2**62))
def test_who_can_be_reached_depends_on_seed_node_and_hour_alone(now, seed):
    many, few = (Fleet.of(count, seed, available=0.4, swing=0.5) for count in (50, 20))
    assert (many.reachable(now)[:20] == few.reachable(now)).all()
    assert (few.reachable(now) == Fleet.of(20, seed, available=0.4, swing=0.5).reachable(now // 3600 * 3600)).all()


def test_four_times_as_many_can_be_reached_at_night_as_at_noon():
    fleet = Fleet.of(40_000, 3, available=0.5, swing=0.6)
    night, noon = (fleet.reachable(hour * 3600).mean() for hour in (1, 14))
    assert night / noon == pytest.approx(4.0, rel=0.05)
    assert np.mean([fleet.reachable(hour * 3600).mean() for hour in range(24)]) == pytest.approx(0.5, abs=0.01)


def test_a_run_that_begins_in_the_evening_finds_the_night_sooner():
    assert Fleet.of(5000, 3, available=0.5, swing=0.6, begins_at=14).reachable(0.0).mean() < 0.3
    assert Fleet.of(5000, 3, available=0.5, swing=0.6, begins_at=14).reachable(DAY / 2).mean() > 0.7


def test_as_many_trainings_are_lost_as_is_said():
    fleet = Fleet.of(1, 9, dropout=0.08)
    assert np.mean([fleet.is_lost(0, At(number, 1)) for number in range(5000)]) == pytest.approx(0.08, abs=0.015)
    assert fleet.is_lost(0, At(3, 1)) == fleet.is_lost(0, At(3, 1))
    assert not any(Fleet.of(1, 9).is_lost(0, At(number, 1)) for number in range(100))


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("down", 0.0, "down of device 0 is 0: it must be finite, above 0"),
        ("seconds_per_example", -1.0, "seconds_per_example of device 0 is -1: it must be finite, from 0"),
        ("up", float("inf"), "up of device 0 is inf: it must be finite, above 0"),
        ("startup", float("nan"), "startup of device 0 is nan: it must be finite, from 0"),
        ("dropout", 1.5, "dropout of device 0 is 1.5: it must be finite, from 0 to 1"),
    ],
)
def test_what_no_device_can_be_is_refused(column, value, text):
    with pytest.raises(ValueError, match=f"^{text}$"):
        Fleet.of(2, 1, **{column: value})


def test_a_fleet_says_how_many_there_are_of_each_kind():
    fleet = Fleet.of(3, 1, startup=[1.0, 3.0, 5.0], group=[0, 1, 1], groups=["new", "old"])
    assert {name: (kind["nodes"], kind["startup"]) for name, kind in fleet.described().items()} == {
        "new": (1, 1.0),
        "old": (2, 4.0),
    }
