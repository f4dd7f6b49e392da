"""Half precision: two bytes for each entry, rounded to the nearest number; a value above 65504 becomes infinity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np

from fedlearn.compression.codec import Payload
from fedlearn.compression.stages import Lengths, Part, Role, nothing_from
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.core.state import Array


class Fp16:
    """Sends IEEE 754 half precision numbers: 11 significant bits, from 6e-8 to 65504."""

    role = Role.QUANTIZER
    needs_change = False
    rotates = False

    @classmethod
    def from_argument(cls, argument: str, settings: CompressionSettings) -> Self:
        """Return the stage; it takes no argument."""
        nothing_from(argument)
        return cls()

    def parts(self, lengths: Lengths) -> Mapping[str, Part]:
        """Return the one array of half precision numbers."""
        return {"half": Part("float16", sum(lengths))}

    @np.errstate(over="ignore")  # the gate refuses infinity
    def encode(self, values: Array, lengths: Lengths, *, seed: int) -> Payload:
        """Return the rounded values."""
        return {"half": values.astype(np.float16)}

    def decode(self, payload: Payload, lengths: Lengths, *, seed: int) -> Array:
        """Return the values as float32."""
        return payload["half"].astype(np.float32)
