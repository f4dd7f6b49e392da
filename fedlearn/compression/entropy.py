"""Zstandard on every array of a payload, as the last stage.

Quantizers leave steps of few bits that are not equally frequent; Zstandard makes use of that. An array that does not
shrink is sent as it is. The library comes with pyarrow, which also reads the data sets; Python's own ones are slower.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np

from fedlearn.compression.codec import Payload
from fedlearn.compression.stages import Part, Role
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.core.errors import Refused
from fedlearn.core.state import Array

DEFAULT_LEVEL = 3
SIZE = np.dtype("<u8")  # in front of each array: its number of bytes when unpacked


class Entropy:
    """Sends each array as its size and its bytes, compressed where compression makes it shorter.

    Parameters
    ----------
    level
        1 (fast) to 22 (small).
    """

    role = Role.ENTROPY
    needs_change = False

    def __init__(self, *, level: int) -> None:
        from pyarrow import Codec

        self._codec = Codec("zstd", compression_level=level)

    @classmethod
    def from_argument(cls, argument: str, settings: CompressionSettings) -> Self:
        """Return the stage; the argument is the level."""
        level = int(argument) if argument.isdecimal() else DEFAULT_LEVEL if not argument else 0
        if not 1 <= level <= 22:
            raise ValueError("the level must be a whole number from 1 to 22")
        return cls(level=level)

    def encode(self, payload: Payload) -> Payload:
        """Return each array as bytes."""
        return {name: self._packed(array) for name, array in payload.items()}

    def decode(self, payload: Payload, parts: Mapping[str, Part]) -> Payload:
        """Return the arrays; an array longer than its part is unpacked to one byte more than the part, not further."""
        return {name: self._unpacked(name, payload[name], part) for name, part in parts.items()}

    def _packed(self, array: Array) -> Array:
        plain = np.ascontiguousarray(array).view(np.uint8)
        small = np.frombuffer(self._codec.compress(plain), np.uint8)
        size = np.array([plain.size], SIZE).view(np.uint8)
        return np.concatenate([size, small if len(small) < len(plain) else plain])

    def _unpacked(self, name: str, packed: Array, part: Part) -> Array:
        from pyarrow import ArrowException, BufferReader, CompressedInputStream

        if packed.dtype != np.uint8:
            raise Refused("wrong-dtype", f"{name} has dtype {packed.dtype}, expected uint8")
        if packed.ndim != 1 or packed.size < SIZE.itemsize:
            raise Refused("wrong-shape", f"{name} has shape {packed.shape}, expected bytes with their size in front")
        dtype = np.dtype(part.dtype)
        most = part.length * dtype.itemsize
        size = int(packed[: SIZE.itemsize].view(SIZE)[0])
        if size > most or size % dtype.itemsize or (part.exact and size != most):
            raise Refused("wrong-shape", f"{name} says that it has {size} bytes, expected {most}")
        rest = packed[SIZE.itemsize :]
        if len(rest) != size:
            try:
                with CompressedInputStream(BufferReader(np.ascontiguousarray(rest)), "zstd") as stream:
                    rest = np.frombuffer(stream.read(size + 1), np.uint8)
            except (ArrowException, OSError) as error:
                raise Refused("undecodable", f"{name}: {str(error).splitlines()[0]}") from None
        if len(rest) != size:
            raise Refused("undecodable", f"{name} does not unpack to the {size} bytes that it says")
        return rest.view(dtype)
