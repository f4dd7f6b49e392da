"""Reports: a node's answers to a training or an evaluation, as the node writes and the server reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from xxhash import xxh3_64

from fedlearn import flower
from fedlearn.compression.codec import Codec
from fedlearn.core.cohort import Instruction
from fedlearn.core.errors import Refused
from fedlearn.core.metric import TRAIN_LOSS
from fedlearn.core.state import Layout, State, Update
from fedlearn.wire.arrays import pack_arrays, unpack_arrays
from fedlearn.wire.content_records import (
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


def metrics_record(metrics: Mapping[str, float], num_examples: int) -> MetricRecord:
    """Return the metrics of a plain Flower client, with the number of its examples."""
    return MetricRecord({NUM_EXAMPLES: num_examples, **metrics})


def report_record(instruction: Instruction, *, partition_id: int, seed: int, sends: str) -> ConfigRecord:
    """Return the record that fedlearn's server needs beside a plain Flower report."""
    return flower.filled(
        ConfigRecord(), instruction._asdict() | {"partition_id": partition_id, "seed": seed, "sends": sends}
    )


def seal(content: RecordDict) -> None:
    """Write a report's checksum into the report; every other record must be in place."""
    record = read_report(content)
    record[CHECKSUM] = checksum_of(content)


def check_seal(content: RecordDict) -> None:
    """Raise Refused for a report whose arrays or metrics have changed on the way.

    A checksum finds accidents. A deceiver writes a fitting checksum, and meets the gate's other checks.
    """
    claimed, found = read_report(content).get(CHECKSUM), checksum_of(content)
    if claimed != found:
        named = claimed.hex() if isinstance(claimed, bytes) else repr(claimed)
        raise Refused(
            "wrong-checksum", f"the report says {named[:40]}, its bytes have {found.hex()}: they came damaged"
        )


def checksum_of(content: RecordDict) -> bytes:
    """Return the XXH3 hash of a report's parcels and metrics, sorted by name; eight bytes."""
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
    """Return the number of examples that a node claims: a whole number, whose range is not yet checked."""
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
        If the payload does not decode, or cannot come from the codec.
    """
    payload = unpack_arrays(state_record(content))
    return codec.decode(payload, layout=layout, seed=read_seed(content))


def read_seed(content: RecordDict) -> int:
    """Return the seed that a report's codec has used; 0 for a plain Flower report, which has no seed."""
    report = config_in(content, REPORT)
    seed = 0 if report is None else report.get("seed")
    if type(seed) is not int or seed < 0:
        raise Refused("undecodable", f"the seed is {seed!r}, expected a whole number from 0")
    return seed


def read_members(content: RecordDict) -> State:
    """Return the members of an ensemble that a node sent; their content is not yet checked.

    Raises
    ------
    Refused
        If the payload does not decode.
    """
    return unpack_arrays(state_record(content))


def read_report(content: RecordDict) -> ConfigRecord:
    """Return the record with a report's instruction, partition id and kind of values."""
    record = config_in(content, REPORT)
    if record is None:
        raise Refused("undecodable", f"there is no {REPORT!r} record")
    return record


def plain_report(
    state: State, parcels: Mapping[str, State] = MappingProxyType({}), *, metrics: Sequence[str] = (TRAIN_LOSS.name,)
) -> RecordDict:
    """Return the records of a plain report with these metrics, as many bytes as a real one: it sends every entry."""
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
