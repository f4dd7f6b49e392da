"""Ways to spoil what a node sends: bytes, headers, names, dtypes, shapes, counts, positions, nesting.

Every way is a function of a `random.Random` alone, so a seed names a mutation for ever. What comes out is what a
stranger could have sent: records as Flower's transport can write them, whatever stands in them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from contextlib import suppress

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from fedlearn import flower, wire
from fedlearn.core.errors import Refused

WHOLE = [0, 1, 2, 7, 8, 63, 127, 128, 255, 256, 2**15, 2**16, 2**31 - 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1]
NUMBERS = [*WHOLE, *(-n for n in WHOLE), -(2**63)]
FLOATS = [0.0, -0.0, 0.5, 1.0, -1.0, 5e-324, 3.4e38, -3.4e38, 1e39, 1e308, -1e308, math.nan, math.inf, -math.inf]
TEXTS = ["", " ", "w", "arrays", "report", "numpy.ndarray", "float32", "x" * 5000, "a\nb", "\x1b]0;x\x07", "é" * 300]
DTYPES = ["float32", "float64", "float16", "int64", "int32", "int8", "uint8", "uint64", "bool", ">f4", "complex64"]
HEADER_WORDS = [
    b"(-1,)", b"(2, -3)", b"(9223372036854775807,)", b"(99999999999999999999,)", b"()", b"(0,)", b"(1,)", b"(3)",
    b"'<f4'", b"'>f4'", b"'<f8'", b"'|O'", b"'|S9'", b"'<U4'", b"'<M8[ns]'", b"'|u1'", b"'<i8'", b"[('a', '<f4')]",
    b"(" + b"1, " * 70 + b")", b"(4294967296, 4294967296)", b"(0, 9223372036854775807)", b"(1,)*9",
    b"__import__('os')", b"'<c8'", b"'|b1'", b"True",
]  # fmt: skip


def spoiled_bytes(data: bytes, rng: random.Random) -> bytes:
    """Return bytes with one change."""
    changed = bytearray(data)
    at = rng.randrange(len(changed) + 1)
    length = rng.choice([1, 2, 4, 8, rng.randint(1, 64)])
    way = rng.randrange(9)
    if way == 0 and changed:
        changed[at - 1] ^= 1 << rng.randrange(8)
    elif way == 1 and changed:
        changed[at - 1] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
    elif way == 2:
        del changed[at:]
    elif way == 3:
        del changed[at : at + length]
    elif way == 4:
        changed[at:at] = rng.randbytes(length)
    elif way == 5:
        changed[at : at + 8] = rng.choice(NUMBERS).to_bytes(9, "little", signed=True)[:8]
    elif way == 6:
        changed[at : at + length] = bytes(length)
    elif way == 7:
        changed += changed[-at:] if at else b"\0"
    else:
        changed[at : at + length] = rng.randbytes(length)
    return bytes(changed)


def spoiled_text(text: str, rng: random.Random) -> str:
    """Return another text."""
    at = rng.randrange(len(text) + 1)
    return rng.choice([*TEXTS, text + "x", text[:-1], text.upper(), text + "/0", text[:at] + "\u2028" + text[at:]])


# --- arrays -----------------------------------------------------------------------------------------------------------


def spoiled_array(packed: Array, rng: random.Random) -> Array:
    """Return an array with one change: of its values, its bytes, its header, or of what Flower says of it."""
    way = rng.randrange(8)
    if way < 4:
        with suppress(Refused):
            return _with_values(packed, rng)
    if way == 4:
        return _with_data(packed, spoiled_bytes(packed.data, rng))
    if way == 5:
        return _with_data(packed, _spoiled_header(packed.data, rng))
    if way == 6:
        return flower.array_of(rng.choice(DTYPES), packed.shape, packed.stype, packed.data)
    stype = rng.choice([packed.stype, *TEXTS, wire.boxes.BOX])
    shape = tuple(rng.choice(NUMBERS[: len(WHOLE)]) % 2**31 for _ in range(rng.randrange(4)))
    return flower.array_of(packed.dtype, shape, stype, packed.data)


def _with_data(packed: Array, data: bytes) -> Array:
    return flower.array_of(packed.dtype, packed.shape, packed.stype, data)


def _spoiled_header(data: bytes, rng: random.Random) -> bytes:
    """Return NumPy's format with another header: a word of it replaced, or bytes of it changed."""
    end = 10 + int.from_bytes(data[8:10], "little")
    header, body = data[10:end], data[end:]
    if rng.random() < 0.3:
        header = spoiled_bytes(header, rng)
    else:
        key = rng.choice([b"'shape': ", b"'descr': ", b"'fortran_order': "])
        before, found, after = header.partition(key)
        rest = after[after.find(b"), ") + 1 if key == b"'shape': " else after.find(b", ") :]
        header = before + found + rng.choice(HEADER_WORDS) + rest
    length = len(header) if rng.random() < 0.9 else rng.randrange(2**16)
    version = data[6:8] if rng.random() < 0.9 else bytes([rng.randrange(4), rng.randrange(2)])
    return b"\x93NUMPY" + version + (length % 2**16).to_bytes(2, "little") + header + body


def _with_values(packed: Array, rng: random.Random) -> Array:
    array = wire.arrays.unpack(packed)
    return wire.arrays.pack(np.asarray(rng.choice(ARRAY_CHANGES)(array, rng)))


def _one_entry(array: np.ndarray, rng: random.Random) -> np.ndarray:
    if not array.size:
        return array
    changed = array.copy()
    flat = changed.reshape(-1)
    at = rng.randrange(flat.size)
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            flat[at] = np.float64(rng.choice(FLOATS)).astype(array.dtype)
    elif array.dtype.kind in "iu":
        flat[at] = np.array(rng.choice(NUMBERS) % 2**64, np.uint64).astype(array.dtype)
    return changed


