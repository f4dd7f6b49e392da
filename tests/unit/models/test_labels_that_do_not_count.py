"""Labels of -100, as `transformers` has them: they are in no loss and no metric, by whichever door they come."""

from __future__ import annotations

from collections import UserDict

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedlearn.core.errors import UsageError
from fedlearn.data import from_any, from_arrays
from fedlearn.models.objectives import objective_for
from fedlearn.models.torch.notes import notes_on_adapters
from fedlearn.models.torch.torch_model import TorchModel

RNG = np.random.default_rng(2)
TOKENS = RNG.integers(1, 9, (20, 6))
LABELS = np.where(RNG.random((20, 6)) < 0.5, TOKENS, -100)
LABELS[:, 0] = -100
LABELS[3] = -100
DATA = from_arrays(TOKENS, LABELS, TOKENS, LABELS, vocabulary=9)


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Embedding(9, 5), nn.Linear(5, 9))


def test_the_loss_is_the_mean_of_those_that_count():
    logits, targets = torch.randn(20, 6, 9), torch.from_numpy(LABELS)
    loss = objective_for(DATA.spec, "").loss(logits, targets)
    counted = targets != -100
    assert torch.equal(loss, functional.cross_entropy(logits.flatten(0, 1), targets.flatten()))
    torch.testing.assert_close(loss, functional.cross_entropy(logits[counted], targets[counted]))


def test_a_batch_in_which_none_counts_has_no_loss_and_no_gradient():
    logits = torch.randn(1, 6, 9, requires_grad=True)
    loss = objective_for(DATA.spec, "").loss(logits, torch.from_numpy(LABELS[3:4]))
    loss.backward()
    assert loss == 0 and not logits.grad.any()


def test_an_evaluation_counts_no_such_label():
    model = TorchModel(Net, DATA.spec)
    found = model.evaluate(model.initial_state(seed=1), DATA.test).means
    logits, targets = model.module(torch.from_numpy(TOKENS)), torch.from_numpy(LABELS)
    counted = targets != -100
    assert found["loss"] == pytest.approx(functional.cross_entropy(logits[counted], targets[counted]).item(), rel=1e-6)
    assert found["accuracy"] == pytest.approx((logits.argmax(-1) == targets)[counted].float().mean().item())


@pytest.mark.parametrize("kind", [dict, UserDict])
def test_labels_that_repeat_the_tokens_are_shifted_and_said(kind):
    mask = (np.arange(6) < 5).astype(int) * np.ones((20, 1), int)
    data = from_any(kind(input_ids=TOKENS, attention_mask=mask, labels=LABELS))
    whole = np.concatenate([data.train.targets, data.test.targets])
    assert sorted(map(tuple, whole)) == sorted((*row[1:], -100) for row in LABELS.tolist())
    assert "labels repeat input_ids" in data.notice and data.hides


def test_other_labels_stay():
    labels = np.where(LABELS == -100, -100, (TOKENS + 1) % 9)
    data = from_any(({"input_ids": TOKENS, "labels": labels}, {"input_ids": TOKENS[:4], "labels": labels[:4]}))
    assert np.array_equal(data.train.targets, labels) and np.array_equal(data.test.targets, labels[:4])
    assert "repeat" not in data.notice


def test_what_no_class_is_is_refused():
    with pytest.raises(UsageError, match="example 2 holds -1: a class is from 0"):
        from_arrays(TOKENS, np.where(np.arange(20)[:, None] == 2, -1, LABELS), vocabulary=9)
    with pytest.raises(UsageError, match="example 0 holds -100: a class is from 0"):
        from_arrays(TOKENS, np.full(20, -100), vocabulary=9)
    with pytest.raises(UsageError, match="a tokenizer's output has no labels"):
        from_any({"input_ids": TOKENS})


class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.lora_A, self.lora_B = nn.Linear(6, 2, bias=False), nn.Linear(2, 3, bias=False)

    def forward(self, x):
        return self.lora_B(self.lora_A(x))


@pytest.mark.parametrize(("strategy", "lines"), [("fedavg", 1), ("fedit", 0), ("flexlora", 0), ("own:Rule", 0)])
def test_a_strategy_that_averages_factors_apart_is_said(strategy, lines):
    rows = from_arrays(RNG.random((9, 6), np.float32), np.arange(9) % 3)
    found = list(notes_on_adapters(TorchModel(Adapted, rows.spec), strategy=strategy))
    assert len(found) == lines
    assert all("averages the factors A and B of 1 adapters apart" in line for line in found)
