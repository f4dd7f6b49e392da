"""Arrays in messages: NumPy's own format, one Flower `Array` each, so that any Flower code can read them.

Arrays are written and parsed here without a file object, which takes a tenth of the time for small arrays. Pickles are
never read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from flwr.app import Array as FlowerArray
from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from fedlearn import flower
from fedlearn.compression.codec import Payload
from fedlearn.core.errors import Refused
from fedlearn.core.state import Array


@lru_cache(maxsize=4096)
def _npy_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """Return the 1.0 header that ``np.save`` writes in front of a C-contiguous array."""
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    padding = -(10 + len(text) + 1) % 64
    body = (text + " " * padding + "\n").encode("latin1")
    return b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body


def pack(array: Array) -> FlowerArray:
    """Return an array as Flower sends it."""
    contiguous = np.ascontiguousarray(array).reshape(array.shape)
    header = _npy_header(contiguous.dtype.str, contiguous.shape)
    data = b"".join((header, contiguous.data))  # one copy
    return flower.array_of(_dtype_name(contiguous.dtype), contiguous.shape, "numpy.ndarray", data)


@lru_cache(maxsize=64)
def _dtype_name(dtype: np.dtype[Any]) -> str:
    return str(dtype)  # NumPy builds the text anew each time, in Python


def unpack(packed: FlowerArray) -> Array:
    """Return a received array, read-only, without copying it.

    Raises
    ------
    Refused
        If the bytes are not an array in NumPy's format, are too few or too many, or hold objects.
    """
    data = packed.data
    try:
        if packed.stype != "numpy.ndarray" or data[:8] != b"\x93NUMPY\x01\x00":
            raise ValueError(f"not in NumPy's format 1.0 (stype {packed.stype!r})")
        start = 10 + int.from_bytes(data[8:10], "little")
        dtype, shape = _parse_header(data[10:start])
        flat = np.frombuffer(data, dtype, offset=start)
        return flat.reshape(shape)
    except (ValueError, TypeError, OverflowError) as error:
        raise Refused("undecodable", str(error).splitlines()[0] if str(error) else repr(error)) from None


# The header that `np.save` writes for a plain array. It is matched, not evaluated, as another party has written it.
_HEADER = re.compile(
    rb"\{'descr': '([<>|=]?[biuf]\d{1,2})', 'fortran_order': False, "
    rb"'shape': \(((?:\d{1,19}, ?)*(?:\d{1,19})?)\), \} *\n"
)
LONGEST_HEADER = 2048  # bytes; 64 dimensions of 19 digits fit, and the cache below stays small


@lru_cache(maxsize=4096)
def _parse_header(header: bytes) -> tuple[np.dtype[Any], tuple[int, ...]]:
    match = _HEADER.fullmatch(header) if len(header) <= LONGEST_HEADER else None
    if match is None:
        raise ValueError(f"the header is not of a plain C-contiguous array of numbers: {header[:100]!r}")
    descr, shape = match.groups()
    return np.dtype(descr.decode()), tuple(int(n) for n in shape.split(b",") if n.strip())


def pack_arrays(arrays: Payload) -> ArrayRecord:
    """Return named arrays as Flower sends them."""
    return flower.filled(ArrayRecord(), {name: pack(array) for name, array in arrays.items()})


def unpack_arrays(record: ArrayRecord) -> dict[str, Array]:
    """Return the named arrays of a record, read-only."""
    return {name: unpack(packed) for name, packed in record.items()}


def array_keys(content: RecordDict) -> list[str]:
    """Return the keys of all records of arrays."""
    return [key for key, record in content.items() if isinstance(record, ArrayRecord)]


def replace_arrays(
    contents: Iterable[RecordDict],
    change: Callable[[ArrayRecord], ArrayRecord | ConfigRecord],
    keys_of: Callable[[RecordDict], Iterable[str]] = array_keys,
) -> None:
    """Replace records of arrays by the results of `change`, which is called once for a record that contents share."""
    made: dict[
        int, tuple[ArrayRecord, ArrayRecord | ConfigRecord]
    ] = {}  # by id; the first keeps its id from being used again
    for content in contents:
        for key in keys_of(content):
            record = content[key]
            assert isinstance(record, ArrayRecord)
            if id(record) not in made:
                made[id(record)] = record, change(record)
            content[key] = made[id(record)][1]
