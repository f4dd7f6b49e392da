"""The messages that the server sends, and a node's answer to the ready query.

| message | type | server sends | node answers |
|---|---|---|---|
| ready query | ``query.ready`` | round, attempt; SHA-256 of unsent arrays | partition id; ready or why not |
| unsent arrays | ``query.unsent`` | the same, and the arrays, once to a node that lacks them | as to a ready query |
| training | ``train`` | state, Flower's config, instruction; parcels | state, metrics, report; parcels |
| evaluation | ``evaluate`` | state, Flower's config; whether to measure more | metrics |
| evaluation | ``evaluate.on_test_set`` | state, Flower's config | metrics of the node's own state |
| question | ``query.feature`` | a feature's name, round, attempt, what else the feature says | what it answers |
| round over | ``query.round_over`` | round, attempt, why | no records |

The reports are in `fedlearn.wire.report_records`, the keys of the records in `fedlearn.wire.content_records`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict

from fedlearn import flower
from fedlearn.core.cohort import At, Instruction
from fedlearn.core.errors import Refused, said
from fedlearn.core.state import State
from fedlearn.wire.arrays import pack_arrays, unpack_arrays
from fedlearn.wire.content_records import (
    ARRAYS,
    BESIDE,
    CLIP,
    CONFIG,
    DOWNLINK,
    EFFORT,
    FEATURE,
    INSTRUCTION,
    PARCELS,
    QUESTION,
    READY_QUERY,
    ROUND_OVER,
    SECURE,
    SERVER_ROUND,
    UNSENT,
    UNSENT_ARRAYS,
    WORK,
    config_in,
    state_record,
)

LONGEST_NAME = 64  # characters of the name of an anchor; ours have a third


def ready_query(
    node_id: int, *, round_number: int, attempt: int, ttl: float, unsent: str = "", arrays: State | None = None
) -> Message:
    """Return the message that asks a node whether it is ready; it expires after `ttl` seconds, the selection window.

    Parameters
    ----------
    unsent
        The SHA-256 of the arrays that no training message brings; empty if the node need not have any.
    arrays
        These arrays, for a node that lacks them.
    """
    about = {"round_number": round_number, "attempt": attempt, **({UNSENT: unsent} if unsent else {})}
    records: dict[str, flower.Record] = {CONFIG: flower.filled(ConfigRecord(), about)}
    if arrays is None:
        return flower.message_to(flower.filled(RecordDict(), records), node_id, READY_QUERY, ttl=ttl)
    records[ARRAYS] = pack_arrays(arrays)
    return flower.message_to(flower.filled(RecordDict(), records), node_id, UNSENT_ARRAYS, ttl=ttl)


def wanted_unsent(content: Mapping[str, flower.Record]) -> str:
    """Return the SHA-256 of the unsent arrays that a ready query asks for; empty if it asks for none."""
    return str(read_config(content).get(UNSENT, ""))


def ready_answer(
    query: Message, *, partition_id: int, why_not: str = "", keys: bytes = b"", anchor: str = ""
) -> Message:
    """Return a node's answer to a ready query: that the node is ready, or why it is not.

    Parameters
    ----------
    keys
        The node's keys for a secure sum; empty without one.
    anchor
        The name of the anchor that the node keeps; empty without one.
    """
    said: dict[str, int | str | bytes] = {"partition_id": partition_id, "why_not": why_not}
    said |= ({"keys": keys} if keys else {}) | ({"anchor": anchor} if anchor else {})
    return Message(flower.filled(RecordDict(), {CONFIG: flower.filled(ConfigRecord(), said)}), reply_to=query)


def read_ready_answer(reply: Message) -> tuple[int, str]:
    """Return (partition id, why not ready or ""); an error or a malformed answer means that the node is not ready.

    The partition id is -1 where the answer does not name it.
    """
    if reply.has_error():
        return -1, said(reply.error.reason or "") or "no reason given"
    try:
        answer = reply.content[CONFIG]
        partition_id, why_not = answer["partition_id"], answer["why_not"]
    except (KeyError, TypeError):
        return -1, "malformed answer"
    if type(partition_id) is not int or partition_id < 0 or type(why_not) is not str:
        return -1, "malformed answer"
    return partition_id, said(why_not)


def read_keys(reply: Message) -> bytes:
    """Return the keys in the answer of a node that is ready; empty where it has sent none."""
    keys = reply.content[CONFIG].get("keys", b"")
    return keys if isinstance(keys, bytes) else b""


def read_anchor(reply: Message) -> str:
    """Return the name of the anchor that a ready node says it keeps; empty where it has said none."""
    anchor = reply.content[CONFIG].get("anchor", "")
    return anchor if isinstance(anchor, str) and len(anchor) <= LONGEST_NAME else ""


def round_over(node_id: int, *, round_number: int, attempt: int, why: str, ttl: float) -> Message:
    """Return the notice that a round is over for a node: cancelled, rejected, late, refused, or abandoned."""
    notice = flower.filled(ConfigRecord(), {"round_number": round_number, "attempt": attempt, "why": why})
    return flower.message_to(flower.filled(RecordDict(), {CONFIG: notice}), node_id, ROUND_OVER, ttl=ttl)


def with_instruction(message: Message, instruction: Instruction, *, ttl: float) -> Message:
    """Return a strategy's message with the instruction beside the strategy's records."""
    ours = {INSTRUCTION: flower.filled(ConfigRecord(), instruction._asdict())}
    content = flower.filled(RecordDict(), flower.entries_of(message.content) | ours)
    return flower.message_to(content, message.metadata.dst_node_id, message.metadata.message_type, ttl=ttl)


def evaluation(
    node_id: int,
    state: ArrayRecord,
    *,
    round_number: int,
    ttl: float,
    on: str = MessageType.EVALUATE,
    beside: bool = False,
) -> Message:
    """Return the message that asks a node to evaluate a state: on its own examples, or by another type of message.

    Parameters
    ----------
    beside
        Whether to measure what ``evaluation.beside`` names, too.
    """
    about: dict[str, Any] = {SERVER_ROUND: round_number, **({BESIDE: True} if beside else {})}
    config = flower.filled(ConfigRecord(), about)
    return Message(RecordDict({ARRAYS: state, CONFIG: config}), node_id, on, ttl=ttl)


def is_beside(content: Mapping[str, flower.Record]) -> bool:
    """Return whether a node is asked to measure what ``evaluation.beside`` names, too."""
    return bool(read_config(content).get(BESIDE, False))


def question(node_id: int, feature: str, at: At, said: Mapping[str, State], *, ttl: float) -> Message:
    """Return the message that asks the part of a feature at a node something of its own, with parcels of arrays."""
    about = flower.filled(ConfigRecord(), {FEATURE: feature, **at._asdict()})
    content = flower.filled(RecordDict(), {CONFIG: about, **packed_parcels(said)})
    return flower.message_to(content, node_id, QUESTION, ttl=ttl)


def packed_parcels(parcels: Mapping[str, State]) -> dict[str, flower.Record]:
    """Return named parcels of arrays as records."""
    return {name: pack_arrays(arrays) for name, arrays in parcels.items()}


def parcels_in(content: Mapping[str, flower.Record]) -> dict[str, State]:
    """Return the parcels of a question or an answer: all its records of arrays."""
    return {name: unpack_arrays(each) for name, each in content.items() if isinstance(each, ArrayRecord)}


def asked_feature(content: Mapping[str, flower.Record]) -> str:
    """Return the name of the feature that a question is for."""
    return str(read_config(content).get(FEATURE, ""))


def with_ttl(message: Message, ttl: float) -> Message:
    """Return the same message, which expires after `ttl` seconds."""
    return flower.message_to(message.content, message.metadata.dst_node_id, message.metadata.message_type, ttl=ttl)


def with_most_examples(message: Message, most: int) -> Message:
    """Return the same message, whose node looks at `most` examples at most, over all passes."""
    content = flower.filled(message.content.copy(), {WORK: flower.filled(ConfigRecord(), {"most_examples": most})})
    return Message(content, message.metadata.dst_node_id, message.metadata.message_type, ttl=message.metadata.ttl)


def most_examples(content: Mapping[str, flower.Record]) -> int | None:
    """Return how many examples a node may look at, over all passes; None without a limit."""
    record = config_in(content, WORK)
    return None if record is None else int(record["most_examples"])  # type: ignore[arg-type]


def read_instruction(content: Mapping[str, flower.Record]) -> Instruction:
    """Return a message's instruction; under Flower's own ``Strategy.start`` only the round number is known."""
    record = config_in(content, INSTRUCTION)
    if record is not None:
        return Instruction(**{name: int(value) for name, value in record.items()})  # type: ignore[arg-type]
    config = read_config(content)
    return Instruction(round_number=int(config.get(SERVER_ROUND, 1)), attempt=1, position=0)  # type: ignore[arg-type]


def read_config(content: Mapping[str, flower.Record]) -> ConfigRecord:
    """Return the strategy's own settings for this round, as FedProx's ``proximal-mu``; empty if there are none."""
    ours = (INSTRUCTION, PARCELS, WORK, SECURE, DOWNLINK)
    others = (record for key, record in content.items() if key not in ours and isinstance(record, ConfigRecord))
    return next(others, ConfigRecord())


def tell(content: RecordDict, told: Mapping[str, float]) -> None:
    """Put further settings of a round beside those of the strategy."""
    ours = (INSTRUCTION, PARCELS, WORK, SECURE, DOWNLINK)
    keys = [key for key, each in content.items() if key not in ours and isinstance(each, ConfigRecord)]
    key = keys[0] if keys else CONFIG
    flower.filled(content, {key: ConfigRecord({**read_config(content), **told})})


def read_effort(content: Mapping[str, flower.Record]) -> float:
    """Return the multiplications that an example takes, relative to those of the whole model."""
    return float(read_config(content).get(EFFORT, 1.0))  # type: ignore[arg-type]


def read_clip(content: Mapping[str, flower.Record]) -> float:
    """Return the clipping norm of a round, which its instruction brings where it follows a quantile.

    Raises
    ------
    Refused
        If there is none, or it is not finite and above 0.
    """
    value = read_config(content).get(CLIP)
    if not (isinstance(value, float) and 0 < value < math.inf):
        raise Refused("undecodable", "the instruction has no clipping norm")
    return value


_last_state: tuple[ArrayRecord, State] | None = None


def read_state(content: RecordDict) -> State:
    """Return the state that a message brings.

    An engine hands the very same record to all nodes of a round that run in one process; the record is parsed once.
    """
    global _last_state
    record = state_record(content)
    if _last_state is None or _last_state[0] is not record:
        _last_state = (record, unpack_arrays(record))
    return _last_state[1]
