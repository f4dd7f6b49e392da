"""The messages that the server sends, and a node's answer to the ready query.

| message | type | server sends | node answers |
|---|---|---|---|
| ready query | ``query.ready`` | round, attempt | partition id; ready or why not |
| training | ``train`` | state, Flower's config, instruction; parcels | state, metrics, report; parcels |
| evaluation | ``evaluate`` | state, Flower's config | metrics |
| round over | ``query.round_over`` | round, attempt, why | nothing |

The reports are in `fedlearn.wire.reports`, the keys of the records in `fedlearn.wire.records`.
"""

from __future__ import annotations

from collections.abc import Mapping

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict

from fedlearn import flower
from fedlearn.wire.arrays import unpack_arrays
from fedlearn.wire.records import (
    ARRAYS,
    CONFIG,
    INSTRUCTION,
    PARCELS,
    READY_QUERY,
    ROUND_OVER,
    SERVER_ROUND,
    WORK,
    config_in,
    state_record,
)
from fedlearn.words.cohort import Instruction
from fedlearn.words.errors import said
from fedlearn.words.state import State


def ready_query(node_id: int, *, round_number: int, attempt: int, ttl: float) -> Message:
    """Ask a node whether it is ready; the question expires with the selection window."""
    asked = flower.filled(ConfigRecord(), {"round_number": round_number, "attempt": attempt})
    return flower.message_to(flower.filled(RecordDict(), {CONFIG: asked}), node_id, READY_QUERY, ttl=ttl)


def ready_answer(query: Message, *, partition_id: int, why_not: str = "") -> Message:
    """Say that this node is ready, or why it is not."""
    answer = flower.filled(ConfigRecord(), {"partition_id": partition_id, "why_not": why_not})
    return Message(flower.filled(RecordDict(), {CONFIG: answer}), reply_to=query)


def read_ready_answer(reply: Message) -> tuple[int, str]:
    """Return (partition id, why not ready or ""); an error or a malformed answer is a node that is not ready.

    The partition id is -1 where the answer does not say it.
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


def round_over(node_id: int, *, round_number: int, attempt: int, why: str, ttl: float) -> Message:
    """Tell a node that a round is over for it: cancelled, rejected, late, refused, or abandoned."""
    told = flower.filled(ConfigRecord(), {"round_number": round_number, "attempt": attempt, "why": why})
    return flower.message_to(flower.filled(RecordDict(), {CONFIG: told}), node_id, ROUND_OVER, ttl=ttl)


def with_instruction(message: Message, instruction: Instruction, *, ttl: float) -> Message:
    """Return the strategy's message with our instruction beside its records."""
    ours = {INSTRUCTION: flower.filled(ConfigRecord(), instruction._asdict())}
    content = flower.filled(RecordDict(), flower.entries_of(message.content) | ours)
    return flower.message_to(content, message.metadata.dst_node_id, message.metadata.message_type, ttl=ttl)


def evaluation(node_id: int, state: ArrayRecord, *, round_number: int, ttl: float) -> Message:
    """Ask a node to measure a state on examples of its own."""
    told = flower.filled(ConfigRecord(), {SERVER_ROUND: round_number})
    return Message(RecordDict({ARRAYS: state, CONFIG: told}), node_id, MessageType.EVALUATE, ttl=ttl)


def with_ttl(message: Message, ttl: float) -> Message:
    """Return a message that is over after `ttl` seconds."""
    return flower.message_to(message.content, message.metadata.dst_node_id, message.metadata.message_type, ttl=ttl)


def with_most_examples(message: Message, most: int) -> Message:
    """Return a message whose node looks at no more than so many examples, over all passes."""
    content = flower.filled(message.content.copy(), {WORK: flower.filled(ConfigRecord(), {"most_examples": most})})
    return Message(content, message.metadata.dst_node_id, message.metadata.message_type, ttl=message.metadata.ttl)


def most_examples(content: Mapping[str, flower.Record]) -> int | None:
    """Return how many examples a node may look at, over all passes; None where nothing limits it."""
    record = config_in(content, WORK)
    return None if record is None else int(record["most_examples"])  # type: ignore[arg-type]


def read_instruction(content: Mapping[str, flower.Record]) -> Instruction:
    """Return the instruction; under Flower's own ``Strategy.start`` there is only the round number."""
    record = config_in(content, INSTRUCTION)
    if record is not None:
        return Instruction(**{name: int(value) for name, value in record.items()})  # type: ignore[arg-type]
    config = read_config(content)
    return Instruction(round_number=int(config.get(SERVER_ROUND, 1)), attempt=1, position=0)  # type: ignore[arg-type]


def read_config(content: Mapping[str, flower.Record]) -> ConfigRecord:
    """Return the strategy's own settings for this round, as FedProx's ``proximal-mu``."""
    ours = (INSTRUCTION, PARCELS, WORK)
    others = (record for key, record in content.items() if key not in ours and isinstance(record, ConfigRecord))
    return next(others, ConfigRecord())


_last_state: tuple[ArrayRecord, State] | None = None


def read_state(content: RecordDict) -> State:
    """Return the state that a message brings.

    The engines hand the very same record to all nodes of a round that they run in one process: it is parsed once.
    """
    global _last_state
    record = state_record(content)
    if _last_state is None or _last_state[0] is not record:
        _last_state = (record, unpack_arrays(record))
    return _last_state[1]
