"""What a node answers to a training or an evaluation: written by the node, sealed, read by the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from xxhash import xxh3_64

from fedlearn import flower
from fedlearn.compression.base import Codec
from fedlearn.wire.arrays import pack_arrays, unpack_arrays
from fedlearn.wire.records import (
    ARRAYS,
    CHECKSUM,
    METRICS,
    NUM_EXAMPLES,
    REPORT,
    config_in,
    only,
    parcels_of,
    state_record,
)
from fedlearn.words.cohort import Instruction
from fedlearn.words.errors import Refused
from fedlearn.words.metrics import TRAIN_LOSS
from fedlearn.words.state import Layout, State, Update


def metrics_record(metrics: Mapping[str, float], num_examples: int) -> MetricRecord:
    """Return the metrics of a plain Flower client, with the number of its examples."""
    return MetricRecord({NUM_EXAMPLES: num_examples, **metrics})


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
    report = config_in(content, REPORT)
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
    record = config_in(content, REPORT)
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
    return Message(RecordDict({METRICS: metrics_record(metrics, num_examples)}), reply_to=message)
