"""The units of each axis are found by passes, whatever code lies between layers; what cannot be sliced is refused."""

import numpy as np
import pytest
import torch
from torch import nn

from fedlearn.core.errors import SettingError
from fedlearn.data.data_spec import DataSpec
from fedlearn.models.networks.transformer import Transformer
from fedlearn.models.slices.slicing import ordered_units
from fedlearn.models.slices.slicing_rules import SliceRule
from fedlearn.models.slices.tracing import SlicedModule
from fedlearn.models.torch.torch_model import TorchModel

SPEC = DataSpec("small", (4, 4, 2), "float32", classes=3)
TEXT = DataSpec("text", (6,), "int32", classes=4, vocabulary=9)


def sliced(build, spec=SPEC, rule=""):
    return SlicedModule(TorchModel(build, spec), "mine", rule)


def widths(axis):
    return None if axis is None else sorted(set(axis[0].tolist()))


class Joined(nn.Module):
    """A convolution of each channel alone, two branches side by side, and the images themselves."""

    def __init__(self):
        super().__init__()
        self.first, self.alone = nn.Conv2d(2, 6, 1), nn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.norm, self.branch = nn.GroupNorm(2, 6), nn.Conv2d(6, 4, 1, bias=False)
        self.out = nn.Linear((6 + 4 + 2) * 16, 3)

    def forward(self, x):
        first = torch.relu(self.norm(self.alone(self.first(x))))
        return self.out(torch.cat([first, self.branch(first), x], 1).flatten(1))


def test_units_are_followed_through_any_code():
    found = sliced(Joined)
    assert found.outputs == {"out"}
    assert [widths(each) for each in found.axes["alone.weight"]] == [[6], None, None, None]
    assert [widths(each) for each in found.axes["branch.weight"]] == [[4], [6], None, None]
    rows, columns = found.axes["out.weight"]
    assert rows is None
    np.testing.assert_array_equal(columns[0], np.repeat([6, 4, 0], [96, 64, 32]))
    np.testing.assert_array_equal(columns[1], np.repeat([*range(6), *range(4), 0, 0], 16))


def test_a_slice_is_a_module_of_its_sizes():
    module = sliced(Joined).cut(ordered_units, 0.5)
    assert (module.first.out_channels, module.alone.groups, module.norm.num_channels) == (3, 3, 3)
    assert module.out.in_features == (3 + 2 + 2) * 16
    module.norm.num_groups = 3  # three channels are no two groups
    assert module(torch.zeros(5, 2, 4, 4)).shape == (5, 3)


@pytest.mark.parametrize("attention", ["our transformer", "torch's layers"])
def test_heads_keep_the_same_dimensions_each(attention):
    def encoder():
        layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True)
        return nn.Sequential(nn.Embedding(9, 8), layer, nn.Flatten(), nn.Linear(48, 4))

    ours = attention == "our transformer"
    found = sliced(lambda: Transformer(TEXT, width=8, layers=1, heads=2) if ours else encoder(), TEXT)
    name = "blocks.0.joined.weight" if ours else "1.self_attn.out_proj.weight"
    rows, columns = found.axes[name]
    assert rows.tolist() == [[8] * 8, [*range(8)]]
    assert columns.tolist() == [[4] * 8, [*range(4)] * 2]
    module = found.cut(ordered_units, 0.5)
    assert module(torch.zeros(2, 6, dtype=torch.int64)).shape == (2, 4)


class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.out = nn.Linear(32, 6), nn.Linear(6, 3)

    def forward(self, x):
        x = self.first(x.flatten(1))
        return self.out(x - x.mean(1, keepdim=True))


def recurrent():
    return nn.Sequential(nn.Flatten(2), nn.LSTM(16, 5))


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (Mixing, "in the input of 'out' several units of layers before it are mixed"),
        (recurrent, "there is no slicing rule for '1', a LSTM"),
        (lambda: nn.Sequential(nn.Conv2d(2, 4, 1, groups=2), nn.Flatten(), nn.Linear(64, 3)), "rule for '0', a Conv2d"),
    ],
)
def test_a_module_that_cannot_be_sliced_is_refused_in_one_line(build, said):
    with pytest.raises(SettingError, match=said) as refused:
        sliced(build)
    assert "\n" not in str(refused.value)


class Scale(nn.Module):
    """A layer of one's own."""

    def __init__(self, width=6):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1, width, 1))

    def forward(self, x):
        return x * self.scale[0, :, 0]


def rule(name, layer):
    if isinstance(layer, Scale):
        return SliceRule({"scale": ("", "in", "")}, resize=lambda layer: None, passes=True)
    return None


def test_a_rule_of_ones_own_slices_a_layer_of_ones_own():
    found = sliced(
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(32, 6), Scale(), nn.Linear(6, 3)), rule=f"{__name__}:rule"
    )
    assert [widths(each) for each in found.axes["2.scale"]] == [None, [6], None]
    assert found.cut(ordered_units, 0.5)(torch.zeros(2, 2, 4, 4)).shape == (2, 3)
