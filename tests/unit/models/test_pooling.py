"""Our max pooling is torch's, to the byte."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from client.learners.base import LocalTask
from client.learners.sgd import SGD
from fedlearn.config import config_from
from fedlearn.models import load_model, pooling
from fedlearn.models.pooling import max_pool2d
from tests.oracles import images

FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"  # no file can have a byte
VALUES = [-np.inf, -2.0, -1.0, -0.0, 0.0, 1.0, 2.0, np.inf, np.nan]  # few: many of four are equal


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch):
    monkeypatch.setattr(pooling, "FEWEST", 0)


def made(shape, seed=0, values=VALUES):
    drawn = np.random.default_rng(seed).choice(np.float32(values), shape)
    return torch.from_numpy(drawn).contiguous(memory_format=torch.channels_last).requires_grad_()


def is_ours(pooled):
    return "MaxPoolBackward" in pooled.grad_fn.name()


def same(one, other):
    return one.shape == other.shape and one.detach().numpy().tobytes() == other.detach().numpy().tobytes()


@given(
    st.tuples(st.integers(1, 3), st.integers(1, 35), st.integers(2, 9), st.integers(2, 9)), st.integers(0, 2**31 - 1)
)
def test_same_bytes_forwards_and_backwards(shape, seed):
    x = made(shape, seed)
    ours, theirs = max_pool2d(x, 2), functional.max_pool2d(x, 2)
    assert is_ours(ours)
    assert same(ours, theirs)
    gradient = made(ours.shape, seed, [1.0, 2.0, -3.0])
    assert same(*(torch.autograd.grad(pooled, x, gradient)[0] for pooled in (ours, theirs)))


def test_gradient_in_any_format_and_shared():
    x = made((2, 3, 6, 6), values=[0.0, 1.0, 2.0])
    for gradient in (torch.randn(2, 3, 3, 3), torch.ones(()).expand(2, 3, 3, 3)):
        ours, theirs = (torch.autograd.grad(pool(x, 2), x, gradient)[0] for pool in (max_pool2d, functional.max_pool2d))
        assert same(ours, theirs)


def test_can_be_differentiated_again():
    x, direction = made((2, 3, 5, 4), values=[0.0, 1.0, 2.0, 3.0]), made((2, 3, 5, 4), 1, [1.0, -2.0])
    found = []
    for pool in (max_pool2d, functional.max_pool2d):
        (once,) = torch.autograd.grad(pool(x, 2).pow(3).sum(), x, create_graph=True)
        found.append(torch.autograd.grad((once * direction).sum(), x)[0])
    assert found[0].any()
    assert same(*found)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:FutureWarning")  # torch's own
def test_can_be_differentiated_forwards():
    x, direction = made((2, 3, 5, 4), values=[0.0, 1.0, 2.0, 3.0]), made((2, 3, 5, 4), 1, [1.0, -2.0])
    found = []
    for pool in (max_pool2d, functional.max_pool2d):
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, direction)
            found.append(torch.autograd.forward_ad.unpack_dual(pool(dual, 2)).tangent)
    assert same(*found)


@pytest.mark.parametrize(
    ("x", "arguments"),
    [
        (made((2, 3, 6, 6)), (3,)),
        (made((2, 3, 6, 6)), (2, 1)),
        (made((2, 3, 6, 6)), ((2, 2),)),
        (torch.randn(2, 3, 6, 6, requires_grad=True), (2,)),
        (torch.randn(3, 6, 6, requires_grad=True), (2,)),
        (made((2, 3, 6, 6)).double(), (2,)),
        (made((2, 3, 6, 6)).bfloat16(), (2,)),
    ],
    ids=["by three", "stride", "pair", "channels first", "no batch", "float64", "bfloat16"],
)
def test_whatever_else_is_asked_for_is_torchs(x, arguments):
    pooled = max_pool2d(x, *arguments)
    assert not is_ours(pooled)
    assert torch.equal(pooled.nan_to_num(), functional.max_pool2d(x, *arguments).nan_to_num())


def test_few_numbers_are_torchs(monkeypatch):
    monkeypatch.setattr(pooling, "FEWEST", 100)
    assert not is_ours(max_pool2d(made((1, 1, 18, 20)), 2))
    assert is_ours(max_pool2d(made((1, 1, 20, 20)), 2))


def test_images_too_small_are_refused_as_torch_does():
    with pytest.raises(RuntimeError, match="too small"):
        max_pool2d(made((2, 3, 1, 6)), 2)


def test_under_torchs_transforms_it_is_torchs():
    x = made((4, 3, 6, 6), values=[0.0, 1.0, 2.0]).detach()

    def summed(image):
        return max_pool2d(image.unsqueeze(0), 2).pow(2).sum()

    each = torch.func.vmap(torch.func.grad(summed))(x)
    assert torch.equal(each[1], torch.autograd.functional.jacobian(summed, x[1]))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # torch's own
def test_can_be_exported():
    x = made((4, 3, 6, 6), values=[0.0, 1.0, 2.0]).detach()
    exported = torch.export.export(_Pooling(), (x,)).module()
    assert torch.equal(exported(x), functional.max_pool2d(x, 2))


def test_without_gradients_and_with_activations_that_are_computed_again():
    x = made((2, 3, 5, 4), values=[0.0, 1.0, 2.0, 3.0])
    with torch.inference_mode():
        assert same(max_pool2d(x, 2), functional.max_pool2d(x, 2))
    found = [
        torch.autograd.grad(checkpoint(lambda y, pool=pool: pool(y, 2).pow(2).sum(), x, use_reentrant=False), x)[0]
        for pool in (max_pool2d, functional.max_pool2d)
    ]
    assert same(*found)


class _Pooling(torch.nn.Module):
    def forward(self, x):
        return max_pool2d(x, 2)


@pytest.mark.parametrize("name", ["cnn", "cnn-large"])
def test_a_fit_has_the_same_bytes_by_either(name, monkeypatch):
    data = images.dataset()
    model = load_model(name, data.spec)
    learner = SGD(model, config_from({"training.batch_size": 8, "training.local_epochs": 2}))
    state, task = model.initial_state(seed=1), LocalTask(data.train, np.arange(20), 3, 1, 0, {})
    fits = []
    for fewest in (0, 10**9):
        monkeypatch.setattr(pooling, "FEWEST", fewest)
        fits.append({key: array.tobytes() for key, array in learner.fit(state, task).arrays.items()})
    assert fits[0] == fits[1]


@pytest.mark.parametrize(
    "nothing",
    ["import os; os.environ['NUMBA_CACHE_LOCATOR_CLASSES'] = 'IPythonCacheLocator'", FULL],
    ids=["no folder", "full disk"],
)
def test_compiled_anew_where_nothing_can_be_kept(nothing, tmp_path):
    """So it is in a container of another user, whose home and packages are read-only."""
    code = (
        f"{nothing}; import numpy as np; from fedlearn.models.pooling_loops import pool;"
        "x = np.arange(4, dtype=np.float32).reshape(1, 2, 2, 1); out = np.empty((1, 1, 1, 1), np.float32);"
        "pool(x, out, np.empty((1, 1, 1, 1), np.uint8)); print(out.item())"
    )
    there = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=there, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "3.0\n"), done.stderr
    assert done.stderr.count("NUMBA_CACHE_DIR") == 1
