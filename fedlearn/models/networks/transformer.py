"""A small transformer with causal attention, for texts and series.

Source: the decoder of Vaswani et al. 2017 (arXiv:1706.03762) as in Radford et al. 2019: normalisation before each
sublayer, learned positions, GELU.
Shapes: B batch, L length, C channels, W width, H heads, K classes.
"""

from __future__ import annotations

from math import prod
from typing import Annotated, ClassVar, cast

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from fedlearn.core.errors import SettingError
from fedlearn.data.data_spec import DataSpec
from fedlearn.models.networks.shapes import in_shape, sequence_shape

AtLeast1 = Annotated[int, Field(ge=1)]


class Transformer(nn.Module):
    """Tokens (B, L) or numbers (B, L, C) in; (B, K, L) logits out where there is a target for each place, else (B, K).

    Parameters
    ----------
    spec : DataSpec
        Data set of texts or series.
    width : int, default=64
        Dimensions of each place; a multiple of `heads`.
    layers : int, default=2
        Number of blocks.
    heads : int, default=4
        Number of attention heads of each block.

    References
    ----------
    Vaswani et al. 2017, "Attention is all you need" (arXiv:1706.03762).

    Examples
    --------
    >>> text = DataSpec("text", (80,), "int32", classes=86, vocabulary=86, target_shape=(80,))
    >>> sum(p.numel() for p in Transformer(text).parameters())
    116310
    """

    class_axis = 1

    def __init__(self, spec: DataSpec, *, width: AtLeast1 = 64, layers: AtLeast1 = 2, heads: AtLeast1 = 4) -> None:
        super().__init__()
        if width % heads:
            raise SettingError("model.options.width", width, f"it should be a multiple of model.options.heads, {heads}")
        length, channels = sequence_shape(spec)
        self.embedding = nn.Embedding(spec.vocabulary, width) if spec.vocabulary else nn.Linear(channels, width)
        self.positions = nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, spec.classes or prod(spec.target_shape))
        self.in_shape = nn.Sequential(*in_shape(spec))
        self.at_each_place = bool(spec.classes) and spec.target_shape == (length,)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, or the numbers of a regression."""
        hidden = self.norm(self.blocks(self.embedding(x) + self.positions))  # (B, L, W)
        if self.at_each_place:
            return cast(Tensor, self.out(hidden)).transpose(1, 2)  # (B, K, L), as torch's cross_entropy has them
        return cast(Tensor, self.in_shape(self.out(hidden[:, -1])))


class Block(nn.Module):
    """Causal attention, then two linear layers, each with a residual connection; (B, L, W) in and out."""

    makes_heads: ClassVar[dict[str, int]] = {"projected": 3}  # queries, keys, values (`fedlearn.models.slices`)

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.projected = nn.Linear(width, 3 * width)
        self.joined = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Return the hidden state of each place, (B, L, W)."""
        attended: Tensor = x + self.joined(self._attended(self.norm1(x)))
        return attended + cast(Tensor, self.mlp(self.norm2(attended)))

    def _attended(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        heads = self.projected(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)  # (3, B, H, L, W / H)
        attended = functional.scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
        return attended.transpose(1, 2).reshape(batch, length, width)
