"""Our convolution with pooling behind it is torch's: to the byte where sums are exact, to rounding where not."""

from __future__ import annotations

import copy
import inspect
import math
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from client.learners.learner import LocalTask
from client.learners.sgd import SGD
from fedlearn.config import config_from
from fedlearn.kernels import PooledConv2d, calling, pooled_conv2d, pooled_convolution
from fedlearn.models import load_model
from fedlearn.models.stacks import Stacked, Stream
from fedlearn.models.stacks.stacked import Arrangement
from tests.oracles import images

pytestmark = pytest.mark.skipif(not pooled_convolution.has_vectors(), reason="the loops are for processors with AVX2")

SEEDS = st.integers(0, 2**31 - 1)


@st.composite
def shapes(draw):
    """Draw B, C, H, W, O, a filter's height and width, and padding."""
    high, wide = draw(st.sampled_from([3, 5])), draw(st.integers(1, 6))
    above, left = draw(st.integers(0, high - 1)), draw(st.integers(0, wide - 1))
    height = draw(st.integers(max(1, high + 1 - 2 * above), 12))
    width = draw(st.integers(max(1, wide + 1 - 2 * left), 12))
    channels, outside = draw(st.integers(1, 40)), draw(st.integers(1, 6) | st.integers(1, 70))
    return draw(st.integers(1, 3)), channels, height, width, outside, high, wide, (above, left)


def given_to(shape, seed, whole=True):
    """Return images, filters and bias; of small whole numbers all sums are exact, and many of four are equal."""
    batch, channels, height, width, outside, high, wide, _ = shape
    rng = np.random.default_rng(seed)

    def numbers(*size):
        drawn = rng.integers(-2, 3, size) if whole else rng.normal(size=size)
        return torch.from_numpy(drawn.astype(np.float32))

    x = numbers(batch, height, width, channels).permute(0, 3, 1, 2)
    return [each.requires_grad_() for each in (x, numbers(outside, channels, high, wide), numbers(outside))]


def by_torch(x, weight, bias, *, padding=0, relu=False):
    pooled = functional.max_pool2d(functional.conv2d(x, weight, bias, padding=padding), 2)
    return functional.relu(pooled) if relu else pooled


def is_ours(out):
    return "PooledConvolution" in out.grad_fn.name()


def same(one, other):
    """Return whether all bytes are the same; zeros may have either sign."""
    return one.shape == other.shape and (one.detach() + 0.0).equal(other.detach() + 0.0)


def close(one, other):
    return one.shape == other.shape and (one - other).abs().max() <= 2e-6 * other.abs().max() + 1e-30


@given(shapes(), SEEDS, st.booleans())
def test_same_bytes_where_sums_are_exact(shape, seed, relu):
    """So of equal numbers the first is taken, as torch does; forwards, and backwards with zeros among the gradients."""
    tensors = given_to(shape, seed)
    ours, theirs = (f(*tensors, padding=shape[-1], relu=relu) for f in (pooled_conv2d, by_torch))
    assert is_ours(ours)
    assert same(ours, theirs)
    drawn = np.random.default_rng(seed).integers(-1, 2, ours.shape)
    gradient = torch.from_numpy(drawn.astype(np.float32))
    for one, other in zip(*(torch.autograd.grad(out, tensors, gradient) for out in (ours, theirs)), strict=True):
        assert same(one, other)


@given(shapes(), SEEDS)
def test_any_numbers_up_to_rounding(shape, seed):
    tensors = given_to(shape, seed, whole=False)
    doubles = [each.detach().double().requires_grad_() for each in tensors]
    ours, theirs = pooled_conv2d(*tensors, padding=shape[-1]), by_torch(*doubles, padding=shape[-1])
    assert is_ours(ours)
    assert close(ours, theirs)
    gradient = torch.randn(ours.shape)
    found = torch.autograd.grad(ours, tensors, gradient), torch.autograd.grad(theirs, doubles, gradient.double())
    assert all(close(one, other) for one, other in zip(*found, strict=True))


USUAL = (2, 3, 12, 12, 6, 5, 5, (0, 0))


@pytest.mark.parametrize("outside", [6, 8, 9])
@pytest.mark.parametrize("relu", [False, True])
def test_nan_and_infinity_come_out_where_torch_has_them(outside, relu):
    x, weight, bias = (each.detach() for each in given_to((2, 2, 12, 12, outside, 3, 3, (1, 1)), 0))
    x = x.clone()
    x[0, 0, 2, 3], x[0, 1, 9, 9], x[1, 0, 5, 5] = float("nan"), float("inf"), float("-inf")
    ours, theirs = (f(x, weight, bias, padding=1, relu=relu) for f in (pooled_conv2d, by_torch))
    assert torch.isnan(theirs).any()
    assert torch.isinf(theirs).any()
    np.testing.assert_array_equal(ours, theirs)


