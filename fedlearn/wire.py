"""The only place where record keys are spelled: what the server and the nodes say to each other.

| message | type | server sends | node answers |
|---|---|---|---|
| ready query | ``query.ready`` | round, attempt | partition id; ready or why not |
| training | ``train`` | state, Flower's config, instruction | arrays, metrics, report |
| evaluation | ``evaluate`` | state, Flower's config | metrics |
| round over | ``query.round_over`` | round, attempt, why | nothing |

Arrays travel in NumPy's own format (``np.save``), one Flower `Array` each, so that any Flower code can read them. They
are written and parsed here without going through a file object, which takes a tenth of the time for small arrays;
pickles are never read. Over a network Flower sends every array by two requests of its own, so there a record of them
goes into a box: one array that holds the bytes of all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from flwr.app import Array as FlowerArray
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from xxhash import xxh3_64

from fedlearn import flower
from fedlearn.compression import Codec, Payload
from fedlearn.errors import Refused
from fedlearn.rounds import Instruction
from fedlearn.state import Array, Layout, State, Update

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
BOX = "fedlearn.box"  # what the one array of a box says that it is


# --- arrays -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _npy_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """Return the 1.0 header that ``np.save`` writes in front of a C-contiguous array."""
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    padding = -(10 + len(text) + 1) % 64
    body = (text + " " * padding + "\n").encode("latin1")
    return b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body


def pack(array: Array) -> FlowerArray:
    """Return an array as Flower sends it."""
    contiguous = np.ascontiguousarray(array).reshape(array.shape)
    header = _npy_header(contiguous.dtype.str, contiguous.shape)
    data = b"".join((header, contiguous.data))  # one copy
    return flower.array_of(_dtype_name(contiguous.dtype), contiguous.shape, "numpy.ndarray", data)


@lru_cache(maxsize=64)
def _dtype_name(dtype: np.dtype[Any]) -> str:
    return str(dtype)  # NumPy builds it anew each time, in Python


def unpack(packed: FlowerArray) -> Array:
    """Return a received array, read-only, without copying it.

    Raises
    ------
    Refused
        If the bytes are not an array in NumPy's format, are too few or too many, or hold objects.
    """
    data = packed.data
    try:
        if packed.stype != "numpy.ndarray" or data[:8] != b"\x93NUMPY\x01\x00":
            raise ValueError(f"not in NumPy's format 1.0 (stype {packed.stype!r})")
        start = 10 + int.from_bytes(data[8:10], "little")
        dtype, shape = _parse_header(data[10:start])
        flat = np.frombuffer(data, dtype, offset=start)
        return flat.reshape(shape)
    except (ValueError, TypeError, OverflowError) as error:
        raise Refused("undecodable", str(error).splitlines()[0] if str(error) else repr(error)) from None


# What `np.save` writes for a plain array. Matched, not evaluated: a header is bytes of a stranger.
_HEADER = re.compile(
    rb"\{'descr': '([<>|=]?[biuf]\d{1,2})', 'fortran_order': False, "
    rb"'shape': \(((?:\d{1,19}, ?)*(?:\d{1,19})?)\), \} *\n"
)
LONGEST_HEADER = 2048  # bytes; 64 dimensions of 19 digits fit, and the cache below stays small


@lru_cache(maxsize=4096)
def _parse_header(header: bytes) -> tuple[np.dtype[Any], tuple[int, ...]]:
    match = _HEADER.fullmatch(header) if len(header) <= LONGEST_HEADER else None
    if match is None:
        raise ValueError(f"the header is not that of a plain C-contiguous array of numbers: {header[:100]!r}")
    descr, shape = match.groups()
    return np.dtype(descr.decode()), tuple(int(n) for n in shape.split(b",") if n.strip())


def pack_arrays(arrays: Payload) -> ArrayRecord:
    """Return named arrays as Flower sends them."""
    return flower.filled(ArrayRecord(), {name: pack(array) for name, array in arrays.items()})


def unpack_arrays(record: ArrayRecord) -> dict[str, Array]:
    """Return the named arrays of a record, read-only."""
    return {name: unpack(packed) for name, packed in record.items()}


_last_state: tuple[ArrayRecord, State] | None = None


def read_state(content: RecordDict) -> State:
    """Return the state that a message brings.

    The engines hand the very same record to all nodes of a round that they run in one process: it is parsed once.
    """
    global _last_state
    record = only(content, ArrayRecord)
    if _last_state is None or _last_state[0] is not record:
        _last_state = (record, unpack_arrays(record))
    return _last_state[1]


def only(content: RecordDict, kind: type[flower.R]) -> flower.R:
    """Return the only record of its kind: plain Flower strategies choose their own key for it."""
    records = flower.records_of(content, kind)
    if len(records) != 1:
        raise Refused("undecodable", f"expected one {kind.__name__}, found {len(records)}")
    return records[0]


def replace_arrays(contents: Iterable[RecordDict], change: Callable[[ArrayRecord], ArrayRecord]) -> None:
    """Put what `change` makes of it in place of each record of arrays; of one that several share it is made once."""
    made: dict[int, tuple[ArrayRecord, ArrayRecord]] = {}  # by id; the first keeps its id from being used again
    for content in contents:
        for key, record in list(content.items()):
            if isinstance(record, ArrayRecord):
                if id(record) not in made:
                    made[id(record)] = record, change(record)
                content[key] = made[id(record)][1]


def _config(content: RecordDict, key: str) -> ConfigRecord | None:
    record = content.get(key)
    return record if isinstance(record, ConfigRecord) else None


# --- boxes ------------------------------------------------------------------------------------------------------------


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


# --- bytes ------------------------------------------------------------------------------------------------------------


def bytes_of(content: RecordDict) -> int:
    """Return the size of a message's serialised records, in bytes: what crosses the network."""
    return sum(flower.size_in_bytes(key, record) for key, record in content.items())


