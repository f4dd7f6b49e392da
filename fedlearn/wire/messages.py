"""The messages between server and nodes; the only place where record keys are spelled.

| message | type | server sends | node answers |
|---|---|---|---|
| ready query | ``query.ready`` | round, attempt | partition id; ready or why not |
| training | ``train`` | state, Flower's config, instruction; parcels | state, metrics, report; parcels |
| evaluation | ``evaluate`` | state, Flower's config | metrics |
| round over | ``query.round_over`` | round, attempt, why | nothing |

Arrays travel in parcels, an ArrayRecord each. The state's has Flower's own key, "arrays"; a plain Flower strategy may
give it another one, as long as there are no others. Whatever else a strategy sends goes under the parcel's own name,
and a record `PARCELS` says which parcels it wants back, each with the codec by which they are to travel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from xxhash import xxh3_64

from fedlearn import flower
from fedlearn.compression import Codec
from fedlearn.wire.arrays import pack_arrays, unpack_arrays
from fedlearn.words.cohort import Instruction
from fedlearn.words.errors import Refused, said
from fedlearn.words.metrics import TRAIN_LOSS
from fedlearn.words.state import Layout, State, Update

READY_QUERY = "query.ready"
ROUND_OVER = "query.round_over"

ARRAYS = "arrays"  # Flower's own default keys, so that its strategies find them
CONFIG = "config"
METRICS = "metrics"
INSTRUCTION = "instruction"
REPORT = "report"
NUM_EXAMPLES = "num-examples"
SERVER_ROUND = "server-round"
CHECKSUM = "checksum"
PARCELS = "parcels"
WORK = "work"  # what a simulated device has time for; no server sends it

RECORDS = frozenset({ARRAYS, CONFIG, METRICS, INSTRUCTION, REPORT, PARCELS, WORK})
"""Records of our own messages; no name for a parcel beside the state."""


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


def only(content: RecordDict, kind: type[flower.R]) -> flower.R:
    """Return the only record of its kind: plain Flower strategies choose their own key for it."""
    records = flower.records_of(content, kind)
    if len(records) != 1:
        raise Refused("undecodable", f"expected one {kind.__name__}, found {len(records)}")
    return records[0]


def state_key(content: RecordDict) -> str:
    """Return the key of the state: that of the only record of arrays, or of several Flower's own.

    Raises
    ------
    Refused
        If there is none, or several and none of them has Flower's key.
    """
    records = flower.entries_of(content)
    if isinstance(records.get(ARRAYS), ArrayRecord):
        return ARRAYS
    keys = [key for key, record in records.items() if isinstance(record, ArrayRecord)]
    if len(keys) == 1:
        return keys[0]
    raise Refused("undecodable", f"expected one ArrayRecord, or one named {ARRAYS!r} among several; found {len(keys)}")


def state_record(content: RecordDict) -> ArrayRecord:
    """Return the parcel of the state; raises as `state_key` does."""
    record: ArrayRecord = flower.entries_of(content)[state_key(content)]
    return record


def parcels_of(content: RecordDict) -> dict[str, ArrayRecord]:
    """Return all parcels but the state's, by name."""
    state = state_key(content)
    records = flower.entries_of(content)
    return {name: each for name, each in records.items() if isinstance(each, ArrayRecord) and name != state}


def put_aside(content: RecordDict) -> dict[str, flower.Record]:
    """Remove, and return, the records that a plain Flower App lacks: instruction and parcels."""
    ours = [key for key in (INSTRUCTION, PARCELS, WORK) if key in content]
    return {key: content.pop(key) for key in (*ours, *parcels_of(content))}


def wanted_parcels(content: RecordDict) -> dict[str, str]:
    """Return which parcels a report is to bring beside the state, and the codec of each."""
    record = _config(content, PARCELS)
    return {} if record is None else {name: str(codec) for name, codec in record.items()}


def parcels_record(codecs: Mapping[str, str]) -> ConfigRecord:
    """Return the record that asks for parcels, each by its codec."""
    return flower.filled(ConfigRecord(), codecs)


def _config(content: Mapping[str, flower.Record], key: str) -> ConfigRecord | None:
    record = content.get(key)
    return record if isinstance(record, ConfigRecord) else None


# --- ready query and round over ---------------------------------------------------------------------------------------


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


# --- instruction and report -------------------------------------------------------------------------------------------


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
    record = _config(content, WORK)
    return None if record is None else int(record["most_examples"])  # type: ignore[arg-type]


def read_instruction(content: Mapping[str, flower.Record]) -> Instruction:
    """Return the instruction; under Flower's own ``Strategy.start`` there is only the round number."""
    record = _config(content, INSTRUCTION)
    if record is not None:
        return Instruction(**{name: int(value) for name, value in record.items()})  # type: ignore[arg-type]
    config = read_config(content)
    return Instruction(round_number=int(config.get(SERVER_ROUND, 1)), attempt=1, position=0)  # type: ignore[arg-type]


