"""Boxes: a record of arrays as one array that holds the bytes of all.

Over a network Flower sends every array by two requests of its own, so there a record of them goes into a box.
"""

from __future__ import annotations

from flwr.app import ArrayRecord, RecordDict

from fedlearn import flower
from fedlearn.errors import Refused

BOX = "fedlearn.box"  # what the one array of a box says that it is


def boxed(record: ArrayRecord) -> ArrayRecord:
    """Return a record of one array that holds the bytes of another record."""
    data = flower.to_bytes({BOX: record})
    return flower.filled(ArrayRecord(), {BOX: flower.array_of("uint8", (len(data),), BOX, data)})


def unbox(content: RecordDict) -> bool:
    """Take records of arrays out of their boxes; return whether there was one.

    Raises
    ------
    Refused
        If a box holds something else.
    """
    boxes = {key: record[BOX] for key, record in content.items() if isinstance(record, ArrayRecord) and _is_box(record)}
    for key, packed in boxes.items():
        try:
            (record,) = flower.from_bytes(packed.data).values()
        except Exception as error:  # whatever parsing the bytes of a stranger brings
            raise Refused("undecodable", f"the box {key!r} does not open: {error!r}"[:300]) from None
        if not isinstance(record, ArrayRecord):
            raise Refused("undecodable", f"the box {key!r} holds a {type(record).__name__}, expected an ArrayRecord")
        content[key] = record
    return bool(boxes)


def _is_box(record: ArrayRecord) -> bool:
    return list(record) == [BOX] and record[BOX].stype == BOX
