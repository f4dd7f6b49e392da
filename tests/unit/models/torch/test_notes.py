"""Likely mistakes are warned of in one line; right uses are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedlearn.core.metric import ACCURACY, LOSS, TRAIN_LOSS, Metric
from fedlearn.core.metrics import Metrics
from fedlearn.data import from_arrays
from fedlearn.data.data_spec import DataSpec, Examples, TableSchema
from fedlearn.models.loaded import trial
from fedlearn.models.objectives import Classification, objective_for
from fedlearn.models.torch.notes import clipped_statistics, notes_on, unlike_columns
from fedlearn.models.torch.torch_model import TorchModel

RNG = np.random.default_rng(1)
ROWS = from_arrays(RNG.random((200, 4), np.float32), np.arange(200) % 3)
LABELED = from_arrays(RNG.random((200, 4), np.float32), (RNG.random((200, 3)) > 0.5).astype(np.float32))
TEXTS = from_arrays(RNG.integers(0, 5, (40, 7)), RNG.integers(0, 5, (40, 7)), vocabulary=5, classes=5)


def notes(build, data=ROWS, loss=None, *, learner="sgd"):
    torch.manual_seed(1)
    model = TorchModel(build, data.spec, objective_for(data.spec, loss) if loss else None)
    outputs = model.try_step(data.test.at(slice(0, 2)))
    return list(notes_on(model, data.test.at(slice(0, 32)), outputs, learner=learner))


def linear(*last):
    return lambda: nn.Sequential(nn.Linear(4, 3), *last)


class Lit(nn.Linear):
    def __init__(self):
        super().__init__(4, 3)

    def training_step(self, batch):
        raise AssertionError("it is not called")


class LitToo(Lit):
    def configure_optimizers(self):
        raise AssertionError("it is not called")


def test_hooks_that_are_not_called_are_said():
    assert notes(Lit)[0].startswith("Lit has training_step, which is not called")
    assert notes(LitToo)[0].startswith("LitToo has training_step and configure_optimizers, which are not called")


class LitWhole(LitToo):
    def validation_step(self, batch, batch_idx):
        raise AssertionError("it is not called")

    def on_train_epoch_end(self):
        raise AssertionError("it is not called")


def test_hooks_that_are_called_are_said_with_those_that_are_not():
    (note,) = notes(LitWhole, learner="lightning")
    assert note.startswith(
        "LitWhole is trained by its training_step and configure_optimizers; training.lr, optimizer, "
    )
    assert "not called: self.log, on_train_epoch_end, validation_step; it is measured by its forward" in note


def test_learner_of_ones_own_may_call_them():
    assert not notes(Lit, learner="mine:Own")


@pytest.mark.parametrize("loss", [None, functional.cross_entropy, nn.CrossEntropyLoss])
def test_softmax_before_cross_entropy_is_said(loss):
    (note,) = notes(linear(nn.Softmax(1)), loss=loss)
    assert "a softmax of its own" in note


@pytest.mark.parametrize("axis", [1, 2])
def test_softmax_over_the_classes_of_each_place_is_said(axis):
    class Probabilities(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(5, 5)

        def forward(self, tokens):
            return self.embedding(tokens).softmax(-1).movedim(-1, axis)

    assert "a softmax of its own" in notes(Probabilities, TEXTS)[0]


def test_sigmoid_before_a_loss_of_logits_is_said():
    assert "leave out the sigmoid" in notes(linear(nn.Sigmoid()))[0]
    assert "leave out the sigmoid" in notes(linear(nn.Sigmoid(), nn.Unflatten(1, (3, 1)), nn.Flatten()))[0]
    assert "leave out the sigmoid" in notes(linear(nn.Sigmoid()), LABELED, nn.BCEWithLogitsLoss)[0]


@pytest.mark.parametrize(
    ("build", "data", "loss"),
    [
        (linear(), ROWS, None),
        (linear(nn.LogSoftmax(1)), ROWS, None),
        (linear(nn.ReLU()), ROWS, None),
        (linear(nn.Softmax(1)), ROWS, lambda outputs, targets: functional.nll_loss(outputs.log(), targets)),
        (linear(), LABELED, functional.binary_cross_entropy_with_logits),
        (linear(nn.Sigmoid()), LABELED, functional.binary_cross_entropy),
        (linear(), LABELED, None),
        (linear(nn.Sigmoid()), LABELED, None),
        (linear(nn.Sigmoid()), LABELED, "mae"),
    ],
)
def test_what_is_meant_is_not_said(build, data, loss):
    assert not notes(build, data, loss)


def test_scale_of_columns_is_said():
    rows = ROWS.test.inputs * np.float32([1, 0, 3000, 0.5])
    (note,) = unlike_columns(ROWS.spec, Examples(rows, ROWS.test.targets))
    assert note.startswith("columns of unlike scale: column 2 reaches 3e+03, column 3 0.482 (from 0)")
    named = replace(ROWS.spec, feature_names=tuple("abcd"))
    (note,) = unlike_columns(named, Examples(rows, ROWS.test.targets))
    assert note.startswith("columns of unlike scale: column 'c' reaches 3e+03, column 'd' 0.482 (from 0)")
    assert not list(unlike_columns(ROWS.spec, ROWS.test))
    assert not list(unlike_columns(ROWS.spec, Examples(rows[:, 1:2], ROWS.test.targets)))


class Untouchable(np.ndarray):
    def __array_ufunc__(self, *arguments, **named):
        raise AssertionError("it is read")


@pytest.mark.parametrize(
    "spec",
    [
        DataSpec("table", (2,), "float64", table=TableSchema("y", {"a": (0, 1), "b": (0, 1000)}, target_bounds=(0, 1))),
        DataSpec("standardized", (2,), "float32", mean=(0.0, 0.0), std=(1.0, 1000.0)),
        DataSpec("image", (8, 8, 1), "uint8", classes=2),
    ],
    ids=lambda spec: spec.name,
)
def test_no_bounds_are_read_of_declared_tables_or_what_is_scaled(spec):
    rows = np.zeros((3, *spec.shape), spec.dtype).view(Untouchable)
    assert not list(unlike_columns(spec, Examples(rows, np.zeros(3, np.int64))))


class MacroF1(Classification):
    metrics = Metrics((TRAIN_LOSS,), (Metric("f1", better="up", headline=True), ACCURACY, LOSS))

    def measure(self, outputs, targets):
        guess = outputs.argmax(1)
        both = [((guess == k) & (targets == k)).sum() / ((guess == k).sum() + (targets == k).sum()) for k in range(3)]
        return {**super().measure(outputs, targets), "f1": 2 * float(sum(both)) / 3 * len(targets)}


class TopTwo(Classification):
    metrics = Metrics((TRAIN_LOSS,), (Metric("top_two", better="up", headline=True), ACCURACY, LOSS))

    def measure(self, outputs, targets):
        right = (outputs.topk(2).indices == targets[:, None]).any(1)
        return {**super().measure(outputs, targets), "top_two": float(right.sum())}


def test_measure_that_is_no_sum_is_said():
    (note,) = notes(linear(), loss=MacroF1)
    assert note.startswith("f1 is no sum over examples: of 32 at once it is ")
    assert not notes(linear(), loss=TopTwo)


def largest(outputs, targets):
    return nn.functional.cross_entropy(outputs, targets, reduction="none").max()


def test_loss_that_hangs_on_the_batches_is_said():
    (note,) = notes(linear(), loss=largest)
    assert note.startswith("loss is no sum over examples")
    weight = torch.tensor([0.0, 1.0, 5.0])
    for loss in (nn.CrossEntropyLoss(label_smoothing=0.1), nn.CrossEntropyLoss(weight=weight)):
        assert not notes(linear(), loss=loss)


def test_what_is_not_measured_is_said():
    (note,) = notes(lambda: nn.Linear(4, 2), loss=lambda outputs, targets: outputs.square().mean())
    assert note.startswith("accuracy is not measured") and note.endswith("runs are judged by the loss")


def test_a_run_as_it_comes_says_nothing():
    assert trial({"data.dataset": "digits"}, {}) == trial({"data.dataset": "diabetes", "model.name": "mlp"}, {}) == ()


def test_running_statistics_in_a_secure_sum_are_noted():
    normed = TorchModel(linear(nn.BatchNorm1d(3)), ROWS.spec)
    assert list(clipped_statistics(normed, clip=0.5)) == [
        "1.running_mean, 1.running_var: running statistics move by at most 0.5 a round, as any entry of a secure sum "
        "(secure.clip): a GroupNorm has none"
    ]
    assert not list(clipped_statistics(TorchModel(linear(nn.GroupNorm(1, 3)), ROWS.spec), clip=0.5))
