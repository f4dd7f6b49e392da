"""What goes with the data, and what a user puts in its place."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedlearn.core.errors import SettingError
from fedlearn.data.data_spec import DataSpec
from fedlearn.models import load_model
from fedlearn.models.objectives import Classification, NextToken, Objective, Regression, objective_for
from tests.oracles import forests, images, texts

CLASSES = images.dataset().spec
NUMBERS = DataSpec("prices", (4,), "float32", target_bounds=(0.0, 10.0))


def smooth(outputs, targets):
    return functional.cross_entropy(outputs, targets, label_smoothing=0.1)


class Ranking(Objective):
    pass


@pytest.mark.parametrize(
    ("spec", "kind"),
    [(CLASSES, Classification), (texts.dataset().spec, NextToken), (NUMBERS, Regression)],
    ids=["images", "text", "numbers"],
)
def test_the_objective_follows_from_the_data(spec, kind):
    assert type(objective_for(spec)) is kind


@pytest.mark.parametrize("given", [smooth, f"{__name__}:smooth", nn.MultiMarginLoss, "torch.nn:MultiMarginLoss"])
def test_a_loss_of_ones_own_is_made_smaller_and_measured(given):
    outputs, targets = torch.randn(5, 10), torch.tensor([0, 1, 2, 3, 9])
    objective = objective_for(CLASSES, given)
    loss = objective.loss(outputs, targets)
    assert type(objective) is Classification
    assert loss != functional.cross_entropy(outputs, targets)
    assert objective.measure(outputs, targets)["loss"] == pytest.approx(5 * loss.item())


def test_an_objective_of_ones_own_is_taken_as_it_is():
    assert type(objective_for(CLASSES, f"{__name__}:Ranking")) is Ranking
    own = Ranking(CLASSES)
    assert objective_for(CLASSES, own) is own


def test_numbers_are_learned_on_the_scale_of_their_bounds_and_measured_in_their_unit():
    objective = objective_for(NUMBERS)
    targets = objective.targets(np.array([0.0, 5.0, 10.0]))
    assert targets.tolist() == [-1.0, 0.0, 1.0]
    outputs = torch.tensor([[-1.0], [0.5], [1.0]])
    assert objective.loss(outputs, targets).item() == pytest.approx(0.25 / 3)
    assert objective.measure(outputs, targets) == {"mae": 2.5, "mse": 6.25}


def test_sums_over_sequences_count_each_of_them_once():
    objective = objective_for(texts.dataset().spec)
    outputs, targets = torch.zeros(2, 4, 7), torch.tensor([[0, 0, 0, 1], [0, 0, 0, 0]])
    assert objective.measure(outputs, targets) == pytest.approx({"loss": 2 * np.log(7), "accuracy": 1.75})
    assert objective.metrics.completed({"loss": np.log(7)})["perplexity"] == pytest.approx(7)


@pytest.mark.parametrize(
    ("spec", "outputs", "targets", "fits"),
    [
        (CLASSES, (2, 10), (2,), True),
        (CLASSES, (2, 1000), (2,), True),  # as of a network made for more classes
        (CLASSES, (2, 9), (2,), False),
        (CLASSES, (2, 10, 3, 3), (2,), False),
        (NUMBERS, (2, 1), (2,), True),
        (NUMBERS, (2, 3), (2,), False),
    ],
)
def test_outputs_that_do_not_fit_are_said(spec, outputs, targets, fits):
    why_not = objective_for(spec).why_not(torch.zeros(outputs), torch.zeros(targets, dtype=torch.int64))
    wanted = (*targets, 10) if spec is CLASSES else targets
    said = f"its outputs have shape {outputs}, which should be {wanted}: the targets have shape {targets}"
    assert why_not == ("" if fits else said)


@pytest.mark.parametrize("spec", [CLASSES, NUMBERS])
def test_outputs_that_are_no_tensor_are_said(spec):
    why_not = objective_for(spec).why_not((torch.zeros(2, 10), None), torch.zeros(2, dtype=torch.int64))
    assert why_not.startswith("it returns a tuple, which should be one tensor")


@pytest.mark.parametrize("given", ["crossentropy", "math:tau", "builtins:int"])
def test_what_is_no_loss_is_refused_by_its_setting(given):
    with pytest.raises(SettingError, match=rf"model\.loss = '{given}'"):
        objective_for(CLASSES, given)


def test_a_model_that_is_no_torch_module_has_a_loss_of_its_own():
    with pytest.raises(SettingError, match=r"model\.loss = 'mse': model 'dp-forest' is no torch module"):
        load_model("dp-forest", forests.dataset(forests.REGRESSION).spec, loss="mse")