def test_a_gradient_that_is_nan_reaches_nothing_where_relu_has_cut():
    x, weight, bias = given_to(USUAL, 0)
    tensors = x, weight, (bias.detach() - 1000).requires_grad_()
    gradient = torch.full((2, 6, 4, 4), float("nan"))
    for each in torch.autograd.grad(pooled_conv2d(*tensors, relu=True), tensors, gradient):
        assert not each.any()


def test_a_gradient_that_is_nan_reaches_what_it_should():
    tensors = given_to(USUAL, 0)
    gradient = torch.zeros(2, 6, 4, 4)
    gradient[1, 2, 3, 3] = float("nan")
    of_x, of_weight, of_bias = torch.autograd.grad(pooled_conv2d(*tensors), tensors, gradient)
    assert of_bias.isnan().tolist() == [False, False, True, False, False, False]
    assert of_weight.isnan().flatten(1).any(1).tolist() == [False, False, True, False, False, False]
    assert of_x.isnan().flatten(1).any(1).tolist() == [False, True]


def test_gradients_and_images_in_any_format():
    tensors = given_to(USUAL, 0)
    others = [tensors[0].detach().contiguous().requires_grad_(), *tensors[1:]]
    for gradient in (torch.ones(2, 6, 4, 4), torch.ones(()).expand(2, 6, 4, 4), torch.ones(2, 4, 4, 6).movedim(3, 1)):
        theirs = torch.autograd.grad(by_torch(*tensors), tensors, gradient)
        for mine in (tensors, others):
            found = torch.autograd.grad(pooled_conv2d(*mine), mine, gradient)
            assert all(same(one, other) for one, other in zip(found, theirs, strict=True))


@pytest.mark.parametrize("channels", [1, 3])
def test_what_comes_out_lies_as_the_images_do(channels):
    """So `view` does after it what it does after torch's."""
    x, weight, bias = given_to((2, channels, 12, 12, 6, 5, 5, (0, 0)), 0)
    for mine, form in ((x, torch.channels_last), (x.detach().clone(memory_format=torch.contiguous_format), None)):
        out, theirs = pooled_conv2d(mine, weight, bias), by_torch(mine, weight, bias)
        assert is_ours(out)
        assert form is None or out.is_contiguous(memory_format=form)
        assert form is not None or same(out.view(2, -1), theirs.view(2, -1))


def test_torchs_defaults_change_nothing():
    tensors = given_to(USUAL, 0)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            out = pooled_conv2d(*tensors)
            found = torch.autograd.grad(out.sum(), tensors)
    finally:
        torch.set_default_dtype(torch.float32)
    assert is_ours(out)
    for one, other in zip(found, torch.autograd.grad(by_torch(*tensors).sum(), tensors), strict=True):
        assert same(one, other)


def test_a_bias_may_be_missing_and_parameters_frozen():
    x, weight, _ = given_to(USUAL, 0)
    assert same(pooled_conv2d(x, weight), by_torch(x, weight, None))
    for wanted in (x, weight):
        other = weight.detach() if wanted is x else x.detach()
        pair = (x, other) if wanted is x else (other, weight)
        ours, theirs = (torch.autograd.grad(f(*pair, None).sum(), wanted)[0] for f in (pooled_conv2d, by_torch))
        assert same(ours, theirs)


@pytest.mark.parametrize("relu", [False, True])
def test_can_be_differentiated_again(relu):
    tensors = [each.detach().double().float().requires_grad_() for each in given_to(USUAL, 1)]
    found = []
    for function in (pooled_conv2d, by_torch):
        once = torch.autograd.grad(function(*tensors, relu=relu).pow(3).sum(), tensors, create_graph=True)
        found.append(torch.autograd.grad(sum(each.sum() for each in once), tensors))
    assert all(one.any() for one in found[0])
    assert all(close(one, other) for one, other in zip(*found, strict=True))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:FutureWarning")  # torch's own
def test_can_be_differentiated_forwards():
    tensors = [each.detach() for each in given_to(USUAL, 2)]
    found = []
    for function in (pooled_conv2d, by_torch):
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(tensors[0], torch.ones_like(tensors[0]))
            found.append(torch.autograd.forward_ad.unpack_dual(function(dual, *tensors[1:])).tangent)
    assert same(*found)


