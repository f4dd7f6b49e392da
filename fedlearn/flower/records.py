"""Records of Flower: made without its checks, serialised, measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from flwr.common.serde import recorddict_to_proto  # what the wire carries
from flwr.proto.recorddict_pb2 import Array as ProtoArray
from flwr.proto.recorddict_pb2 import RecordDict as ProtoRecordDict

Record = ArrayRecord | MetricRecord | ConfigRecord
R = TypeVar("R", ArrayRecord, MetricRecord, ConfigRecord)
F = TypeVar("F", ArrayRecord, MetricRecord, ConfigRecord, RecordDict)


def records_of(content: RecordDict, kind: type[R]) -> list[R]:
    """Return the records of one kind.

    Not ``content.array_records``: Flower makes a table for that which refers to itself and to the content, so that a
    report's arrays stay in memory until Python happens to look for cycles, some hundred MB later.
    """
    return [record for record in entries_of(content).values() if isinstance(record, kind)]


def array_of(dtype: str, shape: tuple[int, ...], stype: str, data: bytes) -> Array:
    """Return ``Array(dtype, shape, stype, data)``; the constructor itself takes five times as long."""
    array = Array.__new__(Array)
    array.__dict__.update(dtype=dtype, shape=shape, stype=stype, data=data, _is_dirty=True)
    return array


def filled(record: F, entries: Mapping[str, object]) -> F:
    """Put entries into an empty record. Only for those of our own making: set one by one, each would be checked."""
    record.__dict__["_data"].update(entries)
    return record


def entries_of(record: Record | RecordDict) -> dict[str, Any]:
    """Return the entries of a record, or the records of a content, to be read: its own methods take as long again."""
    entries: dict[str, Any] = record.__dict__["_data"]
    return entries


def to_bytes(records: Mapping[str, Record]) -> bytes:
    """Return records as Flower's transport writes them; any mapping will do, a RecordDict checks every entry anew."""
    data: bytes = recorddict_to_proto(records).SerializeToString()  # type: ignore[arg-type]
    return data


def from_bytes(data: bytes) -> RecordDict:
    """Return the records that `to_bytes` wrote; Protocol Buffers hold no other kinds of entries than Flower does."""
    records: dict[str, Record] = {}
    for item in ProtoRecordDict.FromString(data).items:
        match item.WhichOneof("value"):
            case "array_record":
                arrays = {each.key: _array(each.value) for each in item.array_record.items}
                records[item.key] = filled(ArrayRecord(), arrays)
            case "metric_record":
                records[item.key] = filled(MetricRecord(), _values(item.metric_record.items))
            case "config_record":
                records[item.key] = filled(ConfigRecord(), _values(item.config_record.items))
            case other:
                raise ValueError(f"{item.key} is no record: {other}")
    return filled(RecordDict(), records)


def _array(packed: ProtoArray) -> Array:
    return array_of(packed.dtype, tuple(packed.shape), packed.stype, packed.data)


def _values(items: Iterable[Any]) -> dict[str, object]:
    """Return the entries of a record of numbers, texts and lists of them."""
    entries = {}
    for item in items:
        kind = item.value.WhichOneof("value")
        value = getattr(item.value, kind)
        entries[item.key] = list(value.vals) if kind.endswith("list") else value
    return entries


def size_in_bytes(key: str, record: Record) -> int:
    """Return by how much one record makes `to_bytes` longer, without copying any array.

    Protocol Buffers write a nested message as one byte of tag, its length as a varint, and itself; an array's bytes
    are such a field of their Array message. A test holds the sum equal to the length of the bytes themselves. A run
    measures thousands of records whose entries are named, and as long, as those before: these sizes are kept.
    """
    entries = 0
    if isinstance(record, ArrayRecord):
        for name, array in entries_of(record).items():
            length = len(array.data) if array.data else 0
            entries += _array_entry(name, array.dtype, array.shape, array.stype, length)
        return _entry(key, entries)
    is_metric = isinstance(record, MetricRecord)
    for name, value in entries_of(record).items():
        size = 9 if type(value) is float else _value_size(value, is_metric)
        if not size:
            whole: int = recorddict_to_proto({key: record}).ByteSize()  # type: ignore[arg-type]
            return whole
        entries += _item(len(name) if name.isascii() else len(name.encode()), size)
    return _entry(key, entries)


def _entry(name: str, size: int) -> int:
    """Return the size of an item of this name whose value has this size."""
    return _item(len(name) if name.isascii() else len(name.encode()), size)


@lru_cache(maxsize=4096)  # a cohort's reports are alike
def _item(name: int, size: int) -> int:
    return _field(_field(name) + _field(size)) if name else _field(_field(size))


LONGEST_KEPT = 64  # letters and dimensions: what a stranger sends may be of any length


def _array_entry(name: str, dtype: str, shape: tuple[int, ...], stype: str, length: int) -> int:
    is_short = len(name) + len(dtype) + len(shape) + len(stype) <= LONGEST_KEPT
    return (_kept_array_entry if is_short else _kept_array_entry.__wrapped__)(name, dtype, shape, stype, length)


@lru_cache(maxsize=4096)
def _kept_array_entry(name: str, dtype: str, shape: tuple[int, ...], stype: str, length: int) -> int:
    about: int = ProtoArray(dtype=dtype, shape=shape, stype=stype).ByteSize()
    return _entry(name, about + (_field(length) if length else 0))


def _value_size(value: object, is_metric: bool) -> int:
    """Return the size of a single value; 0 of a list, and of what cannot be sent, which Flower is left to refuse."""
    if type(value) is int and -(2**63) <= value < 2**63:
        return 1 + _varint(2 * value if value >= 0 else -2 * value - 1)
    if is_metric:
        return 0
    if type(value) is bool:
        return 2
    if type(value) is str:
        return _field(len(value.encode()))
    return _field(len(value)) if type(value) is bytes else 0


def _field(length: int) -> int:
    """Return the size of a field of this length: tag, varint, content."""
    return 1 + _varint(length) + length


def _varint(number: int) -> int:
    """Return how many bytes a number from 0 on takes, seven bits in each."""
    return (number.bit_length() + 6) // 7 or 1