def _shifted(array: np.ndarray, rng: random.Random) -> np.ndarray:
    if array.dtype.kind not in "iuf":
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        return array + array.dtype.type(rng.choice([1, 2, 100]))


def _reshaped(array: np.ndarray, rng: random.Random) -> np.ndarray:
    shapes = [(-1,), (1, *array.shape), (*array.shape, 1), array.shape[::-1], (1,) * 20 + array.shape]
    return array.reshape(rng.choice(shapes))


def _cast(array: np.ndarray, rng: random.Random) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(rng.choice(DTYPES[:-1]))


ARRAY_CHANGES: list[Callable[[np.ndarray, random.Random], np.ndarray]] = [
    _one_entry,
    _one_entry,
    _one_entry,
    _shifted,
    _reshaped,
    _cast,
    lambda array, rng: array.reshape(-1)[: rng.randrange(array.size + 1)],
    lambda array, rng: np.concatenate([array.reshape(-1), array.reshape(-1)[: rng.randrange(1, 9)]]),
    lambda array, rng: np.concatenate([array, array]) if array.ndim else array,
    lambda array, rng: array.reshape(-1)[::-1].reshape(array.shape),
    lambda array, rng: np.sort(array.reshape(-1)).reshape(array.shape),
    lambda array, rng: np.full_like(array, array.reshape(-1)[0] if array.size else 0),
    lambda array, rng: np.zeros_like(array),
    lambda array, rng: np.frombuffer(rng.randbytes(array.nbytes), array.dtype).reshape(array.shape),
]


# --- records ----------------------------------------------------------------------------------------------------------


def spoiled_arrays(record: ArrayRecord, rng: random.Random) -> ArrayRecord:
    """Return a record of arrays with one change: of an array, a name, their number, or how deep they lie."""
    arrays = dict(record.items())
    name = rng.choice(list(arrays)) if arrays else ""
    way = rng.randrange(10)
    if way < 6 and arrays:
        arrays[name] = spoiled_array(arrays[name], rng)
    elif way == 6 and arrays:
        arrays[spoiled_text(name, rng)] = arrays.pop(name)
    elif way == 7 and arrays:
        del arrays[name]
    elif way == 8 and arrays:
        other = rng.choice(list(arrays))
        arrays[name], arrays[other] = arrays[other], arrays[name]
    elif rng.random() < 0.5:
        boxed = wire.boxed(record)
        return wire.boxed(boxed) if rng.random() < 0.5 else boxed
    else:
        arrays[rng.choice(TEXTS)] = wire.arrays.pack(np.zeros(rng.choice([0, 1, 40]), rng.choice(DTYPES)))
    return flower.filled(ArrayRecord(), arrays)


def spoiled_words(record: ConfigRecord | MetricRecord, rng: random.Random) -> ConfigRecord | MetricRecord:
    """Return a record of settings or metrics with one change: of a value, a name, or their number."""
    entries = dict(record.items())
    metrics = isinstance(record, MetricRecord)
    name = rng.choice(list(entries)) if entries else ""
    way = rng.randrange(8)
    if way < 4:
        entries[name] = _any_value(rng, numbers_only=metrics)
    elif way == 4 and type(entries.get(name)) is int:
        entries[name] = max(min(entries[name] + rng.choice([-1, 1, 2**20, -(2**20)]), 2**63 - 1), -(2**63))
    elif way == 5 and entries:
        del entries[name]
    elif way == 6 and entries:
        entries[spoiled_text(name, rng)] = entries.pop(name)
    else:
        entries |= {
            f"{rng.choice(TEXTS)}{i}": _any_value(rng, numbers_only=metrics) for i in range(rng.choice([1, 99]))
        }
    return flower.filled(type(record)(), entries)


def _any_value(rng: random.Random, *, numbers_only: bool) -> object:
    value = rng.choice([rng.choice(NUMBERS), rng.choice(FLOATS), [rng.choice(NUMBERS)] * 3, [rng.choice(FLOATS)], []])
    if numbers_only or rng.random() < 0.5:
        return value
    return rng.choice([True, False, rng.choice(TEXTS), rng.randbytes(8), [rng.choice(TEXTS)] * 2, [b"x"], [True]])


# --- whole messages ---------------------------------------------------------------------------------------------------


def spoiled(content: RecordDict, rng: random.Random) -> RecordDict:
    """Return a message's records with one to three changes; most have a checksum that fits them."""
    changed = RecordDict(dict(content.items()))
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        _change_record(changed, rng)
    if rng.random() < 0.85:
        with suppress(Exception):  # of what cannot be sealed any more
            changed[wire.REPORT] = flower.filled(ConfigRecord(), dict(wire.read_report(changed).items()))
            wire.seal(changed)
    return changed


def _change_record(content: RecordDict, rng: random.Random) -> None:
    keys = list(content)
    key = rng.choice(keys) if keys else "arrays"
    record = content.get(key)
    way = rng.randrange(20)
    if way < 16 and record is not None:
        is_arrays = isinstance(record, ArrayRecord)
        content[key] = spoiled_arrays(record, rng) if is_arrays else spoiled_words(record, rng)
    elif way == 16 and record is not None:
        del content[key]
    elif way == 17 and record is not None:
        content[spoiled_text(key, rng)] = content.pop(key)
    elif way == 18:
        content[key] = rng.choice([ArrayRecord, MetricRecord, ConfigRecord])()
    else:
        content[rng.choice(TEXTS)] = record if record is not None else ConfigRecord()