def of_kind(x, weight, bias, dtype):
    return [each.detach().to(dtype).requires_grad_() for each in (x, weight, bias)]


@pytest.mark.parametrize(
    ("tensors", "padding"),
    [
        (of_kind(*given_to(USUAL, 0), torch.float64), 0),
        (of_kind(*given_to(USUAL, 0), torch.bfloat16), 0),
        (given_to((1, 3, 12, 12, 6, 4, 4, (0, 0)), 0), 0),
        (given_to((1, 3, 12, 12, 6, 3, 3, (0, 0)), 0), 3),
        (given_to((1, 3, 12, 12, 6, 5, 5, (0, 0)), 0), "same"),
        (given_to((1, 80, 8, 8, 400, 3, 3, (0, 0)), 0), 0),
    ],
    ids=["float64", "bfloat16", "four rows", "windows in the padding", "padding by a word", "many weights"],
)
def test_whatever_else_is_asked_for_is_torchs(tensors, padding):
    for relu in (False, True):
        out = pooled_conv2d(*tensors, padding=padding, relu=relu)
        assert not is_ours(out)
        assert torch.equal(out, by_torch(*tensors, padding=padding, relu=relu))


def test_one_image_without_a_batch_is_torchs():
    x, weight, bias = given_to(USUAL, 0)
    assert torch.equal(pooled_conv2d(x[0], weight, bias), by_torch(x[0], weight, bias))


def test_what_does_not_fit_is_refused_as_torch_does():
    x, weight, bias = given_to(USUAL, 0)
    for wrong in (
        (x[:, :2], weight, bias),
        (x, weight, bias[:3]),
        (x, weight, bias.unsqueeze(0)),
        (x[..., :5, :5], weight, bias),
    ):
        with pytest.raises(RuntimeError) as theirs:
            by_torch(*wrong)
        with pytest.raises(RuntimeError) as ours:
            pooled_conv2d(*wrong)
        assert str(ours.value) == str(theirs.value)


def test_no_images_give_no_images():
    x, weight, bias = given_to(USUAL, 0)
    assert pooled_conv2d(x[:0], weight, bias).shape == (0, 6, 4, 4)


def test_under_torchs_transforms_it_is_torchs():
    x, weight, bias = (each.detach() for each in given_to(USUAL, 0))

    def summed(image):
        return pooled_conv2d(image.unsqueeze(0), weight, bias).pow(2).sum()

    each = torch.func.vmap(torch.func.grad(summed))(x)
    assert torch.equal(each[1], torch.autograd.functional.jacobian(summed, x[1]))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # torch's own
def test_can_be_exported_and_traced():
    x = given_to(USUAL, 0)[0].detach()
    module = PooledConv2d(3, 6, 5)
    exported = torch.export.export(module, (x,)).module()
    assert close(exported(x), module(x))
    assert close(torch.jit.trace(module, (x,))(x), module(x))


def test_many_gradients_at_once():
    """Torch hands tensors without memory to `backward` then."""
    x, weight, bias = (each.detach() for each in given_to(USUAL, 0))
    found = [
        torch.autograd.functional.jacobian(lambda w, f=function: f(x, w, bias).flatten()[:7], weight, vectorize=many)
        for function in (pooled_conv2d, by_torch)
        for many in (False, True)
    ]
    assert all(same(each, found[0]) for each in found)


@pytest.mark.filterwarnings("error")
def test_who_watches_what_torch_computes_sees_torchs_own():
    """In such a mode a new tensor may have no memory, and an address of 0."""
    tensors = given_to(USUAL, 0)
    out = pooled_conv2d(*tensors)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert type(pooled_conv2d(*tensors)) is FakeTensor
        assert type(torch.autograd.grad(out, tensors[1], torch.ones(out.shape), retain_graph=True)[0]) is FakeTensor
    with FlopCounterMode(display=False) as counter:
        pooled_conv2d(*tensors)
    assert counter.get_total_flops() == 2 * 2 * 8 * 8 * 6 * 75


def test_numbers_that_stand_for_their_negatives():
    x, weight, bias = given_to(USUAL, 0)
    negated = torch.complex(torch.zeros_like(x), -x).detach().conj().imag
    assert negated.is_neg()
    out = pooled_conv2d(x, weight, bias)
    assert same(pooled_conv2d(negated, weight, bias), out)
    gradient = torch.complex(torch.zeros_like(out), -out).detach().conj().imag
    found = (torch.autograd.grad(out, weight, each, retain_graph=True)[0] for each in (out.detach(), gradient))
    assert close(*found)


