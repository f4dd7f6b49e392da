"""Whatever a user has that makes a torch module is a model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from fedlearn.core.errors import SettingError
from fedlearn.data.data_spec import DataSpec
from fedlearn.models.spec import torch_module
from fedlearn.models.torch.torch_model import TorchModel
from tests.oracles.images import Small, dataset


class Plain(nn.Module):
    """A module that does not know fedlearn, as in any tutorial."""

    def __init__(self, num_classes=10, channels=3):
        super().__init__()
        self.conv = nn.Conv2d(channels, 2, 3, stride=8)
        self.out = nn.Linear(2 * 4 * 4, num_classes)

    def forward(self, x):
        return self.out(self.conv(x).flatten(1))


class NeedsClasses(Plain):
    def __init__(self, num_classes):
        super().__init__(num_classes)


def of_spec(spec):
    return Plain(spec.classes)


def of_annotated(data: DataSpec, *, channels: int = 3):
    return Plain(data.classes, channels)


def lazy():
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(7))


def breaks():
    raise RuntimeError("no weights here\nand more")


def model_of(given, **options):
    return torch_module(given).build_model(dataset().spec, options)


def shapes(model):
    return {name: array.shape for name, array in model.initial_state(seed=1).items()}


@pytest.mark.parametrize(
    "given",
    [Plain, of_spec, of_annotated, lambda: Plain(), Plain(), f"{__name__}:Plain"],
    ids=["class", "of a spec", "of what is annotated so", "function", "module", "name"],
)
def test_a_class_a_function_a_module_or_its_name_is_a_model(given):
    model = model_of(given)
    assert isinstance(model, TorchModel)
    assert shapes(model)["out.weight"] == (10, 32)


def test_parameters_that_are_not_the_specs_are_options():
    assert shapes(model_of(Plain, num_classes=4))["out.weight"] == (4, 32)
    assert shapes(model_of(NeedsClasses, num_classes=4))["out.weight"] == (4, 32)
    assert shapes(model_of(of_annotated, channels=5))["conv.weight"] == (2, 5, 3, 3)


def test_a_module_that_is_given_begins_with_its_own_weights_and_stays_as_it_is():
    module = Plain()
    before = {name: tensor.numpy().copy() for name, tensor in module.state_dict().items()}
    model = model_of(module)
    first, other = model.initial_state(seed=1), model.initial_state(seed=2)
    model.load({name: array + 1 for name, array in first.items()})
    for name, array in before.items():
        np.testing.assert_array_equal(first[name], array)
        np.testing.assert_array_equal(other[name], array)
        np.testing.assert_array_equal(module.state_dict()[name].numpy(), array)


def test_a_model_that_is_given_is_taken_as_it_is():
    model = TorchModel(Small, dataset().spec)
    assert model_of(model) is model


def test_layers_that_find_out_their_own_size_are_shown_examples():
    model = model_of(lazy)
    assert shapes(model) == {"1.weight": (7, 3072), "1.bias": (7,)}
    first, again = (model.initial_state(seed=1)["1.weight"].tobytes() for _ in range(2))
    assert first == again != model.initial_state(seed=2)["1.weight"].tobytes()


def with_buffer(tensor):
    module = Plain()
    module.register_buffer("odd", tensor)
    return module


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        (NeedsClasses, {}, "model.name = 'NeedsClasses': it needs num_classes: give model.options.num_classes, or"),
        (Plain, {"classes": 3}, "model.options.classes = 3: there is no such option; did you mean num_classes?"),
        (Plain(), {"classes": 3}, "model.options = {'classes': 3}: the model is an object, which takes no options"),
        (of_spec, {"spec": 3}, "model.options.spec = 3: there are no options here"),
        (breaks, {}, "model.name = 'breaks': it cannot be built: RuntimeError in test_wrapping.py"),
        (with_buffer(torch.ones(2, dtype=torch.complex64)), {}, "TypeError: odd is torch.complex64: a state holds"),
        (lambda: "net", {}, "it must make a torch.nn.Module or a fedlearn.models.Model, not str"),
        (3, {}, "model.name = 'int': it is neither a torch.nn.Module class nor a function"),
    ],
)
def test_what_cannot_be_built_is_one_line(given, options, said):
    with pytest.raises(SettingError) as error:
        model_of(given, **options)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
