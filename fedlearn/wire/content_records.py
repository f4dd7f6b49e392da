"""The records of a message's content: the keys under which they lie, and how each is found.

This is the only place where record keys are spelled. Arrays travel in parcels, an ArrayRecord each. The state's has
Flower's own key, "arrays"; a plain Flower strategy may give it another one, as long as there are no others. Every
other parcel of a strategy goes under the parcel's own name, and a record `PARCELS` says which parcels the strategy
wants back, each with the codec by which it is to travel.
"""

from __future__ import annotations

from collections.abc import Mapping

from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from fedlearn import flower
from fedlearn.core.errors import Refused

READY_QUERY = "query.ready"
ROUND_OVER = "query.round_over"
UNSENT_ARRAYS = "query.unsent"
QUESTION = "query.feature"

ARRAYS = "arrays"  # Flower's own default keys, so that Flower's strategies find the records
CONFIG = "config"
METRICS = "metrics"
INSTRUCTION = "instruction"
REPORT = "report"
NUM_EXAMPLES = "num-examples"
SERVER_ROUND = "server-round"
BESIDE = "beside"  # in the config of an evaluation
CLIP = "clip"  # among the settings of a training message, where the clipping norm of nodes changes from round to round
EFFORT = "effort"  # among them too: multiplications for an example, relative to those of the whole model; 1 without it
FEATURE = "feature"  # in the config of a question
CHECKSUM = "checksum"
PARCELS = "parcels"
ANCHOR = "anchor"  # the arrays of an anchor (`fedlearn.compression.anchor`), for a node that has an older one
DOWNLINK = "downlink"  # says to which anchor the state is a correction
SECURE = "secure"
SECRETS = "secrets"  # in a node's memory alone: no message and no run folder ever holds it
UNSENT = "unsent"  # in a ready query: the SHA-256 of the arrays that no training message brings
WORK = "work"  # limits a simulated device to the work that it has time for; no server sends it

RECORDS = frozenset({ARRAYS, CONFIG, METRICS, INSTRUCTION, REPORT, PARCELS, WORK, SECURE, ANCHOR, DOWNLINK})
"""Keys of fedlearn's own records, which no parcel beside the state may have as its name."""


def only(content: RecordDict, kind: type[flower.R]) -> flower.R:
    """Return the only record of a kind, whose key a plain Flower strategy chooses."""
    records = flower.records_of(content, kind)
    if len(records) != 1:
        raise Refused("undecodable", f"expected one {kind.__name__}, found {len(records)}")
    return records[0]


def state_key(content: RecordDict) -> str:
    """Return the key of the state: that of the only record of arrays, or Flower's own key among several.

    Raises
    ------
    Refused
        If there is no record of arrays, or there are several without Flower's key.
    """
    records = flower.entries_of(content)
    if isinstance(records.get(ARRAYS), ArrayRecord):
        return ARRAYS
    keys = [key for key, record in records.items() if isinstance(record, ArrayRecord) and key != ANCHOR]
    if len(keys) == 1:
        return keys[0]
    raise Refused("undecodable", f"expected one ArrayRecord, or one named {ARRAYS!r} among several; found {len(keys)}")


def state_record(content: RecordDict) -> ArrayRecord:
    """Return the parcel of the state; raise Refused as `state_key` does."""
    record: ArrayRecord = flower.entries_of(content)[state_key(content)]
    return record


def parcels_of(content: RecordDict) -> dict[str, ArrayRecord]:
    """Return all parcels but the state's, by name."""
    state = state_key(content)
    records = flower.entries_of(content)
    return {
        name: each for name, each in records.items() if isinstance(each, ArrayRecord) and name not in (state, ANCHOR)
    }


def put_aside(content: RecordDict) -> dict[str, flower.Record]:
    """Remove, and return, the records that a plain Flower App lacks: instruction and parcels."""
    ours = [key for key in (INSTRUCTION, PARCELS, WORK, SECURE, ANCHOR, DOWNLINK) if key in content]
    return {key: content.pop(key) for key in (*ours, *parcels_of(content))}


def wanted_parcels(content: RecordDict) -> dict[str, str]:
    """Return the parcels that a report must hold beside the state: name -> codec."""
    record = config_in(content, PARCELS)
    return {} if record is None else {name: str(codec) for name, codec in record.items()}


def parcels_record(codecs: Mapping[str, str]) -> ConfigRecord:
    """Return the record that asks for parcels: name -> codec."""
    return flower.filled(ConfigRecord(), codecs)


def config_in(content: Mapping[str, flower.Record], key: str) -> ConfigRecord | None:
    """Return the ConfigRecord under a key; None where the content has none there."""
    record = content.get(key)
    return record if isinstance(record, ConfigRecord) else None