def read_config(content: Mapping[str, flower.Record]) -> ConfigRecord:
    """Return the strategy's own settings for this round, as FedProx's ``proximal-mu``."""
    ours = (INSTRUCTION, PARCELS, WORK)
    others = (record for key, record in content.items() if key not in ours and isinstance(record, ConfigRecord))
    return next(others, ConfigRecord())


def dense_report(
    message: Message,
    arrays: State,
    metrics: dict[str, float],
    num_examples: int,
    parcels: Mapping[str, State] = MappingProxyType({}),
) -> Message:
    """Return a plain Flower client's answer: arrays, metrics with the number of examples; and further parcels."""
    measured = MetricRecord({NUM_EXAMPLES: num_examples, **metrics})
    others = {name: pack_arrays(each) for name, each in parcels.items()}
    records = {ARRAYS: pack_arrays(arrays), METRICS: measured, **others}
    return Message(flower.filled(RecordDict(), records), reply_to=message)


def report_record(instruction: Instruction, *, partition_id: int, seed: int, sends: str) -> ConfigRecord:
    """Return the record that our server needs beside a plain Flower report."""
    return flower.filled(
        ConfigRecord(), instruction._asdict() | {"partition_id": partition_id, "seed": seed, "sends": sends}
    )


def seal(content: RecordDict) -> None:
    """Write a report's checksum into it, when all else is in place."""
    record = read_report(content)
    record[CHECKSUM] = checksum_of(content)


def check_seal(content: RecordDict) -> None:
    """Refuse a report whose arrays or metrics have changed on the way.

    A checksum finds what breaks by accident. Who wants to deceive writes a fitting one, and is met by the other checks.
    """
    claimed, found = read_report(content).get(CHECKSUM), checksum_of(content)
    if claimed != found:
        said = claimed.hex() if isinstance(claimed, bytes) else repr(claimed)
        raise Refused("wrong-checksum", f"the report says {said[:40]}, its bytes have {found.hex()}: they came damaged")


def checksum_of(content: RecordDict) -> bytes:
    """Return the XXH3 hash of a report's parcels and metrics, by their names, whatever their order; eight bytes."""
    checksum = xxh3_64()
    for parcel, record in [("", state_record(content)), *sorted(parcels_of(content).items())]:
        checksum.update(parcel.encode())
        for name, packed in sorted(flower.entries_of(record).items()):
            checksum.update(name.encode())
            checksum.update(packed.data)
    for name, value in sorted(only(content, MetricRecord).items()):
        checksum.update(f"{name}={value!r};".encode())
    return checksum.digest()


def read_num_examples(content: RecordDict) -> int:
    """Return the number of examples that a node claims; any whole number, not yet checked for its range."""
    metrics = only(content, MetricRecord)
    claimed = metrics.get(NUM_EXAMPLES)
    if type(claimed) is float and claimed.is_integer():
        return int(claimed)
    if type(claimed) is not int:
        raise Refused("wrong-count", f"{NUM_EXAMPLES} is {claimed!r}, expected a whole number")
    return claimed


def read_update(content: RecordDict, *, codec: Codec, layout: Layout) -> Update:
    """Return the entries that a node sent, by parameter.

    Raises
    ------
    Refused
        If the payload does not decode, or is none that the codec makes.
    """
    payload = unpack_arrays(state_record(content))
    return codec.decode(payload, layout=layout, seed=read_seed(content))


def read_seed(content: RecordDict) -> int:
    """Return the seed that a report's codec has used; 0 of a plain Flower report, which says none."""
    report = _config(content, REPORT)
    seed = 0 if report is None else report.get("seed")
    if type(seed) is not int or seed < 0:
        raise Refused("undecodable", f"seed {seed!r} is none")
    return seed


def read_members(content: RecordDict) -> State:
    """Return the members of an ensemble that a node sent, not yet checked for what they hold.

    Raises
    ------
    Refused
        If the payload does not decode.
    """
    return unpack_arrays(state_record(content))


def read_report(content: RecordDict) -> ConfigRecord:
    """Return the instruction, the partition id and the kind of values that came with the report."""
    record = _config(content, REPORT)
    if record is None:
        raise Refused("undecodable", f"there is no {REPORT!r} record")
    return record


def plain_report(
    state: State, parcels: Mapping[str, State] = MappingProxyType({}), *, metrics: Sequence[str] = (TRAIN_LOSS.name,)
) -> RecordDict:
    """Return the records of a report that sends everything and measures these metrics, as large as a real one."""
    instruction = Instruction(round_number=1, attempt=1, position=0)
    content = RecordDict(
        {
            ARRAYS: pack_arrays(state),
            METRICS: MetricRecord({NUM_EXAMPLES: 500, **dict.fromkeys(metrics, 1.0)}),
            REPORT: report_record(instruction, partition_id=0, seed=2**62, sends="weights"),
            **{name: pack_arrays(arrays) for name, arrays in parcels.items()},
        }
    )
    seal(content)
    return content


def metrics_report(message: Message, metrics: dict[str, float], num_examples: int) -> Message:
    """Return a plain Flower client's answer to an evaluation."""
    measured = MetricRecord({NUM_EXAMPLES: num_examples, **metrics})
    return Message(RecordDict({METRICS: measured}), reply_to=message)
