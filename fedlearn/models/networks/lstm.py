"""The character LSTM of the FedAvg experiments; also for series of numbers.

Source: McMahan et al. 2017 (arXiv:1602.05629), section 3: characters embedded in 8 dimensions, two LSTM layers of 256
units, a softmax over the characters.
Shapes: B batch, L length, C channels, K classes.
"""

from __future__ import annotations

from math import prod
from typing import Annotated, cast

from pydantic import Field
from torch import Tensor, nn

from fedlearn.data.data_spec import DataSpec
from fedlearn.models.networks.shapes import in_shape, sequence_shape

AtLeast1 = Annotated[int, Field(ge=1)]


class LSTM(nn.Module):
    """Tokens (B, L) or numbers (B, L, C) in; (B, K, L) logits out where there is a target for each place, else (B, K).

    Parameters
    ----------
    spec : DataSpec
        Data set of texts or series.
    embedding : int, default=8
        Dimensions of the embedding of a token.
    width : int, default=256
        Units of each layer.
    layers : int, default=2
        Number of layers.

    References
    ----------
    McMahan et al. 2017, "Communication-efficient learning of deep networks from decentralized data" (arXiv:1602.05629).

    Examples
    --------
    >>> shakespeare = DataSpec("shakespeare", (80,), "int32", classes=86, vocabulary=86, target_shape=(80,))
    >>> sum(p.numel() for p in LSTM(shakespeare).parameters())
    821510
    """

    class_axis = 1

    def __init__(self, spec: DataSpec, *, embedding: AtLeast1 = 8, width: AtLeast1 = 256, layers: AtLeast1 = 2) -> None:
        super().__init__()
        length, channels = sequence_shape(spec)
        self.embedding = nn.Embedding(spec.vocabulary, embedding) if spec.vocabulary else nn.Identity()
        self.lstm = nn.LSTM(channels or embedding, width, layers, batch_first=True)
        self.out = nn.Linear(width, spec.classes or prod(spec.target_shape))
        self.in_shape = nn.Sequential(*in_shape(spec))
        self.at_each_place = bool(spec.classes) and spec.target_shape == (length,)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, or the numbers of a regression."""
        hidden, _ = self.lstm(self.embedding(x))  # (B, L, width)
        if self.at_each_place:
            return cast(Tensor, self.out(hidden)).transpose(1, 2)  # (B, K, L), as torch's cross_entropy has them
        return cast(Tensor, self.in_shape(self.out(hidden[:, -1])))
