"""Boxes: records packed into the bytes of one value, which saves requests over a network.

Flower sends each record, each array and each part of an array by a request of its own. Here a record of arrays goes
into a box of its own, which all messages with that record share; all other records of a message go into one box
together. A small box is one value of a ConfigRecord, one request; a larger box is an array, sent in parts by Flower.

A box begins with random bytes. Flower names an object by its SHA-256: without random bytes others could foretell the
name of a message, or test a guess of its content.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from fedlearn import flower
from fedlearn.core.errors import Refused
from fedlearn.wire.arrays import replace_arrays

BOX = "fedlearn.box"  # the name of the one value of a box
SMALL = 2**20  # bytes that a box may hold to be one value
NONCE = 8  # random bytes that a box begins with


def packed(records: Mapping[str, flower.Record]) -> bytes:
    """Return the bytes of a box with these records: a nonce, then the serialised records."""
    return os.urandom(NONCE) + flower.to_bytes(records)


def boxed(record: ArrayRecord) -> ArrayRecord | ConfigRecord:
    """Return a record of one value that holds the bytes of another record."""
    data = packed({BOX: record})
    if len(data) <= SMALL:
        return _small(data)
    return flower.filled(ArrayRecord(), {BOX: flower.array_of("uint8", (len(data),), BOX, data)})


def box(content: RecordDict) -> None:
    """Put all records into one box if that is small; else each record of arrays into its own, all others into one."""
    data = packed(content)
    if len(data) > SMALL:
        replace_arrays([content], boxed)
        box_rest(content)
        return
    content.clear()
    content[BOX] = _small(data)


def box_rest(content: RecordDict) -> None:
    """Put all records that are in no box into one box together."""
    rest = {key: record for key, record in content.items() if _in_box(record) is None}
    if rest:
        for key in rest:
            del content[key]
        content[BOX] = _small(packed(rest))


def unbox(content: RecordDict) -> bool:
    """Take records out of their boxes; return whether there was a box.

    Raises
    ------
    Refused
        If a box does not hold records.
    """
    boxes = {key: data for key, record in content.items() if (data := _in_box(record)) is not None}
    for key, data in boxes.items():
        records = _opened(key, data)
        if key == BOX:
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
    """Return the bytes in a box; None for a record that is not a box."""
    if not isinstance(record, ArrayRecord | ConfigRecord) or list(record) != [BOX]:
        return None
    if isinstance(record, ArrayRecord):
        return record[BOX].data if record[BOX].stype == BOX else None
    data = record[BOX]
    return data if isinstance(data, bytes) else None


def _opened(key: str, data: bytes) -> RecordDict:
    try:
        return flower.from_bytes(data[NONCE:])
    except Exception as error:  # any error that parsing foreign bytes can bring
        raise Refused("undecodable", f"the box {key!r} does not open: {error!r}"[:300]) from None
