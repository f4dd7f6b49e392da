"""Fusion of a user's layers: Conv2d, ReLU and MaxPool2d(2) in a row become one `PooledConv2d`."""

from __future__ import annotations

from copy import deepcopy
from itertools import product
from typing import TypeVar, cast

import torch
from torch import nn

from fedlearn.kernels.pooled_convolution import PooledConv2d

M = TypeVar("M", bound=nn.Module)
ROWS = ((nn.Conv2d, nn.ReLU, nn.MaxPool2d), (nn.Conv2d, nn.MaxPool2d, nn.ReLU), (nn.Conv2d, nn.MaxPool2d))
"""Layers in a row that become one computation; ReLU and max pooling may be exchanged."""


def fused(module: M) -> M:
    """Return a copy of a module that computes convolution, ReLU and pooling in one, where they stand in a row.

    The copy has the same parameters under the same names, so states fit both. Its outputs and gradients equal those of
    the module up to float32 rounding, as sums have another order: a gradient differs by less than 1e-4 of its length.
    Runs with the copy have a SHA-256 of their own. Nothing is fused unless this function is called.

    Parameters
    ----------
    module
        Any module. In each of its `nn.Sequential`, an `nn.Conv2d` (stride, dilation and groups 1, zeros as padding)
        followed by `nn.MaxPool2d(2)`, with an `nn.ReLU` before or after the pooling or without one, is replaced. An
        `nn.Identity` takes the place of each further layer. Layers with hooks stay as they are. The Sequential must run
        as a whole: its first layer alone no longer returns the output of the convolution.

    Returns
    -------
    nn.Module
        The copy, of the module's class.

    Raises
    ------
    ValueError
        If the module has no such row of layers.

    Examples
    --------
    >>> fused(nn.Sequential(nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2)))
    Sequential(
      (0): PooledConv2d(3, 6, kernel_size=(5, 5), stride=(1, 1))
      (1): Identity()
      (2): Identity()
    )
    """
    made = deepcopy(module)
    if not sum(map(_fuse, list(made.modules()))):
        raise ValueError(
            "no nn.Sequential in this module has Conv2d, (ReLU), MaxPool2d(2) in a row: put them into one, or use "
            "fedlearn.kernels.PooledConv2d as a layer"
        )
    return made


def _fuse(layers: nn.Module) -> int:
    """Replace the rows of layers in a Sequential; return their number, 0 for any other module."""
    if not isinstance(layers, nn.Sequential) or type(layers).forward is not nn.Sequential.forward:
        return 0
    count = 0
    for place, row in product(range(len(layers)), ROWS):
        found = [layers[place + k] for k in range(len(row)) if place + k < len(layers)]
        if [type(each) for each in found] != list(row) or not all(map(_is_taken, found)):
            continue
        layers[place] = _pooled(found[0], relu=nn.ReLU in row)
        for k in range(1, len(row)):
            layers[place + k] = nn.Identity()
        count += 1
    return count


def _is_taken(layer: nn.Module) -> bool:
    """Return whether the loops support a layer's options, and it has no hooks, which would be lost."""
    if any((layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks)):
        return False
    if isinstance(layer, nn.Conv2d):
        options = (layer.stride, layer.dilation, layer.groups, layer.padding_mode)
        return options == ((1, 1), (1, 1), 1, "zeros") and not isinstance(layer.padding, str)
    if isinstance(layer, nn.MaxPool2d):
        sizes = (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
        is_two = all(each in (2, (2, 2)) for each in sizes[:2]) and sizes[2] in (0, (0, 0)) and sizes[3] in (1, (1, 1))
        return is_two and not layer.ceil_mode and not layer.return_indices
    return True


def _pooled(convolution: nn.Module, *, relu: bool) -> PooledConv2d:
    """Return the pooled layer with the parameters of a convolution; no random number is drawn."""
    assert isinstance(convolution, nn.Conv2d)
    with torch.device("meta"):  # no memory for parameters that are replaced at once
        made = PooledConv2d(
            convolution.in_channels,
            convolution.out_channels,
            cast(tuple[int, int], convolution.kernel_size),
            padding=cast(tuple[int, int], convolution.padding),
            relu=relu,
        )
    made.weight, made.bias = convolution.weight, convolution.bias
    return made.train(convolution.training)
