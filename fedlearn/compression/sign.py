"""One bit for each entry: its sign. Each segment has one magnitude, the mean of its entries' magnitudes.

After `top-k` this is sparse ternary compression. Sources: Karimireddy et al. 2019 (arXiv:1901.09847), scaled sign;
Sattler et al. 2019 (arXiv:1903.02891), algorithm 1, where one magnitude serves all parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np

from fedlearn.compression.bits import pack, packed_size, unpack
from fedlearn.compression.codec import Payload
from fedlearn.compression.scales import check_scales, segments
from fedlearn.compression.stages import Lengths, Part, Role, nothing_from
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.core.state import Array


class Sign:
    """Sends a bit for each entry, set where the entry is negative, and the mean magnitude of each segment."""

    role = Role.QUANTIZER
    needs_change = True
    rotates = False

    @classmethod
    def from_argument(cls, argument: str, settings: CompressionSettings) -> Self:
        """Return the stage; it takes no argument."""
        nothing_from(argument)
        return cls()

    def parts(self, lengths: Lengths) -> Mapping[str, Part]:
        """Return packed signs, and the magnitude of each segment."""
        return {"signs": Part("uint8", packed_size(sum(lengths), 1)), "magnitudes": Part("float32", len(lengths))}

    @np.errstate(over="ignore")
    def encode(self, values: Array, lengths: Lengths, *, seed: int) -> Payload:
        """Return the packed signs, and the mean magnitude of each segment."""
        means = [np.abs(part).mean() for part in segments(values, lengths)]
        return {"signs": pack(np.signbit(values).view(np.uint8), 1), "magnitudes": np.array(means, np.float32)}

    def decode(self, payload: Payload, lengths: Lengths, *, seed: int) -> Array:
        """Return the values: each entry's sign times its segment's magnitude."""
        check_scales(payload["magnitudes"], least=0)
        values = 1 - 2 * unpack(payload["signs"], sum(lengths), 1).astype(np.float32)
        for part, magnitude in zip(segments(values, lengths), payload["magnitudes"], strict=True):
            part *= magnitude
        return values
