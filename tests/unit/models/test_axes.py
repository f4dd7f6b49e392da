"""Outputs and targets are compared axis by axis; what does not fit is refused with both shapes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedlearn.core.errors import SettingError
from fedlearn.data import from_arrays
from fedlearn.data.data_spec import DataSpec
from fedlearn.models import load_model
from fedlearn.models.objectives import Classification, objective_for
from fedlearn.models.torch.torch_model import TorchModel

RNG = np.random.default_rng(1)
IMAGES = RNG.random((12, 8, 6, 3), np.float32)
SERIES = RNG.random((12, 8, 3), np.float32)
TOKENS = RNG.integers(0, 6, (12, 6))


class Scaled(nn.Module):
    """Returns its input, in another order of axes."""

    def __init__(self, *order):
        super().__init__()
        self.order, self.scale = order, nn.Parameter(torch.ones(1))

    def forward(self, x):
        return (x.permute(self.order) if self.order else x) * self.scale


class Spelled(nn.Module):
    """Says each of its tokens rightly; the classes stand second, or last."""

    def __init__(self, axis, classes=6):
        super().__init__()
        self.axis, self.embedding = axis, nn.Embedding(classes, classes)
        with torch.no_grad():
            self.embedding.weight.copy_(8 * torch.eye(classes))

    def forward(self, tokens):
        return self.embedding(tokens).movedim(-1, self.axis)


class SpelledAndSaid(Spelled):
    def __init__(self, axis):
        super().__init__(axis)
        self.class_axis = axis


def made(build, data, loss):
    return TorchModel(build, data.spec, objective_for(data.spec, loss))


def measured(module, data, loss=None):
    model = TorchModel(lambda: module, data.spec, objective_for(data.spec, loss) if loss else None)
    state = {name: tensor.numpy().copy() for name, tensor in module.state_dict().items()}
    model.try_step(data.test.at(slice(0, 2)))
    return model.evaluate(state, data.test).means


@pytest.mark.parametrize("said", [{}, {"mean": 0.0, "std": 1.0}])
@pytest.mark.parametrize(
    "pixels", [IMAGES, IMAGES[..., :1], IMAGES[:, :, :, [0, 1, 2, 0]]], ids=["colours", "grey", "4 channels"]
)
def test_module_that_returns_its_images_is_never_wrong(pixels, said):
    assert measured(Scaled(), from_arrays(pixels, pixels.copy(), **said))["mse"] == 0


def test_module_that_returns_its_series_is_never_wrong():
    assert measured(Scaled(), from_arrays(SERIES, SERIES.copy()))["mse"] == 0


def test_images_given_with_channels_first_are_learned_with_channels_first():
    pixels = np.ascontiguousarray(IMAGES.transpose(0, 3, 1, 2))
    assert measured(Scaled(), from_arrays(pixels, pixels.copy(), channels="first"))["mse"] == 0


def test_images_of_torch_are_learned_as_they_are():
    from torch.utils.data import TensorDataset

    from fedlearn.data import from_torch

    pixels = torch.from_numpy(IMAGES.transpose(0, 3, 1, 2).copy())
    assert measured(Scaled(), from_torch(TensorDataset(pixels, pixels.clone())))["mse"] == 0


@pytest.mark.parametrize(
    ("module", "values", "shapes"),
    [
        (Scaled(0, 2, 1), SERIES, r"shape \(2, 3, 8\), which should be \(2, 8, 3\)"),
        (Scaled(0, 2, 3, 1), IMAGES, r"shape \(2, 8, 6, 3\), which should be \(2, 3, 8, 6\)"),
        (nn.Sequential(Scaled(), nn.Flatten()), SERIES, r"shape \(2, 24\), which should be \(2, 8, 3\)"),
    ],
    ids=["series", "images", "all in one axis"],
)
def test_other_order_of_axes_is_refused_with_both_shapes(module, values, shapes):
    with pytest.raises(ValueError, match=shapes):
        measured(module, from_arrays(values, values.copy()))


def test_wrong_shape_of_a_later_batch_is_refused_too():
    objective = objective_for(DataSpec("pairs", (2,), "float32", target_shape=(2,)))
    targets = torch.zeros(5, 2)
    for of in (objective.loss, objective.measure):
        with pytest.raises(ValueError, match=r"shape \(2, 5\), which should be \(5, 2\)"):
            of(torch.zeros(2, 5), targets)


def test_one_number_may_stand_in_an_axis_of_its_own_or_in_none():
    objective = objective_for(DataSpec("numbers", (2,), "float32"))
    assert objective.loss(torch.ones(3, 1), torch.zeros(3)) == 1
    assert objective.loss(torch.ones(()), torch.zeros(1)) == 1


@pytest.mark.parametrize("name", ["linear", "mlp", "lstm", "transformer"])
def test_networks_of_the_table_return_the_shape_that_is_learned(name):
    data = from_arrays(SERIES, SERIES.copy())
    model = load_model(name, data.spec)
    model.try_step(data.test.at(slice(0, 2)))
    assert model.evaluate(model.initial_state(seed=1), data.test).means["mse"] > 0


@pytest.mark.parametrize("axis", [1, -1])
def test_classes_stand_second_or_last_where_the_shape_says_it(axis):
    data = from_arrays(TOKENS[:, :4], TOKENS[:, :4].copy(), classes=6, vocabulary=6)
    assert measured(Spelled(axis), data)["accuracy"] == 1


@pytest.mark.parametrize("axis", [1, -1])
def test_as_many_places_as_classes_are_never_guessed(axis):
    data = from_arrays(TOKENS, TOKENS.copy(), classes=6, vocabulary=6)
    with pytest.raises(ValueError, match=r"\(2, 6, 6\) and the targets \(2, 6\): .* say class_axis = 1 .second. or"):
        measured(Spelled(axis), data)
    assert measured(SpelledAndSaid(axis), data)["accuracy"] == 1


@pytest.mark.parametrize("name", ["lstm", "transformer"])
def test_networks_of_the_table_say_where_their_classes_stand(name):
    data = from_arrays(TOKENS, TOKENS.copy(), classes=6, vocabulary=6)
    model = load_model(name, data.spec, loss="torch.nn.functional:cross_entropy")
    plain = load_model(name, data.spec)
    for each in (model, plain):
        each.try_step(data.test.at(slice(0, 2)))
    state = plain.initial_state(seed=1)
    one, other = model.evaluate(state, data.test).means, plain.evaluate(state, data.test).means
    assert one == pytest.approx(other)


def test_masks_are_learned_as_torch_has_them():
    masks = (IMAGES[..., 0] > 0.5).astype(int)

    class Exact(Scaled):
        def forward(self, x):  # (B, 2, H, W)
            return torch.stack([0.5 - x[:, 0], x[:, 0] - 0.5], 1) * self.scale

    for target in (masks, masks[..., None]):
        assert measured(Exact(), from_arrays(IMAGES, target))["accuracy"] == 1


def with_hidden(module, kind):
    class WithHidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, x):
            logits = self.inner(x)
            return {"logits": logits, "hidden": x} if kind is dict else (logits, x)

    return WithHidden


ROWS = from_arrays(RNG.random((20, 4), np.float32), np.arange(20) % 3)


@pytest.mark.parametrize(
    ("kind", "loss"),
    [
        (dict, lambda outputs, targets: functional.cross_entropy(outputs["logits"], targets)),
        (tuple, lambda outputs, targets: functional.cross_entropy(outputs[0], targets)),
    ],
)
def test_loss_of_ones_own_sees_all_that_a_module_returns(kind, loss):
    torch.manual_seed(1)
    module = nn.Linear(4, 3)
    found = measured(with_hidden(module, kind)(), ROWS, loss)
    assert found == pytest.approx(measured(module, ROWS))
    model = made(with_hidden(nn.Linear(4, 3), kind), ROWS, loss)
    assert model.metrics.best_by == "accuracy"


def test_where_no_accuracy_can_be_measured_the_loss_is_judged_by():
    def margin(outputs, targets):
        return outputs.square().mean()

    model = made(lambda: nn.Linear(4, 2), ROWS, margin)  # two numbers, three classes
    assert model.metrics.best_by == "loss"
    assert model.evaluate(model.initial_state(seed=1), ROWS.test).means.keys() == {"loss"}


def test_objective_of_ones_own_sees_all_that_a_module_returns():
    class Own(Classification):
        def loss(self, outputs, targets):
            return functional.cross_entropy(outputs["logits"], targets)

        def measure(self, outputs, targets):
            return super().measure(outputs["logits"], targets)

    module = with_hidden(nn.Linear(4, 3), dict)()
    assert measured(module, ROWS, Own)["accuracy"] == measured(module.inner, ROWS)["accuracy"]


LABELED = from_arrays(RNG.random((20, 4), np.float32), (RNG.random((20, 3)) > 0.5).astype(np.float32))


@pytest.mark.parametrize("loss", [functional.binary_cross_entropy_with_logits, nn.BCEWithLogitsLoss])
@pytest.mark.parametrize("dtype", [np.float32, bool, int])
def test_several_labels_an_example_are_judged_by_right_labels(loss, dtype):
    data = from_arrays(LABELED.train.inputs, LABELED.train.targets.astype(dtype))
    model = made(lambda: nn.Linear(4, 3), data, loss)
    model.try_step(data.test.at(slice(0, 2)))
    found = model.evaluate(model.initial_state(seed=1), data.test).means
    assert model.metrics.best_by == "accuracy"
    assert found.keys() == {"loss", "accuracy", "all_right"}
    objective, targets = model.objective, torch.tensor([[0.0, 1.0], [1.0, 1.0]])
    assert objective.measure(torch.tensor([[-9.0, 9.0], [-9.0, 9.0]]), targets)["accuracy"] == 1.5


def test_probabilities_are_held_against_a_half():
    objective = objective_for(LABELED.spec, functional.binary_cross_entropy)
    found = objective.measure(torch.tensor([[0.4, 0.6, 0.1]]), torch.tensor([[0.0, 1.0, 1.0]]))
    assert (found["accuracy"], found["all_right"]) == (pytest.approx(2 / 3), 0)


@pytest.mark.parametrize(
    ("loss", "judged_by"),
    [
        ("mae", "mae"), ("huber", "mae"), (nn.SmoothL1Loss, "mae"), (functional.poisson_nll_loss, "deviance"),
        (lambda outputs, targets: functional.binary_cross_entropy_with_logits(outputs, targets), "loss"),
        (lambda outputs, targets: ((outputs - targets) ** 4).mean(), "loss"),
    ],
)  # fmt: skip
def test_no_error_of_what_may_be_logits_chooses_the_best_round(loss, judged_by):
    model = made(lambda: nn.Linear(4, 3), LABELED, loss)
    assert model.metrics.best_by == judged_by
    assert judged_by in model.evaluate(model.initial_state(seed=1), LABELED.test).means


def test_nan_is_no_answer():
    class Nowhere(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 3)

        def forward(self, x):
            return self.inner(x) / 0 * 0

    data = from_arrays(RNG.random((300, 4), np.float32), np.zeros(300, int), classes=3)  # argmax of NaN is 0
    model = TorchModel(Nowhere, data.spec)
    found = model.evaluate(model.initial_state(seed=1), data.train)
    assert np.isnan([*found.means.values()]).all() and found.means.keys() == {"loss", "accuracy"}
    assert found.confusion.sum() == 0


def test_network_that_returns_one_answer_names_the_places_that_are_learned():
    data = from_arrays(IMAGES, (IMAGES[..., 0] > 0.5).astype(int))
    with pytest.raises(SettingError, match="has classes at 8 x 6 places"):
        load_model("linear", data.spec)
