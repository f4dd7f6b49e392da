"""A frozen base in bfloat16 below float32 adapters: NumPy has no bfloat16, and no message or state has any."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import fedlearn
from fedlearn.core.errors import FedlearnError
from fedlearn.data import from_arrays
from fedlearn.models.torch import mapped_base
from fedlearn.models.torch.module_state import array_of
from fedlearn.models.torch.torch_model import TorchModel

RNG = np.random.default_rng(3)
ROWS, LABELS, LR = RNG.normal(size=(60, 6)).astype("float32"), RNG.integers(0, 3, 60), 0.5


class Adapted(nn.Module):
    """A frozen bfloat16 base that returns bfloat16 logits, as language models do, below float32 adapters."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(6, 3).to(torch.bfloat16).requires_grad_(False)
        self.register_buffer("shift", torch.ones(3, dtype=torch.bfloat16))
        self.down, self.up = nn.Linear(6, 2, bias=False), nn.Linear(2, 3, bias=False)

    def forward(self, x):
        outputs = self.base(x.to(torch.bfloat16)) + self.shift
        return {"logits": (outputs + self.up(self.down(x))).to(torch.bfloat16)}


def made():
    torch.manual_seed(4)
    return Adapted()


def ran(model=made, **further):
    data = from_arrays(ROWS, LABELS, ROWS, LABELS, mean=0, std=1)
    return fedlearn.run(
        clients=2, cohort=0, data=data, model=model, rounds=1, local_epochs=1, batch_size=100, lr=LR, progress=False,
        **{"engine": "inline", "settings": {"training.momentum": 0.0}, **further},
    )  # fmt: skip


def test_a_round_is_that_of_a_loop_by_hand():
    module = made()
    rows, labels = torch.from_numpy(ROWS), torch.from_numpy(LABELS)
    loss = functional.cross_entropy(module(rows)["logits"].float(), labels)  # in float32, as transformers has it
    first = dict(module.named_parameters())
    gradients = torch.autograd.grad(loss, [module.down.weight, module.up.weight])
    run = ran()
    found = run.model()
    assert found.base.weight.dtype == torch.bfloat16
    bits = torch.from_numpy(run.state["base.weight"]).view(torch.bfloat16)  # of the file of the model
    assert torch.equal(bits, first["base.weight"]) and run.summary["bytes_up"] / 2 < 4 * 18 + 2 * 150 + 1_000
    assert torch.equal(found.base.weight, first["base.weight"]) and torch.equal(found.shift, module.shift)
    for name, gradient in zip(("down.weight", "up.weight"), gradients, strict=True):
        wanted = (first[name] - LR * gradient).detach().numpy()
        np.testing.assert_allclose(run.state[name], wanted, atol=1e-4)
        assert np.abs(wanted - first[name].detach().numpy()).max() > 1e-2
    assert np.isfinite(run.summary["loss"])


@pytest.mark.long
def test_workers_change_no_byte():
    assert ran(engine="embedded", workers=2).sha256 == ran().sha256


def test_it_lies_in_memory_once_and_is_taken_from_another_process(monkeypatch):
    monkeypatch.setattr(mapped_base, "SMALLEST", 1)
    data = from_arrays(ROWS, LABELS)
    from fedlearn.config import config_from

    one = TorchModel(made, data.spec).planned(config_from({"model.name": "x:y"}))
    assert np.array_equal(one.unsent["base.weight"], array_of(made().base.weight.detach()))
    with torch.no_grad():
        one.module.base.weight.add_(1.0)
    one.load(one.initial_state(seed=1))
    assert np.array_equal(array_of(one.module.base.weight.detach()), one.unsent["base.weight"])
    other = {name: array + np.ones_like(array) for name, array in one.unsent.items()}  # of other bits
    one.hold(other)
    assert np.array_equal(array_of(one.module.base.weight.detach()), other["base.weight"])
    assert one.module.base.weight.dtype == torch.bfloat16


def test_bfloat16_that_would_be_trained_or_sent_is_refused():
    with pytest.raises(FedlearnError, match=r"base\.weight is bfloat16.*freeze it"):
        ran(lambda: made().requires_grad_(True))
    with pytest.raises(FedlearnError, match=r"is bfloat16, and nothing that is sent is"):
        ran(settings={"training.send": ["*"]})
