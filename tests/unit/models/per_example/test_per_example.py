"""Sums of clipped gradients: each way computes what a pass for each example computes, and nothing else counts."""

from __future__ import annotations

from typing import cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedlearn.core.errors import SettingError
from fedlearn.data.data_spec import DataSpec
from fedlearn.models import load_model
from fedlearn.models.per_example import check_apart, clipped_sum_of
from fedlearn.models.per_example.by_layer import ByLayer
from fedlearn.models.per_example.by_transform import ByTransform
from fedlearn.models.per_example.made_up_examples import made_up
from fedlearn.models.per_example.one_by_one import OneByOne
from fedlearn.models.torch.torch_model import TorchModel

IMAGES = DataSpec("images", (32, 32, 3), "uint8", classes=10)
ROWS = DataSpec("rows", (6,), "float32", classes=3)
NUMBERS = DataSpec("numbers", (6,), "float32", target_bounds=(0.0, 1.0))
LABELS = DataSpec("labels", (6,), "float32", target_shape=(4,))
TEXTS = DataSpec("texts", (7,), "int32", classes=9, vocabulary=9, target_shape=(7,))


def model_of(module: nn.Module, spec: DataSpec = ROWS) -> TorchModel:
    return TorchModel(lambda: module, spec)


def grad_of_one(model: TorchModel, inputs: Tensor, targets: Tensor, place: int, clip: float) -> Tensor:
    """Return the clipped gradient of one example, written down once more."""
    loss = model.objective.loss(model.outputs(inputs[[place]]), targets[[place]])
    flat = torch.cat([each.flatten() for each in torch.autograd.grad(loss, list(model.parameters))]).double()
    return flat * min(1.0, clip / float(flat.norm()))


@pytest.mark.parametrize(
    ("name", "spec", "way"),
    [
        ("cnn", IMAGES, ByLayer),
        ("mlp", ROWS, ByLayer),
        ("mlp", NUMBERS, ByLayer),
        ("linear", ROWS, ByLayer),
        ("transformer", TEXTS, ByTransform),
    ],
)
@pytest.mark.parametrize("clip", [1e-2, 1e3])
def test_networks_of_ours_give_the_sum_of_the_clipped_gradients_of_their_examples(
    name: str, spec: DataSpec, way: type, clip: float
) -> None:
    model = load_model(name, spec, "", "")
    assert isinstance(model, TorchModel)
    check_apart(model, name)
    ours = clipped_sum_of(model, 16)
    assert type(ours) is way and ours.places == 16
    inputs, targets = made_up(model, 16)
    taken = torch.arange(16) % 3 != 1
    found = ours(inputs, targets, taken, clip=clip)
    model.module.eval()
    expected = sum(grad_of_one(model, inputs, targets, int(place), clip) for place in torch.nonzero(taken))
    assert isinstance(expected, Tensor)
    assert (found - expected).norm() <= 1e-4 * expected.norm()


class Wide(nn.Module):
    """Layers of several kinds, with relu in place, a strided convolution, norms of one example and no bias."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, stride=2, padding=1, bias=False)
        self.norm = nn.GroupNorm(2, 4)
        self.relu = nn.ReLU(inplace=True)
        self.second = nn.Conv2d(4, 4, 3, dilation=2)
        self.layer = nn.LayerNorm(4)
        self.last = nn.Linear(4, 10, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.norm(self.first(x)))
        logits: Tensor = self.last(self.layer(self.second(x).amax((2, 3))))
        return logits


@pytest.mark.parametrize("way", [ByLayer, ByTransform])
def test_a_users_layers_go_by_their_rules(way: type) -> None:
    torch.manual_seed(1)
    model = model_of(Wide(), IMAGES)
    assert isinstance(clipped_sum_of(model, 8), ByLayer)
    inputs, targets = made_up(model, 8)
    taken = torch.ones(8, dtype=torch.bool)
    found, expected = (kind(model, 8)(inputs, targets, taken, clip=0.3) for kind in (way, OneByOne))
    assert (found - expected).norm() <= 1e-4 * expected.norm()


def test_several_targets_count_by_their_mean_over_one_example() -> None:
    model = load_model("mlp", LABELS, "", "torch.nn.functional:binary_cross_entropy_with_logits")
    assert isinstance(model, TorchModel)
    inputs, targets = made_up(model, 5)
    taken = torch.ones(5, dtype=torch.bool)
    found, expected = (way(model, 5)(inputs, targets, taken, clip=0.1) for way in (ByLayer, OneByOne))
    assert torch.allclose(found, expected, atol=1e-6)


class Shared(nn.Module):
    """One layer that is called twice: no rule holds for it."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.last = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(self.inside(self.inside(x).relu()))
        return logits


