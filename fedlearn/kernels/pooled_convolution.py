"""Pooled convolution: a convolution and its max pooling in one computation, by compiled loops (`loops.py`).

The output of the convolution alone is never written to memory. Three quarters of it have no gradient, as pooling does
not take them, and neither have the numbers that a relu cuts off: backwards the loops skip both. So a step of `cnn`
takes less than half the time of torch's two functions. The sums have another order than torch's: the last bits differ.

Shapes: B images, C channels, H height, W width; O output channels, h, w output height and width after pooling.
For several nodes, an axis of K nodes stands before all other axes of each tensor.
"""

from __future__ import annotations

import math
import os
from functools import cache
from importlib.util import find_spec
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional
from torch.overrides import handle_torch_function, has_torch_function_variadic

from fedlearn.core.errors import SettingError

ROWS = (3, 5)  # heights of filters that the loops take
MOST = 1 << 17  # weights: more do not stay in the processor's caches
SPILL = 64  # numbers of room after the output: vectors are written whole
SWITCH = "FEDLEARN_KERNELS"  # environment variable
Pair = int | tuple[int, int]


def pooled_conv2d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, padding: Pair = 0, relu: bool = False
) -> Tensor:
    """Return torch's ``max_pool2d(conv2d(x, weight, bias, padding=padding), 2)`` up to rounding, or its relu.

    The loops compute float32 images on an x86 processor with AVX2, with filters of three or five rows; torch's own
    functions compute everything else. Unlike torch, a gradient of zero stays zero where an input is infinite or NaN.

    Parameters
    ----------
    x
        Images (B, C, H, W).
    weight
        Filters (O, C, height, width).
    bias
        Bias of each output channel (O,).
    padding
        Number of zeros above and below, left and right.
    relu
        Whether negative outputs become 0.

    Returns
    -------
    Tensor
        Pooled images (B, O, h, w).

    Examples
    --------
    >>> pooled_conv2d(torch.arange(16.0).view(1, 1, 4, 4), torch.ones(1, 1, 3, 3))
    tensor([[[[90.]]]])
    """
    given = (x, weight) if bias is None else (x, weight, bias)
    if has_torch_function_variadic(*given):
        return handle_torch_function(pooled_conv2d, given, x, weight, bias, padding=padding, relu=relu)
    if x.ndim == weight.ndim == 4 and is_ours(x, weight, bias, padding):
        return computed(x, weight, bias, padding, relu)
    return _by_torch(x, weight, bias, padding, relu)


