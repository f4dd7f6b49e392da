"""How often-used functions are computed for all nodes of a stack in one kernel.

What is measured stands in README.md: on a CPU products gain, and what goes over few channels (pooling, relu); a
convolution itself does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from fedlearn.kernels.pooled_convolution import computed, is_ours, pooled_conv2d
from fedlearn.models.stacks.stacked import Layout, Stacked

FEW = (
    16  # channels of one node: up to so many, images side by side fill the processor's vectors, and one alone does not
)


def linear(_: object, x: Any, weight: Any, bias: Any = None) -> Any:
    """Return x @ weight.T + bias as one batched product; (K, B, ..., in) and (K, out, in) in."""
    if not isinstance(x, Stacked) or not isinstance(weight, Stacked):
        return NotImplemented
    inputs, weights = x.whole(), weight.whole()
    rows = inputs.flatten(1, -2)
    if isinstance(bias, Stacked):
        outputs = torch.baddbmm(bias.whole().unsqueeze(1), rows, weights.transpose(1, 2))
    elif bias is None:
        outputs = torch.bmm(rows, weights.transpose(1, 2))
    else:
        return NotImplemented
    return Stacked(outputs.view(*inputs.shape[:-1], -1), Layout.WHOLE, x.streams)


def conv2d(function: Callable[..., Tensor], x: Any, weight: Any, bias: Any = None, *args: Any, **named: Any) -> Any:
    """Return convolutions of images; those with few channels side by side."""
    if not isinstance(x, Stacked) or not isinstance(weight, Stacked) or not isinstance(bias, (Stacked, type(None))):
        return NotImplemented
    groups = args[3] if len(args) > 3 else named.get("groups", 1)
    filters = weight.whole()  # (K, out, in, height, width)
    if filters.ndim != 5 or filters.shape[1] > FEW or groups != 1 or x.parts()[0].ndim != 4:
        return NotImplemented
    if x.layout_ is Layout.SIDE:
        how = _with_groups(args, named, len(x.streams))
        side = function(x.data_, filters.flatten(0, 1), None if bias is None else bias.whole().flatten(), **how)
    else:
        biases = [None] * len(x.streams) if bias is None else bias.parts()
        each = [function(*mine, *args, **named) for mine in zip(x.parts(), weight.parts(), biases, strict=True)]
        side = torch.cat(each, 1)
    return Stacked(side, Layout.SIDE, x.streams)


def _with_groups(args: tuple[Any, ...], named: dict[str, Any], groups: int) -> dict[str, Any]:
    """Return the arguments behind bias by their names, with as many groups as there are nodes."""
    return dict(zip(("stride", "padding", "dilation"), args, strict=False)) | named | {"groups": groups}


def on_each_channel(function: Callable[..., Any], x: Any, *args: Any, **named: Any) -> Any:
    """Return what works on each channel of an image alone, for images side by side."""
    if not isinstance(x, Stacked) or x.layout_ is not Layout.SIDE:
        return NotImplemented
    made = function(x.data_, *args, **named)
    return Stacked(made, Layout.SIDE, x.streams) if isinstance(made, Tensor) else NotImplemented


def pooled_convolution(
    _: object, x: Any, weight: Any, bias: Any = None, *, padding: Any = 0, relu: bool = False
) -> Any:
    """Return each node's images with its own filters, one node after another: with the bytes of a node alone."""
    if not isinstance(x, Stacked) or not isinstance(weight, Stacked) or not isinstance(bias, (Stacked, type(None))):
        return NotImplemented
    images, filters, biases = x.whole(), weight.whole(), None if bias is None else bias.whole()
    if images.ndim != 5 or filters.ndim != 5 or not is_ours(images, filters, biases, padding):
        return NotImplemented
    return Stacked(computed(images, filters, biases, padding, relu), Layout.WHOLE, x.streams)


def on_each_number(function: Callable[..., Tensor], x: Any, *args: Any, **named: Any) -> Any:
    """Return what works on each number alone."""
    if not isinstance(x, Stacked) or x.layout_ is Layout.EACH:
        return NotImplemented
    made = function(x.data_, *args, **named)
    return Stacked(made, x.layout_, x.streams)


def flatten(function: Callable[..., Tensor], x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Return each example as a row."""
    if not isinstance(x, Stacked) or x.layout_ is Layout.EACH or (start_dim, end_dim) != (1, -1):
        return NotImplemented
    count = len(x.streams)
    if x.layout_ is Layout.SIDE:
        rows = x.data_.unflatten(1, (count, -1)).flatten(2).transpose(0, 1)
    else:
        rows = x.data_.flatten(2)
    return Stacked(rows, Layout.WHOLE, x.streams)


RULES: dict[Callable[..., Any], Callable[..., Any]] = {
    functional.linear: linear,
    torch.conv2d: conv2d,
    pooled_conv2d: pooled_convolution,
    functional.max_pool2d: on_each_channel,
    torch.max_pool2d: on_each_channel,
    functional.avg_pool2d: on_each_channel,
    functional.relu: on_each_number,
    torch.relu: on_each_number,
    Tensor.relu: on_each_number,
    functional.gelu: on_each_number,
    torch.tanh: on_each_number,
    Tensor.tanh: on_each_number,
    torch.sigmoid: on_each_number,
    Tensor.sigmoid: on_each_number,
    torch.flatten: flatten,
    Tensor.flatten: flatten,
}
"""Of a function of torch, what computes it for all nodes, or says NotImplemented."""
Stacked.rules.update(RULES)