def bytes_of_all(messages: Sequence[Message]) -> int:
    """Return the size of many messages; a record that goes to many nodes is measured once and counted for each."""
    sizes: dict[tuple[str, int], int] = {}
    total = 0
    for message in messages:
        for key, record in message.content.items():
            known = (key, id(record))
            if known not in sizes:
                sizes[known] = flower.size_in_bytes(key, record)
            total += sizes[known]
    return total


# --- ready query and round over ---------------------------------------------------------------------------------------


def ready_query(node_id: int, *, round_number: int, attempt: int, ttl: float) -> Message:
    """Ask a node whether it is ready; the question expires with the selection window."""
    asked = flower.filled(ConfigRecord(), {"round_number": round_number, "attempt": attempt})
    return Message(RecordDict({CONFIG: asked}), node_id, READY_QUERY, ttl=ttl)


def ready_answer(query: Message, *, partition_id: int, why_not: str = "") -> Message:
    """Say that this node is ready, or why it is not."""
    answer = flower.filled(ConfigRecord(), {"partition_id": partition_id, "why_not": why_not})
    return Message(RecordDict({CONFIG: answer}), reply_to=query)


def read_ready_answer(reply: Message) -> tuple[int, str]:
    """Return (partition id, why not ready or ""); a malformed answer is a node that is not ready."""
    try:
        answer = reply.content[CONFIG]
        partition_id, why_not = answer["partition_id"], answer["why_not"]
    except (KeyError, TypeError):
        return -1, "malformed answer"
    if type(partition_id) is not int or partition_id < 0 or type(why_not) is not str:
        return -1, "malformed answer"
    return partition_id, why_not


def round_over(node_id: int, *, round_number: int, attempt: int, why: str, ttl: float) -> Message:
    """Tell a node that a round is over for it: rejected, late, refused, or abandoned."""
    told = flower.filled(ConfigRecord(), {"round_number": round_number, "attempt": attempt, "why": why})
    return Message(RecordDict({CONFIG: told}), node_id, ROUND_OVER, ttl=ttl)


