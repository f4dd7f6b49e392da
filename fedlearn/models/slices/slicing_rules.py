"""Slicing rules by type of layer: what each axis of its arrays counts, and its sizes after slicing.

An axis counts ``"out"``, the units that the layer makes; ``"in"``, those that it gets; ``"heads"``, the dimensions of
attention heads, every head keeping the same ones, as HeteroFL does; or nothing that a slice shortens, ``""``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd


class SliceRule(NamedTuple):
    """The slicing rule of one layer.

    Parameters
    ----------
    axes
        Array of the layer -> what each of its axes counts: "out", "in", "heads" or "".
    resize
        Sets the sizes that the layer keeps as attributes, after its arrays were sliced.
    places
        The axis of inputs and outputs that counts units.
    passes
        Whether the layer hands the units on that it gets, as a norm does.
    head
        Dimensions of an attention head; 0 without heads.
    values
        Of a layer that makes heads: the outputs before are queries and keys, of which no unit reaches a later layer.

    Examples
    --------
    >>> SliceRule({"weight": ("out", "in")}, resize=lambda layer: None).places
    -1
    """

    axes: Mapping[str, tuple[str, ...]]
    resize: Callable[[Any], None]
    places: int = -1
    passes: bool = False
    head: int = 0
    values: int = 0


Rule = Callable[[str, nn.Module], SliceRule | None]
"""Called with the name of a layer and the layer; returns its slicing rule, None for that of its type."""


def rule_of(layer: nn.Module, *, heads: int = 0, times: int = 0) -> SliceRule | None:
    """Return the rule of a layer by its type; None where there is none.

    Parameters
    ----------
    heads, times
        Of a linear layer that makes the queries, keys and values of so many attention heads, one after another.
    """
    for kind, rule in RULES.items():
        if isinstance(layer, kind):
            found = rule(layer)
            break
    else:
        return None
    if found is not None and heads:
        head = layer.out_features // (times * heads)
        axes = {"weight": ("heads", "in"), "bias": ("heads",)}
        return found._replace(axes=axes, head=head, values=layer.out_features * (times - 1) // times)
    return found


def _linear(layer: nn.Linear) -> SliceRule:
    def resize(layer: nn.Linear) -> None:
        layer.out_features, layer.in_features = layer.weight.shape

    return SliceRule({"weight": ("out", "in"), "bias": ("out",)}, resize)


def _convolution(layer: Any) -> SliceRule | None:
    each_alone = layer.groups == layer.in_channels == layer.out_channels
    if layer.groups > 1 and not each_alone:
        return None
    rest = ("",) * (layer.weight.ndim - 2)

    def resize(layer: _ConvNd) -> None:
        if each_alone and layer.groups > 1:
            layer.groups = layer.in_channels = layer.out_channels = len(layer.weight)
        elif isinstance(layer, _ConvTransposeNd):
            layer.in_channels, layer.out_channels = layer.weight.shape[:2]
        else:
            layer.out_channels, layer.in_channels = layer.weight.shape[:2]

    if each_alone and layer.groups > 1:
        return SliceRule({"weight": ("in", "", *rest), "bias": ("in",)}, resize, places=1, passes=True)
    first = ("in", "out") if isinstance(layer, _ConvTransposeNd) else ("out", "in")
    return SliceRule({"weight": (*first, *rest), "bias": ("out",)}, resize, places=1)


def _norm(layer: Any) -> SliceRule | None:
    names = ("weight", "bias", "running_mean", "running_var")
    is_last = isinstance(layer, nn.LayerNorm | nn.RMSNorm)
    if is_last and len(layer.normalized_shape) > 1:
        return None

    def resize(layer: Any) -> None:
        sizes = [len(array) for name in names if (array := getattr(layer, name, None)) is not None]
        if not sizes:
            return
        if is_last:
            layer.normalized_shape = (sizes[0],)
        else:
            setattr(layer, "num_channels" if isinstance(layer, nn.GroupNorm) else "num_features", sizes[0])

    return SliceRule(dict.fromkeys(names, ("in",)), resize, places=-1 if is_last else 1, passes=True)


def _embedding(layer: nn.Embedding) -> SliceRule:
    def resize(layer: nn.Embedding) -> None:
        layer.embedding_dim = layer.weight.shape[1]

    return SliceRule({"weight": ("", "out")}, resize)


def _attention(layer: nn.MultiheadAttention) -> SliceRule | None:
    if not layer._qkv_same_embed_dim or layer.bias_k is not None:
        return None

    def resize(layer: nn.MultiheadAttention) -> None:
        layer.embed_dim = layer.kdim = layer.vdim = layer.in_proj_weight.shape[1]
        layer.head_dim = layer.in_proj_weight.shape[0] // (3 * layer.num_heads)
        layer.out_proj.out_features, layer.out_proj.in_features = layer.out_proj.weight.shape
        if layer.head_dim * layer.num_heads != layer.embed_dim:
            raise ValueError(f"{layer.num_heads} heads of {layer.head_dim} are not the width {layer.embed_dim}")

    axes = {
        "in_proj_weight": ("heads", "in"), "in_proj_bias": ("heads",),
        "out_proj.weight": ("out", "heads"), "out_proj.bias": ("out",),
    }  # fmt: skip
    return SliceRule(axes, resize, head=layer.head_dim)


RULES: dict[Any, Callable[[Any], SliceRule | None]] = {
    nn.Linear: _linear, _ConvNd: _convolution, _NormBase: _norm, nn.GroupNorm: _norm, nn.LayerNorm: _norm,
    nn.RMSNorm: _norm, nn.Embedding: _embedding, nn.MultiheadAttention: _attention,
}  # fmt: skip
"""Type of layers -> what makes the rule of one."""