class PooledConv2d(nn.Conv2d):
    """``nn.Conv2d``, then ``nn.MaxPool2d(2)`` and, if `relu`, ``nn.ReLU``; its parameters are those of ``nn.Conv2d``.

    Examples
    --------
    >>> PooledConv2d(3, 6, 5)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 6, 14, 14])
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Pair, *, padding: Pair = 0, relu: bool = False
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, padding=padding)
        self.relu = relu
        if has_vectors():  # before this process is forked for a message
            loops()

    def forward(self, input: Tensor) -> Tensor:
        """Return the pooled images (B, O, h, w) of images (B, C, H, W)."""
        padding = cast(tuple[int, int], self.padding)
        return pooled_conv2d(input, self.weight, self.bias, padding=padding, relu=self.relu)


def is_ours(x: Tensor, weight: Tensor, bias: Tensor | None, padding: Pair) -> bool:
    """Return whether `computed` takes these tensors, with an axis of nodes before all others or without it."""
    channels, height, width = x.shape[-3:]
    inside, high, wide = weight.shape[-3:]
    above, left = _pair(padding)
    return (
        has_vectors()
        and _are_plain(x, weight, *([] if bias is None else [bias]))
        and forward_ad._current_level < 0
        and not torch.compiler.is_compiling()
        and not torch.jit._trace.is_tracing()
        and not torch.is_autocast_enabled("cpu")
        and channels == inside
        and x.shape[:-4] == weight.shape[:-4]
        and high in ROWS
        and 0 <= above < high < height + 2 * above
        and 0 <= left < wide < width + 2 * left
        and 0 < weight.shape[-4:].numel() <= MOST
        and x.numel() > 0
        and (bias is None or bias.shape == weight.shape[:-3])
    )


@cache
def has_vectors() -> bool:
    """Return whether the compiled loops are used: on a processor with AVX2, by numba if it is there, unless turned off.

    ``FEDLEARN_KERNELS=off`` in the environment turns them off: torch's own functions then compute all layers, with
    other last bits, so a run has another SHA-256. ``on`` is the same as no value.

    Raises
    ------
    SettingError
        For any other value of ``FEDLEARN_KERNELS``.
    """
    switch = os.environ.get(SWITCH, "")
    if switch not in ("", "on", "off"):
        raise SettingError(SWITCH, switch, "write on or off, or leave it out, which is on")
    is_compiling = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0" and find_spec("numba") is not None
    return switch != "off" and is_compiling and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")


def loops() -> Any:
    """Return the module that calls the loops; it imports numba, which compiles the loops on first use."""
    from fedlearn.kernels import calling

    return calling


def _are_plain(*tensors: Tensor) -> bool:
    """Return whether all tensors are float32 in this machine's memory, and no transform but autograd is active.

    Other tensors, such as the wrappers of `torch.func` and of dispatch modes, have no address of their numbers.
    """
    for each in tensors:
        if type(each) not in (Tensor, nn.Parameter) or each.dtype is not torch.float32 or not each.is_cpu:
            return False
        if not torch._C._has_storage(each) or each.is_neg():
            return False
    return not torch._C._are_functorch_transforms_active() and not torch._C._len_torch_dispatch_stack()


def computed(x: Tensor, weight: Tensor, bias: Tensor | None, padding: Pair, relu: bool) -> Tensor:
    """Return the result of `pooled_conv2d` by the loops; with an axis of nodes, each node has its own filters."""
    if bias is None:
        bias = weight.new_zeros(weight.shape[:-3])
    return cast(Tensor, _PooledConvolution.apply(x, weight, bias, _pair(padding), relu))


def _by_torch(x: Tensor, weight: Tensor, bias: Tensor | None, padding: Pair, relu: bool) -> Tensor:
    if weight.ndim == 4:
        pooled = functional.max_pool2d(functional.conv2d(x, weight, bias, padding=padding), 2)
        return functional.relu(pooled) if relu else pooled
    biases = [None] * len(x) if bias is None else bias
    return torch.stack([_by_torch(*mine, padding, relu) for mine in zip(x, weight, biases, strict=True)])


def _pair(given: Any) -> tuple[int, int]:
    """Return the padding of height and width; (-1, -1) for other forms, such as "same"."""
    if isinstance(given, int):
        return given, given
    return (given[0], given[1]) if isinstance(given, (tuple, list)) and len(given) == 2 else (-1, -1)


class _PooledConvolution(torch.autograd.Function):
    """The computation with its gradients; it keeps for each output which of the four numbers it was, if any."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, padding: tuple[int, int], relu: bool) -> Tensor:
        *nodes, batch, inside, height, width = x.shape
        outside, _, high, wide = weight.shape[-4:]
        above, left = padding
        sizes = (batch, height, width, inside, outside, high, wide, above, left, int(relu))
        shape = (*nodes, batch, (height + 2 * above - high + 1) // 2, (width + 2 * left - wide + 1) // 2, outside)
        pooled, which = _room_for(shape, torch.float32), _room_for(shape, torch.uint8)
        loops().convolve_and_pool(
            sizes, math.prod(nodes), _channels_last(x), weight.contiguous(), bias.contiguous(), pooled, which
        )
        ctx.save_for_backward(x, weight, bias)
        ctx.sizes, ctx.which = sizes, which
        out = _channels_first(pooled)
        return out if x.stride(-3) == 1 else out.contiguous()  # in the images' memory format, as torch

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias = ctx.saved_tensors
        is_differentiated_again = torch.is_grad_enabled()
        if is_differentiated_again or not _are_plain(gradient, x, weight):
            *_, above, left, relu = ctx.sizes
            wanted = [each for each in (x, weight, bias) if each.requires_grad]
            with torch.enable_grad():
                again = _by_torch(x, weight, bias, (above, left), relu)
            found = iter(torch.autograd.grad(again, wanted, gradient, create_graph=is_differentiated_again))
            return *(next(found) if each.requires_grad else None for each in (x, weight, bias)), None, None
        gradients, images = _channels_last(gradient), _channels_last(x)
        nodes = math.prod(x.shape[:-4])
        of_x = of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            of_x = torch.empty(images.shape, dtype=torch.float32, device="cpu")
            loops().spread(ctx.sizes, nodes, gradients, ctx.which, weight.contiguous(), of_x)
            of_x = _channels_first(of_x)
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            of_weight, of_bias = (torch.empty(each.shape, dtype=torch.float32, device="cpu") for each in (weight, bias))
            loops().weigh(ctx.sizes, nodes, images, gradients, ctx.which, of_weight, of_bias)
        return of_x, of_weight, of_bias, None, None


def _room_for(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Return an uninitialized contiguous tensor, followed by `SPILL` numbers of room for whole vectors."""
    strides = [1]
    for length in shape[:0:-1]:
        strides.insert(0, strides[0] * length)
    return torch.empty(strides[0] * shape[0] + SPILL, dtype=dtype, device="cpu").as_strided_(shape, strides)


def _channels_last(x: Tensor) -> Tensor:
    """Return images (..., C, H, W) as contiguous (..., H, W, C); no copy of images in channels_last format."""
    return x.movedim(-3, -1).contiguous()


def _channels_first(images: Tensor) -> Tensor:
    """Change images (..., H, W, C) to (..., C, H, W) in place; the result is no view, so it can be changed in place."""
    *shape, height, width, channels = images.shape
    *strides, of_row, of_pixel, of_channel = images.stride()
    return images.as_strided_((*shape, channels, height, width), (*strides, of_channel, of_row, of_pixel))
