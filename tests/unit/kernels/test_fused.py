from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from fedlearn.core.errors import SettingError
from fedlearn.kernels import PooledConv2d, fused
from fedlearn.kernels.pooled_convolution import has_vectors


class Net(nn.Module):
    """A user's module, of which two rows of layers can be computed in one and one cannot."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 8, 3, padding=1, bias=False), nn.MaxPool2d(2),
            nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


def gradients(module, x):
    loss = nn.functional.cross_entropy(module(x), torch.arange(len(x)) % 10)
    return torch.autograd.grad(loss, list(module.parameters()))


def test_outputs_and_gradients_are_those_of_torch_up_to_rounding():
    torch.manual_seed(1)
    module, x = Net(), torch.randn(8, 3, 32, 32)
    one = fused(module)
    assert torch.allclose(one(x), module(x), rtol=1e-4, atol=1e-6)
    for mine, theirs in zip(gradients(one, x), gradients(module, x), strict=True):
        assert (mine - theirs).norm() <= 1e-4 * theirs.norm()


def test_states_fit_both_and_the_module_stays_as_it_was():
    module = Net()
    before = torch.get_rng_state()
    one = fused(module)
    assert torch.equal(torch.get_rng_state(), before)
    assert list(one.state_dict()) == list(module.state_dict())
    assert [type(each) for each in module.features][:3] == [nn.Conv2d, nn.ReLU, nn.MaxPool2d]
    one.load_state_dict(Net().state_dict())
    assert not torch.equal(next(one.parameters()), next(module.parameters()))


def test_only_what_the_loops_know_is_replaced():
    layers = list(fused(Net()).features)
    assert [isinstance(each, PooledConv2d) for each in layers] == [True, False, False, True] + [False] * 5
    assert [each.relu for each in layers if isinstance(each, PooledConv2d)] == [True, True]
    assert type(layers[6]) is nn.Conv2d


class OnlyTheFirst(nn.Sequential):
    """A Sequential that does not run its layers in a row."""

    def forward(self, x):
        return self[0](x)


def hooked():
    module = nn.Sequential(nn.Conv2d(1, 1, 3), nn.MaxPool2d(2))
    module[0].register_forward_hook(lambda layer, given, out: out + 1)
    return module


@pytest.mark.parametrize(
    "module",
    [
        nn.Linear(2, 2),
        nn.Sequential(nn.Conv2d(1, 1, 3), nn.MaxPool2d(3)),
        nn.Sequential(nn.Conv2d(1, 1, 3), nn.BatchNorm2d(1), nn.MaxPool2d(2)),
        nn.Sequential(nn.Conv2d(2, 2, 3, groups=2), nn.MaxPool2d(2)),
        nn.Sequential(nn.Conv2d(1, 1, 3), nn.MaxPool2d(2, ceil_mode=True)),
        OnlyTheFirst(nn.Conv2d(1, 1, 3), nn.MaxPool2d(2)),
        hooked(),
        nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Conv2d(1, 1, 3)), nn.MaxPool2d(2)),
    ],
    ids=["no sequence", "pool of three", "norm between", "groups", "ceil", "forward of its own", "hook", "weight norm"],
)
def test_a_module_without_such_layers_is_refused_in_one_line(module):
    with pytest.raises(ValueError, match=r"no nn\.Sequential in this module has Conv2d"):
        fused(module)


@pytest.mark.long
@pytest.mark.skipif(not has_vectors(), reason="this processor takes torch's own functions")
def test_one_switch_turns_the_loops_off():
    program = "from fedlearn.kernels.pooled_convolution import has_vectors; print(has_vectors())"
    command = ["env", "FEDLEARN_KERNELS=off", sys.executable, "-c", program]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.fixture
def asked_anew():
    has_vectors.cache_clear()
    yield
    has_vectors.cache_clear()


def test_a_switch_that_is_neither_on_nor_off_is_refused_in_one_line(monkeypatch, asked_anew):
    monkeypatch.setenv("FEDLEARN_KERNELS", "no")
    with pytest.raises(SettingError, match=r"^FEDLEARN_KERNELS = 'no': write on or off, or leave it out, which is on$"):
        has_vectors()


@pytest.mark.long
def test_a_process_that_only_preloads_leaves_the_refusal_to_the_trial_step():
    command = ["env", "FEDLEARN_KERNELS=no", sys.executable, "-c", "import fedlearn.kernels.kernels_preload"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stderr == ""


def test_on_is_the_same_as_no_switch(monkeypatch, asked_anew):
    monkeypatch.delenv("FEDLEARN_KERNELS", raising=False)
    before = has_vectors()
    has_vectors.cache_clear()
    monkeypatch.setenv("FEDLEARN_KERNELS", "on")
    assert has_vectors() == before
