"""The messages of secure sums: what nodes and server say to one another besides the masked report.

| message | type | server sends | node answers |
|---|---|---|---|
| shares | ``query.shares`` | the roster of the cohort | envelopes for its neighbors |
| survivors | ``query.survivors`` | who has reported | signature of this set |
| unmasking | ``query.unmasking`` | the signatures | shares of its neighbors |

A node's keys come with its ready answer, and the envelopes for a node with its training message.
"""

from __future__ import annotations

from collections.abc import Mapping

from flwr.app import ConfigRecord, Message, RecordDict

from fedlearn import flower
from fedlearn.core.cohort import At
from fedlearn.core.errors import Refused
from fedlearn.wire.content_records import CONFIG, SECURE, config_in

SHARES = "query.shares"
SURVIVORS = "query.survivors"
UNMASKING = "query.unmasking"

ANSWER = "answer"  # what a node says is one message


def secure_query(node_id: int, kind: str, at: At, said: Mapping[str, bytes], *, ttl: float) -> Message:
    """Return one of the messages above; it expires after `ttl` seconds."""
    records = {CONFIG: flower.filled(ConfigRecord(), at._asdict()), SECURE: secure_record(said)}
    return flower.message_to(flower.filled(RecordDict(), records), node_id, kind, ttl=ttl)


def secure_answer(query: Message, said: bytes) -> Message:
    """Return a node's answer to one of them."""
    return Message(flower.filled(RecordDict(), {SECURE: secure_record({ANSWER: said})}), reply_to=query)


def secure_record(said: Mapping[str, bytes]) -> ConfigRecord:
    """Return what is said beside the records of another message."""
    return flower.filled(ConfigRecord(), dict(said))


def read_secure(content: RecordDict) -> dict[str, bytes]:
    """Return what is said beside the records of a message; empty where nothing is."""
    record = config_in(content, SECURE)
    return {} if record is None else {name: value for name, value in record.items() if isinstance(value, bytes)}


def read_at(content: RecordDict) -> At:
    """Return the attempt that one of the messages above is about.

    Raises
    ------
    Refused
        If it names none.
    """
    record = config_in(content, CONFIG)
    numbers = [] if record is None else [record.get(name) for name in At._fields]
    if not numbers or not all(type(number) is int and number >= 0 for number in numbers):
        raise Refused("undecodable", "a message of the secure sum names no round and attempt")
    return At(*numbers)  # type: ignore[arg-type]
