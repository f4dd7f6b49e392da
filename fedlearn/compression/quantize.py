"""Few bits for each entry, rounded at random so that the mean is kept.

The range of each segment is cut into ``2^bits - 1`` steps. An entry is rounded up or down to a step, with the
probabilities that make the expectation the entry itself. Source: Konecny et al. 2016 (arXiv:1610.05492), section 3,
"probabilistic quantization"; Suresh et al. 2017 (arXiv:1611.00429), section 2.2, stochastic k-level quantization.

Probabilities are multiples of 2^-16: the mean is off by at most 2^-17 of a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np

from fedlearn.compression.bits import pack, packed_size, random_fractions, unpack
from fedlearn.compression.codec import Payload
from fedlearn.compression.scales import check_scales, segments
from fedlearn.compression.stages import Lengths, Part, Role, bits_from
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.core.state import Array

DEFAULT_BITS = 8


class Quantize:
    """Sends a step number of few bits for each entry, and for each segment its lowest value and its step.

    Parameters
    ----------
    bits
        1 to 8.
    """

    role = Role.QUANTIZER
    needs_change = False
    rotates = False

    def __init__(self, *, bits: int) -> None:
        self.bits = bits

    @classmethod
    def from_argument(cls, argument: str, settings: CompressionSettings) -> Self:
        """Return the stage; the argument is the number of bits."""
        return cls(bits=bits_from(argument, DEFAULT_BITS, most=8))

    def parts(self, lengths: Lengths) -> Mapping[str, Part]:
        """Return packed step numbers, and (lowest, step) of each segment."""
        return {
            "codes": Part("uint8", packed_size(sum(lengths), self.bits)),
            "lowest": Part("float32", len(lengths)),
            "steps": Part("float32", len(lengths)),
        }

    @np.errstate(invalid="ignore", over="ignore")  # a node that has diverged: the server refuses its scales
    def encode(self, values: Array, lengths: Lengths, *, seed: int) -> Payload:
        """Return the step number of each entry, and the lowest value and the step of each segment."""
        lowest, steps = np.zeros(len(lengths), np.float32), np.zeros(len(lengths), np.float32)
        top = np.float32(2**self.bits - 1)
        places = random_fractions(len(values), seed)  # in units of a step, from the lowest value, plus the fraction
        for index, (part, place) in enumerate(zip(segments(values, lengths), segments(places, lengths), strict=True)):
            lowest[index], highest = part.min(), part.max()
            steps[index] = (highest - lowest[index]) / top
            if steps[index] > 0:
                place += (part - lowest[index]) / steps[index]
        codes = np.minimum(places, top, out=places).astype(np.uint8)  # cuts off the fraction
        return {"codes": pack(codes, self.bits), "lowest": lowest, "steps": steps}

    def decode(self, payload: Payload, lengths: Lengths, *, seed: int) -> Array:
        """Return the values that the step numbers stand for."""
        check_scales(payload["lowest"], least=-np.inf)
        check_scales(payload["steps"], least=0)
        values = unpack(payload["codes"], sum(lengths), self.bits).astype(np.float32)
        for part, lowest, step in zip(segments(values, lengths), payload["lowest"], payload["steps"], strict=True):
            part *= step
            part += lowest
        return values
