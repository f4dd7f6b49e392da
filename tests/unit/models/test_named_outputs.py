"""Modules as of `transformers`: logits in their outputs, masks of their texts; no labels, no loss of their own."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from client.learners.learner import LocalTask
from fedlearn.core.errors import UsageError
from fedlearn.data import from_arrays
from fedlearn.models.objectives import objective_for
from fedlearn.models.torch.evaluating import answers
from fedlearn.models.torch.notes import notes_on
from fedlearn.models.torch.torch_model import TorchModel
from tests.unit.client.learners.test_sgd import learner_of

RNG = np.random.default_rng(2)
TOKENS = np.where(np.arange(6) < RNG.integers(1, 6, (60, 1)), RNG.integers(1, 9, (60, 6)), 0)
TEXTS = from_arrays(TOKENS, RNG.integers(0, 3, 60), vocabulary=9, classes=3)
ROWS = from_arrays(RNG.random((60, 4), np.float32), RNG.integers(0, 3, 60))
NUMBERS = from_arrays(RNG.random((60, 4), np.float32), RNG.random(60))


class Outputs(dict):
    """What `transformers` returns: a mapping whose entries are attributes, too."""

    __getattr__ = dict.__getitem__


class Classifier(nn.Module):
    def __init__(self, outputs=3, padding=0):
        super().__init__()
        self.config = SimpleNamespace(pad_token_id=padding)
        self.embedding, self.head = nn.Embedding(9, 5), nn.Linear(5, outputs)

    def forward(self, input_ids, attention_mask=None, labels=None):
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        mean = (self.embedding(input_ids) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        logits = self.head(mean)
        loss = None if labels is None else functional.cross_entropy(logits, labels)
        return Outputs(loss=loss, logits=logits)


class OfRows(nn.Linear):
    def __init__(self, outputs=3):
        super().__init__(4, outputs)

    def forward(self, pixel_values, labels=None):
        return Outputs(loss=None, logits=super().forward(pixel_values))


def evaluated(build, data, loss=None):
    model = TorchModel(build, data.spec, objective_for(data.spec, loss) if loss else None)
    return model, model.evaluate(model.initial_state(seed=1), data.test)


@pytest.mark.parametrize("loss", [None, "cross-entropy", functional.cross_entropy, nn.CrossEntropyLoss])
def test_logits_in_the_outputs_are_what_the_same_module_would_return_alone(loss):
    _, named = evaluated(OfRows, ROWS, loss)
    _, alone = evaluated(lambda: nn.Linear(4, 3), ROWS, loss)
    assert named == alone
    assert (named.confusion == alone.confusion).all()


@pytest.mark.parametrize("loss", [None, "mse", "huber"])
def test_numbers_are_taken_from_logits_too(loss):
    assert evaluated(lambda: OfRows(1), NUMBERS, loss)[1] == evaluated(lambda: nn.Linear(4, 1), NUMBERS, loss)[1]


def test_loss_of_ones_own_gets_the_outputs_as_they_are():
    model, found = evaluated(OfRows, ROWS, lambda outputs, targets: functional.cross_entropy(outputs.logits, targets))
    assert found.means["loss"] == pytest.approx(evaluated(OfRows, ROWS)[1].means["loss"])
    assert not list(notes_on(model, ROWS.test, model.try_step(ROWS.test), learner="sgd"))


def test_padding_is_hidden_from_a_module_that_takes_a_mask():
    model, _ = evaluated(Classifier, TEXTS)
    tokens = torch.tensor([[3, 4, 0, 0, 0, 0], [3, 4, 0, 0, 0, 0]])
    logits = model.outputs(tokens).logits
    assert torch.allclose(logits, model.module(tokens[:, :2]).logits)
    assert not torch.allclose(logits, model.module(tokens).logits)
    assert TorchModel(lambda: Classifier(padding=None), TEXTS.spec).padding is None


def test_what_is_taken_is_said():
    model, _ = evaluated(Classifier, TEXTS)
    (note,) = notes_on(model, TEXTS.test, model.try_step(TEXTS.test), learner="sgd")
    assert note == (
        "its outputs are a Outputs: its logits are taken, with model.loss; it gets no labels, and a loss of its own is "
        "not used; its attention_mask hides token 0"
    )


def test_nodes_of_a_module_with_a_mask_are_trained_one_by_one():
    model = TorchModel(Classifier, TEXTS.spec)
    learner = learner_of(model, {"stack": 2})
    assert learner.why_not_stacked(TEXTS.train) == "its module takes an attention_mask"


def test_outputs_without_logits_are_refused_as_before():
    why_not = objective_for(ROWS.spec).why_not({"hidden": torch.zeros(2, 3)}, torch.zeros(2, dtype=torch.int64))
    assert why_not.startswith("it returns a dict, which should be one tensor")


class Translator(nn.Module):
    """As a model of `transformers` with an encoder and a decoder: the decoder gets the labels, one place later."""

    def __init__(self):
        super().__init__()
        self.config = SimpleNamespace(pad_token_id=0)
        self.embedding, self.head = nn.Embedding(9, 5), nn.Linear(5, 9)

    def prepare_decoder_input_ids_from_labels(self, labels):
        return functional.pad(labels[:, :-1], (1, 0), value=1).where(labels != -100, 0)

    def forward(self, input_ids, attention_mask=None, decoder_input_ids=None):
        mean = (self.embedding(input_ids) * attention_mask[..., None]).sum(1, keepdim=True)
        return Outputs(logits=self.head(mean + self.embedding(decoder_input_ids)))


ANSWERS = np.where(np.arange(4) < RNG.integers(1, 5, (60, 1)), RNG.integers(1, 9, (60, 4)), -100)


@pytest.mark.parametrize("mask", [None, (TOKENS != 0).astype(int)], ids=["padding", "mask"])
def test_decoder_gets_the_labels_one_place_later(mask):
    data = from_arrays(TOKENS, ANSWERS, vocabulary=9, classes=9, mask=mask)
    model, found = evaluated(Translator, data)
    tokens, labels = (torch.tensor(np.array(each, np.int64)) for each in (data.test.inputs, data.test.targets))
    tokens = tokens.where(tokens >= 0, -1 - tokens)
    decoded = model.module.prepare_decoder_input_ids_from_labels(labels)
    logits = model.module(tokens, (tokens != 0).long(), decoded).logits
    wanted = functional.cross_entropy(logits.flatten(0, 1), labels.flatten()).item()
    assert model.decodes and found.means["loss"] == pytest.approx(wanted, abs=1e-6)
    with pytest.raises(UsageError, match=r"decoder needs the targets.*generate"):
        answers(model, model.initial_state(seed=1), tokens.numpy(), data.spec)


@pytest.mark.parametrize("mask", [None, (TOKENS != 0).astype(int)], ids=["padding", "mask"])
def test_decoder_is_trained_and_tokens_of_a_mask_are_counted(mask):
    data = from_arrays(TOKENS, ANSWERS, vocabulary=9, classes=9, mask=mask)
    model, rows = TorchModel(Translator, data.spec), np.arange(20)
    assert model.try_step(data.train.at(np.arange(2))).logits.shape == (2, 4, 9)
    state = model.initial_state(seed=1)
    task = LocalTask(data.train, rows, seed=1, round_number=1, partition_id=0, config={})
    found = learner_of(model, {"local_epochs": 2}).fit(state, task)
    assert not np.array_equal(found.arrays["head.weight"], state["head.weight"])
    counted = 2 * int((data.train.inputs[rows] >= 0).sum())
    assert found.metrics.get("tokens") == (counted if mask is not None else None)
    assert ("tokens" in model.metrics.columns) == (mask is not None)