# --- instruction and report -------------------------------------------------------------------------------------------


def with_instruction(message: Message, instruction: Instruction, *, ttl: float) -> Message:
    """Return the strategy's message with our instruction beside its records."""
    content = message.content.copy()
    content[INSTRUCTION] = flower.filled(ConfigRecord(), instruction._asdict())
    return Message(content, message.metadata.dst_node_id, message.metadata.message_type, ttl=ttl)


def with_ttl(message: Message, ttl: float) -> Message:
    """Return a message that is over after `ttl` seconds."""
    return Message(message.content, message.metadata.dst_node_id, message.metadata.message_type, ttl=ttl)


def read_instruction(content: RecordDict) -> Instruction:
    """Return the instruction; under Flower's own ``Strategy.start`` there is only the round number."""
    record = _config(content, INSTRUCTION)
    if record is not None:
        return Instruction(**{name: int(value) for name, value in record.items()})  # type: ignore[arg-type]
    config = read_config(content)
    return Instruction(round_number=int(config.get(SERVER_ROUND, 1)), attempt=1, position=0)  # type: ignore[arg-type]


def read_config(content: RecordDict) -> ConfigRecord:
    """Return the strategy's own settings for this round, as FedProx's ``proximal-mu``."""
    others = (record for key, record in content.items() if key != INSTRUCTION and isinstance(record, ConfigRecord))
    return next(others, ConfigRecord())


def dense_report(message: Message, arrays: State, metrics: dict[str, float], num_examples: int) -> Message:
    """Return what a plain Flower client answers: arrays, and metrics with the number of examples."""
    measured = MetricRecord({NUM_EXAMPLES: num_examples, **metrics})
    return Message(RecordDict({ARRAYS: pack_arrays(arrays), METRICS: measured}), reply_to=message)


def report_record(instruction: Instruction, *, partition_id: int, seed: int, sends: str) -> ConfigRecord:
    """Return what our server wants to know beside a plain Flower report."""
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
    """Return the XXH3 hash of a report's arrays and metrics, by their names, whatever their order; eight bytes."""
    checksum = xxh3_64()
    for name, packed in sorted(only(content, ArrayRecord).items()):
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
    """Return what a node sent of each parameter.

    Raises
    ------
    Refused
        If the payload does not decode, or is none that the codec makes.
    """
    payload = unpack_arrays(only(content, ArrayRecord))
    report = _config(content, REPORT)
    seed = 0 if report is None else report.get("seed")
    if type(seed) is not int or seed < 0:
        raise Refused("undecodable", f"seed {seed!r} is none")
    return codec.decode(payload, layout=layout, seed=seed)


def read_members(content: RecordDict) -> State:
    """Return the members of an ensemble that a node sent, not yet checked for what they hold.

    Raises
    ------
    Refused
        If the payload does not decode.
    """
    return unpack_arrays(only(content, ArrayRecord))


def read_report(content: RecordDict) -> ConfigRecord:
    """Return what came with the report: instruction, partition id, what it sends."""
    record = _config(content, REPORT)
    if record is None:
        raise Refused("undecodable", f"there is no {REPORT!r} record")
    return record


def plain_report(state: State) -> RecordDict:
    """Return the records of a report that sends everything, as large as a real one."""
    instruction = Instruction(round_number=1, attempt=1, position=0)
    content = RecordDict(
        {
            ARRAYS: pack_arrays(state),
            METRICS: MetricRecord({NUM_EXAMPLES: 500, "train_loss": 1.0}),
            REPORT: report_record(instruction, partition_id=0, seed=2**62, sends="weights"),
        }
    )
    seal(content)
    return content


def metrics_report(message: Message, metrics: dict[str, float], num_examples: int) -> Message:
    """Return what a plain Flower client answers to an evaluation."""
    measured = MetricRecord({NUM_EXAMPLES: num_examples, **metrics})
    return Message(RecordDict({METRICS: measured}), reply_to=message)