def test_stacks_of_different_numbers_of_nodes_are_not_ours():
    """Else filters would be read that are not there."""
    x, weight, bias = torch.zeros(3, 2, 3, 12, 12), torch.zeros(2, 6, 3, 5, 5), torch.zeros(2, 6)
    assert pooled_convolution.is_ours(x[:2], weight, bias, 0)
    assert not pooled_convolution.is_ours(x, weight, bias, 0)


def test_what_was_saved_may_come_back_in_other_numbers():
    """As from hooks that save memory: then addresses are of other numbers than the loops read."""
    tensors = given_to(USUAL, 0)
    with torch.autograd.graph.saved_tensors_hooks(lambda each: each, lambda each: each.double()):
        out = pooled_conv2d(*tensors)
    assert is_ours(out)
    theirs = torch.autograd.grad(by_torch(*tensors).sum(), tensors)
    assert all(same(*pair) for pair in zip(torch.autograd.grad(out.sum(), tensors), theirs, strict=True))


def test_several_threads_at_once():
    """Python's lock is not held while a loop runs."""
    several = [given_to((8, 3, 32, 32, 6 + k, 5, 5, (0, 0)), k, whole=False) for k in range(4)]

    def gradients(tensors):
        return torch.autograd.grad(pooled_conv2d(*tensors, relu=True).pow(2).sum(), tensors)

    alone = [gradients(tensors) for tensors in several]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(10):
            for mine, found in zip(alone, pool.map(gradients, several), strict=True):
                assert all(torch.equal(one, other) for one, other in zip(mine, found, strict=True))


def test_autocast_goes_to_torch():
    x, weight, bias = given_to(USUAL, 0)
    with torch.autocast("cpu", torch.bfloat16):
        assert pooled_conv2d(x, weight, bias).dtype is torch.bfloat16


def test_without_gradients_and_with_activations_that_are_computed_again():
    tensors = given_to(USUAL, 0)
    with torch.inference_mode():
        assert same(pooled_conv2d(*tensors), by_torch(*tensors))
    found = []
    for function in (pooled_conv2d, by_torch):
        out = checkpoint(lambda *each, f=function: f(*each).pow(2).sum(), *tensors, use_reentrant=False)
        found.append(torch.autograd.grad(out, tensors))
    assert all(close(one, other) for one, other in zip(*found, strict=True))


def test_what_comes_out_can_be_changed_in_place():
    tensors = given_to(USUAL, 0)
    found = [
        torch.autograd.grad(functional.relu(function(*tensors), inplace=True).sum(), tensors)
        for function in (pooled_conv2d, by_torch)
    ]
    assert all(same(one, other) for one, other in zip(*found, strict=True))


