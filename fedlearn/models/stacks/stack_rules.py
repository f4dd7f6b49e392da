"""Rules: how frequent functions are computed for all nodes of a stack in one kernel.

README.md has the measurements: on a CPU, products and functions over few channels (pooling, relu) gain; a convolution
itself does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from fedlearn.kernels.pooled_convolution import computed, is_ours, pooled_conv2d
from fedlearn.models.stacks.stacked import Arrangement, Exact, Stacked

FEW = 16  # most channels of a node for which images side by side fill vectors better than one image alone


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
    return Stacked(outputs.view(*inputs.shape[:-1], -1), Arrangement.WHOLE, x.streams)


def conv2d(function: Callable[..., Tensor], x: Any, weight: Any, bias: Any = None, *args: Any, **named: Any) -> Any:
    """Return convolutions of images; those with few channels are arranged side by side."""
    if not isinstance(x, Stacked) or not isinstance(weight, Stacked) or not isinstance(bias, (Stacked, type(None))):
        return NotImplemented
    groups = args[3] if len(args) > 3 else named.get("groups", 1)
    filters = weight.whole()  # (K, out, in, height, width)
    if filters.ndim != 5 or filters.shape[1] > FEW or groups != 1 or x.parts()[0].ndim != 4:
        return NotImplemented
    if x.arrangement_ is Arrangement.SIDE:
        how = _with_groups(args, named, len(x.streams))
        side = function(x.data_, filters.flatten(0, 1), None if bias is None else bias.whole().flatten(), **how)
    else:
        biases = [None] * len(x.streams) if bias is None else bias.parts()
        each = [function(*mine, *args, **named) for mine in zip(x.parts(), weight.parts(), biases, strict=True)]
        side = torch.cat(each, 1)
    return Stacked(side, Arrangement.SIDE, x.streams)


def _with_groups(args: tuple[Any, ...], named: dict[str, Any], groups: int) -> dict[str, Any]:
    """Return the arguments after `bias` by their names, with one group for each node."""
    return dict(zip(("stride", "padding", "dilation"), args, strict=False)) | named | {"groups": groups}


def on_each_channel(function: Callable[..., Any], x: Any, *args: Any, **named: Any) -> Any:
    """Return the result of a function that works on each channel alone, for images side by side."""
    if not isinstance(x, Stacked) or x.arrangement_ is not Arrangement.SIDE:
        return NotImplemented
    made = function(x.data_, *args, **named)
    return Stacked(made, Arrangement.SIDE, x.streams) if isinstance(made, Tensor) else NotImplemented


def pooled_convolution(
    _: object, x: Any, weight: Any, bias: Any = None, *, padding: Any = 0, relu: bool = False
) -> Any:
    """Return the pooled convolutions, node by node in one call: with the bytes of a node alone."""
    if not isinstance(x, Stacked) or not isinstance(weight, Stacked) or not isinstance(bias, (Stacked, type(None))):
        return NotImplemented
    images, filters, biases = x.whole(), weight.whole(), None if bias is None else bias.whole()
    if images.ndim != 5 or filters.ndim != 5 or not is_ours(images, filters, biases, padding):
        return NotImplemented
    return type(x)(computed(images, filters, biases, padding, relu), Arrangement.WHOLE, x.streams)


def on_each_number(function: Callable[..., Tensor], x: Any, *args: Any, **named: Any) -> Any:
    """Return the result of a function that works on each number alone."""
    if not isinstance(x, Stacked) or x.arrangement_ is Arrangement.EACH:
        return NotImplemented
    made = function(x.data_, *args, **named)
    return Stacked(made, x.arrangement_, x.streams)


def flatten(function: Callable[..., Tensor], x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Return each example as a row: (B, C, H, W) becomes (B, C * H * W)."""
    if not isinstance(x, Stacked) or x.arrangement_ is Arrangement.EACH or (start_dim, end_dim) != (1, -1):
        return NotImplemented
    count = len(x.streams)
    if x.arrangement_ is Arrangement.SIDE:
        rows = x.data_.unflatten(1, (count, -1)).flatten(2).transpose(0, 1)
    else:
        rows = x.data_.flatten(2)
    return Stacked(rows, Arrangement.WHOLE, x.streams)


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
"""Function of torch -> rule that computes it for all nodes, or returns NotImplemented."""
Stacked.rules.update(RULES)
Exact.rules[pooled_conv2d] = pooled_convolution
