"""A tokenizer's own mask reaches the module by every door, also where padding is a token that texts have."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import fedlearn
from fedlearn.core.errors import UsageError
from fedlearn.data import from_any, from_arrays
from fedlearn.data.sources.hidden import all_shown
from fedlearn.models.per_example.by_transform import ByTransform
from fedlearn.models.per_example.one_by_one import OneByOne
from fedlearn.models.torch.torch_model import TorchModel

END, LENGTH = 2, 6  # the end of a text, which also fills it up
RNG = np.random.default_rng(4)
LENGTHS = RNG.integers(1, LENGTH, 40)
TOKENS = np.where(np.arange(LENGTH) < LENGTHS[:, None] - 1, RNG.integers(3, 9, (40, LENGTH)), END)
MASK = (np.arange(LENGTH) < LENGTHS[:, None]).astype(np.int64)
LABELS = RNG.integers(0, 3, 40)


class Last(nn.Module):
    """Reads the mask: the mean of what is shown, and how many tokens are."""

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(pad_token_id=END)
        self.embedding, self.head = nn.Embedding(9, 5), nn.Linear(5, 3)

    def forward(self, input_ids, attention_mask=None):
        mean = (self.embedding(input_ids) * attention_mask[..., None]).sum(1) / attention_mask.sum(1, keepdim=True)
        return self.head(mean)


def of_hf():
    datasets = pytest.importorskip("datasets")
    columns = {"input_ids": TOKENS.tolist(), "attention_mask": MASK.tolist(), "label": LABELS.tolist()}
    return from_any(datasets.Dataset.from_dict(columns))


def of_pairs():
    return from_any(
        [((torch.tensor(t), torch.tensor(m)), int(y)) for t, m, y in zip(TOKENS, MASK, LABELS, strict=True)]
    )


DOORS = {
    "arrays": lambda: from_arrays(TOKENS, LABELS, mask=MASK),
    "dict": lambda: from_any({"X": TOKENS, "y": LABELS, "mask": MASK}),
    "datasets": of_hf,
    "pairs": of_pairs,
    "nodes": lambda: from_any({"a": of_pairs_of(0, 20), "b": of_pairs_of(20, 40)}),
}


def of_pairs_of(first, last):
    rows = range(first, last)
    return [((torch.tensor(TOKENS[row]), torch.tensor(MASK[row])), int(LABELS[row])) for row in rows]


def by_hand(model, rows):
    tokens = torch.tensor(np.array(all_shown(rows)))
    mask = torch.tensor((np.array(rows) >= 0).astype(np.int64))
    return model.module(tokens, attention_mask=mask)


@pytest.mark.parametrize("door", DOORS)
def test_a_module_gets_the_mask_of_the_data(door):
    data = DOORS[door]()
    assert data.spec.hides and data.vocabulary == 9
    stored = np.concatenate([data.train.inputs, data.test.inputs])
    given = {(tuple(tokens), tuple(mask)) for tokens, mask in zip(TOKENS.tolist(), MASK.tolist(), strict=True)}
    kept = {
        (tuple(tokens), tuple(mask))
        for tokens, mask in zip(all_shown(stored).tolist(), (stored >= 0).astype(int).tolist(), strict=True)
    }
    assert kept == given
    model = TorchModel(Last, data.spec)
    rows = data.test.inputs
    assert torch.equal(model.outputs(model.inputs(np.array(rows))), by_hand(model, rows))


def test_a_run_learns_predicts_and_is_measured_with_the_mask(tmp_path):
    lengths = (MASK.sum(1) > 3).astype(np.int64)  # only the mask tells it: of a text of ends alone too
    tokens = np.full_like(TOKENS, END)
    tokens[:, 0] = np.where(lengths, 5, 4)

    class Count(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(1, 2)

        def forward(self, input_ids, attention_mask):
            return self.head(attention_mask.sum(1, keepdim=True).float() - 3.5)

    data = from_arrays(tokens, lengths, mask=MASK, vocabulary=9)
    run = fedlearn.run(
        clients=2,
        data=data,
        model=Count(),
        rounds=8,
        lr=0.5,
        batch_size=5,
        engine="inline",
        out=tmp_path / "run",
        progress=False,
    )
    assert run.summary["accuracy"] == 1
    given = {"input_ids": tokens, "attention_mask": MASK}
    assert (run.predict(given) == lengths).all()


def test_gradients_of_single_examples_go_with_the_mask():
    data = DOORS["arrays"]()
    model = TorchModel(Last, data.spec)
    inputs, targets = model.inputs(np.array(data.train.inputs[:4])), model.targets(np.array(data.train.targets[:4]))
    taken = torch.ones(4, dtype=torch.bool)
    found = [way(model, 4)(inputs, targets, taken, clip=0.5) for way in (ByTransform, OneByOne)]
    assert torch.allclose(*found, atol=1e-7) and found[0].abs().sum() > 0


def test_a_module_without_a_mask_gets_the_tokens_as_they_are():
    data = DOORS["arrays"]()
    model = TorchModel(lambda: nn.Sequential(nn.Embedding(9, 5), nn.Flatten(), nn.Linear(30, 3)), data.spec)
    rows = data.test.inputs
    assert torch.equal(
        model.outputs(model.inputs(np.array(rows))), model.module(torch.tensor(np.array(all_shown(rows))))
    )


@pytest.mark.parametrize(
    ("tokens", "mask", "words"),
    [
        (TOKENS, MASK[:, :3], "has their shape"),
        (TOKENS, MASK * 2, "0 to 2"),
        (TOKENS.astype(float), MASK, "is float64"),
        (TOKENS - 5, MASK, "a token is from 0"),
    ],
)
def test_what_is_no_mask_is_refused_in_one_line(tokens, mask, words):
    with pytest.raises(UsageError, match=words):
        from_arrays(tokens, LABELS, mask=mask)