def test_weights_changed_before_backward_are_noticed():
    x, weight, bias = given_to(USUAL, 0)
    out = pooled_conv2d(x, weight, bias)
    with torch.no_grad():
        weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_the_layer_has_the_parameters_of_torchs_and_can_be_copied():
    torch.manual_seed(3)
    ours = PooledConv2d(3, 6, 5, padding=2)
    torch.manual_seed(3)
    theirs = nn.Sequential(nn.Conv2d(3, 6, 5, padding=2), nn.MaxPool2d(2))
    assert all(torch.equal(one, other) for one, other in zip(ours.parameters(), theirs.parameters(), strict=True))
    assert list(ours.state_dict()) == ["weight", "bias"]
    x = torch.randn(2, 3, 10, 10)
    for layer in (ours, copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert close(layer(x), theirs(x))


def in_another_process(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.long
def test_a_process_that_has_such_a_layer_has_imported_the_loops_before_it_is_forked():
    """So it is in an executor, which makes the model of a run and forks for every message."""
    code = (
        "import sys; from fedlearn.models import load_model; from fedlearn.data.cifar10 import SPEC;"
        "load_model('cnn', SPEC); print('fedlearn.kernels.loops' in sys.modules)"
    )
    assert in_another_process(code)[:2] == (0, "True\n")


@pytest.mark.long
def test_where_numba_compiles_nothing_it_is_torchs():
    code = (
        "import torch; from fedlearn.kernels import PooledConv2d;"
        "print(PooledConv2d(3, 6, 5)(torch.zeros(1, 3, 8, 8)).grad_fn.name())"
    )
    assert in_another_process(code, NUMBA_DISABLE_JIT="1")[:2] == (0, "MaxPool2DWithIndicesBackward0\n")


@pytest.mark.parametrize("outside", [6, 8, 10, 16, 20, 40])
@pytest.mark.parametrize("nodes", [1, 2])
def test_nothing_is_written_outside_of_what_there_is_room_for(outside, nodes, monkeypatch):
    guards = []

    def guarded(*shape, dtype=torch.float32, spill=0):
        """Return a tensor, and remember what lies around it."""
        count = math.prod(shape)
        memory = torch.full((count + spill + 256,), 77, dtype=dtype)
        guards.append((memory[:128], memory[128 + count + spill :]))
        return memory[128 : 128 + count].view(shape)

    class Guarded:
        def address(self, size):
            return guarded(size, dtype=torch.uint8).data_ptr()

    monkeypatch.setattr(calling, "_scratch", Guarded())
    loops, spill = pooled_convolution.loops(), pooled_convolution.SPILL
    several = [nodes] if nodes > 1 else []
    x, filters = guarded(*several, 2, 11, 13, 3), guarded(*several, outside, 3, 5, 5)
    for each in (x, filters):
        each.copy_(torch.randn(each.shape))
    pooled = guarded(*several, 2, 3, 4, outside, spill=spill)
    which = guarded(*several, 2, 3, 4, outside, dtype=torch.uint8, spill=spill)
    sizes = (2, 11, 13, 3, outside, 5, 5, 0, 0, 1)
    loops.convolve_and_pool(sizes, nodes, x, filters, torch.zeros(*several, outside), pooled, which)
    assert which.max() == 4
    of_filters, of_bias, of_x = (guarded(*each.shape) for each in (filters, filters[..., 0, 0, 0], x))
    loops.weigh(sizes, nodes, x, pooled, which, of_filters, of_bias)
    loops.spread(sizes, nodes, pooled, which, filters, of_x)
    assert len(guards) == 10
    assert all((each == 77).all() for around in guards for each in around)


@pytest.mark.parametrize("relu", [False, True])
def test_nodes_of_a_stack_have_the_bytes_of_each_alone(relu):
    nodes = [given_to((4, 3, 12, 12, 6, 5, 5, (0, 0)), seed, whole=False) for seed in range(3)]
    streams = [Stream(seed) for seed in range(3)]
    x = Stacked([node[0] for node in nodes], Arrangement.EACH, streams)
    weight, bias = (torch.stack([node[k].detach() for node in nodes]).requires_grad_() for k in (1, 2))
    stacked = (Stacked(each, Arrangement.WHOLE, streams) for each in (weight, bias))
    out = pooled_conv2d(x, *stacked, relu=relu)
    assert out.arrangement_ is Arrangement.WHOLE
    together = torch.autograd.grad(out.data_.pow(2).sum(), (weight, bias))
    for k, node in enumerate(nodes):
        alone = pooled_conv2d(*node, relu=relu)
        assert torch.equal(out.parts()[k], alone)
        for one, other in zip(torch.autograd.grad(alone.pow(2).sum(), node[1:]), together, strict=True):
            assert torch.equal(one, other[k])


@pytest.mark.parametrize("name", ["cnn", "cnn-large"])
def test_a_fit_is_torchs_up_to_rounding(name, monkeypatch):
    data = images.dataset()
    model = load_model(name, data.spec)
    learner = SGD(model, config_from({"training.batch_size": 8, "training.local_epochs": 2}))
    state, task = model.initial_state(seed=1), LocalTask(data.train, np.arange(20), 3, 1, 0, {})
    fits = []
    for ours in (True, False):
        monkeypatch.setattr(pooled_convolution, "has_vectors", lambda ours=ours: ours)
        fits.append({key: array.copy() for key, array in learner.fit(state, task).arrays.items()})
    for key, array in fits[0].items():
        assert np.abs(array - fits[1][key]).max() <= 1e-5 * np.abs(fits[1][key] - state[key]).max()


def test_loops_are_called_as_they_are_written():
    from fedlearn.kernels import loops

    for loop in (loops.convolve_and_pool, loops.weigh, loops.spread):
        *sizes_and_addresses, memory = inspect.signature(loop).parameters
        tensors = [each for each in sizes_and_addresses if each.endswith("_at")]
        assert memory == "memory"
        assert sizes_and_addresses[loops.SIZES :] == tensors
        (signature,) = loop.signatures
        assert len(signature) == loops.SIZES + len(tensors) + 1


def test_others_run_while_a_loop_does():
    """The interpreter's lock is let go: threads that train do so together."""
    from fedlearn.kernels import loops

    assert all(loop.targetoptions["nogil"] for loop in (loops.convolve_and_pool, loops.weigh, loops.spread))
