"""Boxes: records as the bytes of one value, as Flower sends each record, each array and each part of one by requests.

Over a network a record of arrays goes into a box of its own, which all messages that hold it share, and the records of
a reply into one together. A small box is one value of a ConfigRecord, one request; a larger one is an array, which
Flower sends in parts.
"""

from __future__ import annotations

from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from fedlearn import flower
from fedlearn.errors import Refused
from fedlearn.wire.arrays import replace_arrays

BOX = "fedlearn.box"  # what the one value of a box is called
SMALL = 2**20  # bytes that a box may hold to be one value


def boxed(record: ArrayRecord) -> ArrayRecord | ConfigRecord:
    """Return a record of one value that holds the bytes of another record."""
    data = flower.to_bytes({BOX: record})
    if len(data) <= SMALL:
        return _small(data)
    return flower.filled(ArrayRecord(), {BOX: flower.array_of("uint8", (len(data),), BOX, data)})


def box(content: RecordDict) -> None:
    """Put all records into one box, if it is small, else each record of arrays into its own."""
    data = flower.to_bytes(content)
    if len(data) > SMALL:
        replace_arrays([content], boxed)
        return
    content.clear()
    content[BOX] = _small(data)


def unbox(content: RecordDict) -> bool:
    """Take records out of their boxes; return whether there was one.

    Raises
    ------
    Refused
        If a box holds something else.
    """
    boxes = {key: data for key, record in content.items() if (data := _in_box(record)) is not None}
    for key, data in boxes.items():
        records = _opened(key, data)
        if list(content) == [BOX]:
            del content[BOX]
            content.update(records)
        else:
            content[key] = _arrays(key, records)
    return bool(boxes)


def _arrays(key: str, records: RecordDict) -> ArrayRecord:
    kinds = [type(record).__name__ for record in records.values()]
    if kinds != [ArrayRecord.__name__]:
        raise Refused(
            "undecodable", f"the box {key!r} holds {', '.join(kinds)[:200] or 'nothing'}, expected an ArrayRecord"
        )
    (record,) = records.values()
    assert isinstance(record, ArrayRecord)
    return record


def _small(data: bytes) -> ConfigRecord:
    return flower.filled(ConfigRecord(), {BOX: data})


def _in_box(record: object) -> bytes | None:
    """Return the bytes in a box; None of a record that is none."""
    if not isinstance(record, ArrayRecord | ConfigRecord) or list(record) != [BOX]:
        return None
    if isinstance(record, ArrayRecord):
        return record[BOX].data if record[BOX].stype == BOX else None
    data = record[BOX]
    return data if isinstance(data, bytes) else None


def _opened(key: str, data: bytes) -> RecordDict:
    try:
        return flower.from_bytes(data)
    except Exception as error:  # whatever parsing the bytes of a stranger brings
        raise Refused("undecodable", f"the box {key!r} does not open: {error!r}"[:300]) from None