class Own(nn.Module):
    """A parameter outside of all layers."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.last = nn.Parameter(torch.ones(6)), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(x * self.scale)
        return logits


class Twice(nn.Module):
    """A layer's weight that is used outside of it, by what examples of ordinary size do not reach."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.last = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        far = x.abs().amax(1, keepdim=True) > 50
        logits: Tensor = self.last(self.inside(x).relu() + far * nn.functional.linear(x, self.inside.weight))
        return logits


class Numbers(nn.Module):
    """A module that reads numbers, which torch.func cannot map."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(6, 3)
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self.last(each * (1.0 if float(each.sum()) > 0 else 2.0)) * self.scale for each in x])


@pytest.mark.parametrize(
    ("module", "way"), [(Shared, ByTransform), (Twice, ByTransform), (Own, ByTransform), (Numbers, OneByOne)]
)
def test_what_no_rule_holds_for_is_computed_in_a_slower_way(module: type, way: type) -> None:
    torch.manual_seed(1)
    model = model_of(module())
    check_apart(model, "mine")
    ours = clipped_sum_of(model, 4)
    assert type(ours) is way
    inputs, targets = made_up(model, ours.places)
    taken = torch.arange(ours.places) < 3
    found = ours(inputs, targets, taken, clip=0.5)
    expected = sum(grad_of_one(model, inputs, targets, place, 0.5) for place in range(3))
    assert isinstance(expected, Tensor) and torch.allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("way", [ByLayer, ByTransform, OneByOne])
def test_an_example_without_a_finite_gradient_adds_nothing_and_harms_no_other(way: type) -> None:
    model = load_model("mlp", ROWS, "", "")
    assert isinstance(model, TorchModel)
    inputs, targets = made_up(model, 4)
    broken = inputs.clone()
    broken[2], broken[3] = float("nan"), 3e38
    taken = torch.ones(4, dtype=torch.bool)
    found = way(model, 4)(broken, targets, taken, clip=0.5)
    expected = way(model, 4)(inputs, targets, torch.tensor([True, True, False, False]), clip=0.5)
    last = way(model, 4)(broken, targets, torch.tensor([False, False, False, True]), clip=0.5)
    assert torch.isfinite(found).all() and float(last.norm()) <= 0.5
    assert torch.allclose(found - last, expected, atol=1e-9)


@pytest.mark.parametrize("way", [ByLayer, ByTransform, OneByOne])
def test_no_place_moves_the_sum_by_more_than_clip_whatever_it_holds(way: type) -> None:
    torch.manual_seed(3)
    model = load_model("cnn", IMAGES, "", "")
    assert isinstance(model, TorchModel)
    inputs, targets = made_up(model, 4)
    inputs[0] *= 1e4
    for place in range(4):
        alone = way(model, 4)(inputs, targets, torch.arange(4) == place, clip=0.25)
        assert float(alone.norm()) <= 0.25
    nobody = way(model, 4)(inputs, targets, torch.zeros(4, dtype=torch.bool), clip=0.25)
    assert not nobody.any()


def test_at_one_place_an_example_adds_the_same_bits_whatever_stands_beside_it() -> None:
    torch.manual_seed(3)
    model = load_model("cnn", IMAGES, "", "")
    assert isinstance(model, TorchModel)
    ours, (inputs, targets) = ByLayer(model, 16), made_up(model, 16)
    with_all = ours(inputs, targets, torch.arange(16) == 5, clip=0.25)
    others = torch.randn_like(inputs)
    others[5] = inputs[5]
    assert torch.equal(ours(others, targets, torch.arange(16) == 5, clip=0.25), with_all)


class Centered(nn.Module):
    """A module of the user's own that takes the mean over the batch off."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last = nn.Identity(), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(self.inner(x) - x.mean(0, keepdim=True))
        return logits


