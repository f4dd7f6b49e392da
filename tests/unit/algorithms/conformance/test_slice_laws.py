"""The laws of slices hold of the strategies of the table, and find the mistakes that others make."""

import numpy as np
import pytest

from fedlearn.algorithms.conformance.slice_laws import SLICE_LAWS
from fedlearn.algorithms.fedrolex import FedRolex
from fedlearn.algorithms.heterofl import HeteroFL
from fedlearn.models.slices import tracing
from fedlearn.models.slices.slicing import Slices, ordered_units, rolling_units

NAMES = ("heterofl", "fedrolex", "fjord")
OF_THE_NETWORK = [law for law in SLICE_LAWS if law != "ratio 1"]  # that one makes runs: `fedlearn check`, below


@pytest.mark.parametrize("law", OF_THE_NETWORK)
@pytest.mark.parametrize("name", NAMES)
def test_a_law_holds(name, law):
    assert SLICE_LAWS[law](name, name, None) == ""


@pytest.mark.parametrize("name", [NAMES[0], *(pytest.param(name, marks=pytest.mark.long) for name in NAMES[1:])])
def test_ratio_1_is_fedavg_in_every_digit(name):
    from fedlearn.commands.check import walked

    assert SLICE_LAWS["ratio 1"](name, name, walked) == ""


class OffByOne(HeteroFL):
    """Keeps one unit more than the paper."""

    keep = staticmethod(lambda width, ratio, number: np.arange(width) <= ordered_units(width, ratio, number).sum())


class Still(FedRolex):
    """Has the window of round 1 in all rounds."""

    keep = staticmethod(lambda width, ratio, number: rolling_units(width, ratio, 1))


class Unscaled(HeteroFL):
    """Leaves the Scaler out."""

    def __init__(self, *, ratios=(1.0,), uniform=False):
        super().__init__(ratios=list(ratios), scaler=False, uniform=uniform)


@pytest.mark.parametrize("law", OF_THE_NETWORK)
def test_one_channel_too_many_is_found(law):
    assert SLICE_LAWS[law]("heterofl", f"{__name__}:OffByOne", None)


def test_the_norm_of_another_slice_is_found(monkeypatch):
    exact = Slices.of

    def last_units(self, state, ratio, number):
        found = exact(self, state, ratio, number)
        return {**found, "norm2.weight": state["norm2.weight"][-len(found["norm2.weight"]) :]}

    monkeypatch.setattr(Slices, "of", last_units)
    assert "something else" in SLICE_LAWS["masked module"]("heterofl", "heterofl", None)


def test_a_norm_whose_entries_come_back_to_other_places_is_found(monkeypatch):
    exact = Slices._positions

    def shifted(self, ratio, number):
        found = exact(self, ratio, number)
        shape, positions = found["norm1.bias"]
        return found if positions is None else {**found, "norm1.bias": (shape, positions + 1)}

    monkeypatch.setattr(Slices, "_positions", shifted)
    assert "norm1.bias" in SLICE_LAWS["weights"]("heterofl", "heterofl", None)


def test_a_scaler_that_is_left_out_is_found(monkeypatch):
    why = SLICE_LAWS["masked module"]("heterofl", f"{__name__}:Unscaled", None)
    assert why.endswith("in training")
    monkeypatch.setattr(tracing, "scaled", lambda ratio, layer, given, output: output / ratio)
    why = SLICE_LAWS["masked module"]("heterofl", "heterofl", None)
    assert why.endswith("when it is measured")


def test_a_window_that_stands_still_is_no_fedrolex():
    assert "in round 2" in SLICE_LAWS["units"]("fedrolex", f"{__name__}:Still", None)
