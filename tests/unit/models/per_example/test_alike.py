"""Places of a batch that compute differently are seen, and models that are too large are not tried."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedlearn.data.cifar10 import SPEC as IMAGES
from fedlearn.data.data_spec import DataSpec
from fedlearn.models import load_model
from fedlearn.models.per_example import ClippedSum, alike_places, clipped_sum_of, places_alike
from fedlearn.models.per_example.one_by_one import OneByOne
from fedlearn.models.torch.torch_model import TorchModel

ROWS = DataSpec("rows", (6,), "float32", classes=3)


class OddDiffers:
    """A way that moves one number of one example by a bit of float32, where it lies at an odd place."""

    def __init__(self, way: ClippedSum) -> None:
        self.way, self.model, self.places, self.numbers = way, way.model, way.places, way.numbers
        self.mine: Tensor | None = None

    def __call__(self, inputs: Tensor, targets: Tensor, taken: Tensor, *, clip: float) -> Tensor:
        found = self.way(inputs, targets, taken, clip=clip)
        self.mine = inputs[3].clone() if self.mine is None else self.mine
        at = next(place for place in range(self.places) if torch.equal(inputs[place], self.mine))
        found[found.abs().argmax()] *= 1 + (at % 2) * 2.0**-24 / self.places
        return found


def way_of(name: str, spec: DataSpec, places: int = 16) -> ClippedSum:
    model = load_model(name, spec, "", "")
    assert isinstance(model, TorchModel)
    return clipped_sum_of(model, places)


@pytest.mark.parametrize(("name", "spec"), [("mlp", ROWS), ("linear", ROWS), ("cnn", IMAGES)])
def test_one_bit_of_one_example_at_odd_places_is_seen(name: str, spec: DataSpec) -> None:
    way = way_of(name, spec)
    before = {key: each.copy() for key, each in way.model.arrays().items()}
    assert not places_alike(OddDiffers(way))
    assert places_alike(way) in (True, False)  # by the machine's own products of matrices
    assert all((before[key] == each).all() for key, each in way.model.arrays().items())
    assert way.model.module.training


def test_a_large_model_is_not_tried_and_single_passes_need_not_be(monkeypatch: pytest.MonkeyPatch) -> None:
    way = way_of("mlp", ROWS)
    monkeypatch.setattr(alike_places, "MOST_NUMBERS", 10)
    assert not places_alike(way)
    assert places_alike(OneByOne(way.model, 16))


def test_a_gradient_of_nothing_shows_nothing() -> None:
    way = way_of("linear", ROWS)
    with torch.no_grad():
        for each in way.model.parameters:
            each.fill_(torch.nan)
    assert not places_alike(way)


def test_rows_of_odd_length_are_not_alike_where_the_machine_takes_them_in_pairs() -> None:
    """One example alone often has the same float32 gradient at all places though their order of additions differs."""
    model = load_model("mlp", ROWS, '{"width": 7}', "")
    assert isinstance(model, TorchModel)
    way = clipped_sum_of(model, 32)
    inputs, targets = alike_places.made_up(model, 32)
    everywhere = torch.ones(32, dtype=torch.bool)
    apart = max(
        float((way(inputs.roll(by, 0), targets.roll(by, 0), everywhere, clip=1.0) -
               way(inputs, targets, everywhere, clip=1.0)).abs().max())
        for by in (1, 2)
    )  # fmt: skip
    assert places_alike(way) is (apart < 1e-12)