class Counting(nn.Module):
    """A module that keeps the mean of its inputs in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(6, 3)
        self.register_buffer("mean", torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean.copy_(x.mean(0))
        logits: Tensor = self.last(x)
        return logits


class Attending(nn.Module):
    """Attention among examples in place of positions."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        mixed = functional.softmax(x @ x.T, dim=1) @ x
        logits: Tensor = self.last(mixed)
        return logits


class Noting(nn.Module):
    """Writes into a parameter what it has seen, as an embedding with a bound on its rows does."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.seen = nn.Linear(6, 3), nn.Parameter(torch.zeros(6), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.seen.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return cast(Tensor, self.last(x))


class Crowded(nn.Module):
    """Mixes examples in batches of more than four alone."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.last(x - x.mean(0) if len(x) > 4 else x))


@pytest.mark.parametrize("most", [0.5, 1.0, 10.0, 50.0, 100.0])  # the last are passed after some steps alone
def test_an_embedding_that_shortens_the_rows_of_tokens_it_has_seen_is_refused(most: float) -> None:
    bounded = nn.Sequential(nn.Embedding(11, 6, max_norm=most), nn.Flatten(), nn.Linear(42, 5))
    model = TorchModel(lambda: bounded, DataSpec("texts", (7,), "int32", classes=5, vocabulary=11))
    before = {name: each.clone() for name, each in bounded.state_dict().items()}
    with pytest.raises(SettingError, match=r"its parameter '0.weight' keeps something of the examples"):
        check_apart(model, "mine")
    assert all(torch.equal(each, before[name]) for name, each in bounded.state_dict().items())


def test_a_module_that_mixes_large_batches_alone_is_refused_where_training_has_such() -> None:
    for count in (2, 4):
        check_apart(model_of(Crowded()), "mine", count=count)
    for count in (5, 16):
        with pytest.raises(SettingError, match=r"its layer 'last' .* what depends on another one"):
            check_apart(model_of(Crowded()), "mine", count=count)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (Noting(), "its parameter 'seen' keeps something of the examples"),
        (nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)), r"its layer '1' \(BatchNorm1d\) mixes"),
        (nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8, track_running_stats=False), nn.Linear(8, 3)), "'1'"),
        (Centered(), r"its layer 'last' \(Linear\) makes of one example what depends on another"),
        (Attending(), "its layer 'last'"),
        (Counting(), "its buffer 'mean' keeps something of the examples"),
    ],
)
def test_a_layer_that_mixes_examples_is_refused_by_name(module: nn.Module, words: str) -> None:
    model = model_of(module)
    before = {name: each.clone() for name, each in module.state_dict().items()}
    with pytest.raises(SettingError, match=words):
        check_apart(model, "mine")
    assert all(torch.equal(each, before[name]) for name, each in module.state_dict().items())


def test_dropout_and_norms_over_one_example_mix_nothing() -> None:
    check_apart(model_of(nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Dropout(0.5), nn.Linear(8, 3))), "mine")
    lstm = load_model("lstm", TEXTS, "", "")
    assert isinstance(lstm, TorchModel)
    check_apart(lstm, "lstm")
