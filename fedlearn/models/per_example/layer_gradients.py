"""Layers whose gradient of each example follows from their input and the gradient of their output.

A linear layer's gradient is the product of two vectors, whose norm needs no product ("ghost" norms: Goodfellow 2015,
arXiv:1510.01799; Li et al. 2022, arXiv:2110.05679), and whose weighted sum is one product of matrices (Bu et al. 2022,
arXiv:2210.00038). A convolution shares few weights among many pixels: its gradients are computed one for each example.

Shapes: K places, I inputs, O outputs, L pixels of an output.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedlearn.kernels import PooledConv2d
from fedlearn.kernels.pooled_convolution import computed, is_ours


class Layer(Protocol):
    """One layer in one computation."""

    wanted: tuple[Tensor, ...]
    """Tensors of which the gradient of the summed losses is needed."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output."""
        ...

    def take(self, gradients: tuple[Tensor, ...]) -> Tensor:
        """Take the gradients of `wanted`; return the squared norm of each example's gradient, (K,) float64."""
        ...

    def summed(self, factors: Tensor, counted: Tensor) -> list[Tensor]:
        """Return the sums of the gradients times factors, float64: of the weight, then of the bias if there is one."""
        ...


class LinearLayer:
    """A linear layer on one vector of each example, (K, I)."""

    wanted: tuple[Tensor, ...]

    def __init__(self, module: nn.Linear) -> None:
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        """See Layer."""
        if x.ndim != 2:
            raise NotImplementedError("a linear layer on more than a vector of each example")
        weight, bias = _plain(self.module)
        self.x, output = x.detach(), _wanted(functional.linear(x, weight, bias))
        self.wanted = (output,)
        return output

    def take(self, gradients: tuple[Tensor, ...]) -> Tensor:
        """See Layer."""
        (self.gradient,) = (each.double() for each in gradients)
        self.x = self.x.double()
        return self.gradient.square().sum(1) * (self.x.square().sum(1) + (self.module.bias is not None))

    def summed(self, factors: Tensor, counted: Tensor) -> list[Tensor]:
        """See Layer."""
        weighted = _only(self.gradient, counted) * factors[:, None]
        weight = weighted.T @ _only(self.x, counted)
        return [weight] if self.module.bias is None else [weight, weighted.sum(0)]


class Apiece:
    """A layer whose gradients are computed for each example: (K, ...) of the weight, (K, O) of the bias."""

    def __init__(self, module: nn.Module) -> None:
        self.module: Any = module

    def take(self, gradients: tuple[Tensor, ...]) -> Tensor:
        """See Layer."""
        self.gradients = [each.double().flatten(1) for each in self.of_parameters(gradients)]
        return sum((each.square().sum(1) for each in self.gradients), torch.zeros((), dtype=torch.float64))

    def summed(self, factors: Tensor, counted: Tensor) -> list[Tensor]:
        """See Layer."""
        parameters = [self.module.weight, *([] if self.module.bias is None else [self.module.bias])]
        sums = (factors @ _only(each, counted) for each in self.gradients)
        return [each.view(parameter.shape) for each, parameter in zip(sums, parameters, strict=True)]

    def of_parameters(self, gradients: tuple[Tensor, ...]) -> list[Tensor]:
        """Return the gradient of each example, of the weight, then of the bias if there is one."""
        raise NotImplementedError


class ConvolutionLayer(Apiece):
    """A convolution with zeros around the images and no groups."""

    wanted: tuple[Tensor, ...]

    def forward(self, x: Tensor) -> Tensor:
        """See Layer."""
        module = self.module
        weight, bias = _plain(module)
        self.x = x.detach()
        output = _wanted(functional.conv2d(x, weight, bias, module.stride, module.padding, module.dilation))
        self.wanted = (output,)
        return output

    def of_parameters(self, gradients: tuple[Tensor, ...]) -> list[Tensor]:
        """See Apiece."""
        module, gradient = self.module, gradients[0].flatten(2)  # (K, O, L)
        patches = functional.unfold(self.x, module.kernel_size, module.dilation, module.padding, module.stride)
        weight = gradient @ patches.transpose(1, 2)  # (K, O, I)
        return [weight] if module.bias is None else [weight, gradient.sum(2)]


class PooledLayer(Apiece):
    """A `PooledConv2d`: its compiled loops take each example as a node with filters of its own, equal in all nodes."""

    wanted: tuple[Tensor, ...]

    def forward(self, x: Tensor) -> Tensor:
        """See Layer."""
        module, alone = self.module, x[:, None]
        copies = [each.expand(len(x), *each.shape).contiguous().requires_grad_() for each in _plain(module)]
        weight, bias = copies
        self.wanted = (weight, bias)
        if not is_ours(alone, weight, bias, module.padding):
            raise NotImplementedError("a pooled convolution that the loops do not take")
        return computed(alone, weight, bias, module.padding, module.relu)[:, 0]

    def of_parameters(self, gradients: tuple[Tensor, ...]) -> list[Tensor]:
        """See Apiece."""
        return list(gradients)


class NormLayer(Apiece):
    """A norm over the numbers of one example: LayerNorm or GroupNorm with weight and bias."""

    wanted: tuple[Tensor, ...]

    def forward(self, x: Tensor) -> Tensor:
        """See Layer."""
        module = self.module
        if isinstance(module, nn.GroupNorm):
            plain = functional.group_norm(x, module.num_groups, eps=module.eps)
            shape = (-1, *[1] * (x.ndim - 2))
        else:
            plain, shape = functional.layer_norm(x, module.normalized_shape, eps=module.eps), module.normalized_shape
        weight, bias = _plain(module)
        self.normed = plain.detach()
        output = _wanted(plain * weight.view(shape) + bias.view(shape))
        self.wanted = (output,)
        return output

    def of_parameters(self, gradients: tuple[Tensor, ...]) -> list[Tensor]:
        """See Apiece."""
        (gradient,) = gradients
        if isinstance(self.module, nn.GroupNorm):
            return [each.flatten(2).sum(2) for each in (gradient * self.normed, gradient)]
        size = self.module.weight.numel()
        return [each.reshape(len(each), -1, size).sum(1) for each in (gradient * self.normed, gradient)]


def layer_of(module: nn.Module) -> Layer | None:
    """Return how a layer's gradients are computed; None for a layer that has no rule here."""
    match module:
        case PooledConv2d() if type(module) is PooledConv2d:
            return PooledLayer(module)
        case nn.Linear() if type(module) is nn.Linear:
            return LinearLayer(module)
        case nn.Conv2d() if type(module) is nn.Conv2d:
            is_plain = module.groups == 1 and module.padding_mode == "zeros" and not isinstance(module.padding, str)
            return ConvolutionLayer(module) if is_plain else None
        case nn.GroupNorm() | nn.LayerNorm() if module.weight is not None and module.bias is not None:
            return NormLayer(module)
    return None


def _plain(module: Any) -> list[Any]:
    """Return weight and bias without their history: their own gradients are not asked for."""
    return [None if each is None else each.detach() for each in (module.weight, module.bias)]


def _wanted(output: Tensor) -> Tensor:
    return output if output.requires_grad else output.requires_grad_()


def _only(rows: Tensor, counted: Tensor) -> Tensor:
    """Return the rows that count, and zeros in place of the others, which may hold NaN."""
    return rows.masked_fill_(~counted[:, None], 0.0)
