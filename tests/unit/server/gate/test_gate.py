"""Every malformed report is refused with its own reason, and the round commits as if the node were not there."""

from __future__ import annotations

import io
import re
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest
from flwr.app import Array as FlowerArray
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from hypothesis import given
from hypothesis import strategies as st

import server.gate.gate
from fedlearn import flower, wire
from fedlearn.aggregation import STATE as STATE_PARCEL
from fedlearn.compression import load_codec, load_downlink
from fedlearn.config import RunConfig, to_flower
from fedlearn.core.cohort import Fate, Instruction, Member
from fedlearn.core.errors import Refused
from fedlearn.core.metric import EPSILON
from fedlearn.core.seeding import downlink_seed, report_seed
from fedlearn.core.state import layout_of
from server.gate.gate import ReportGate
from tests.oracles.cohorts import plan_for
from tests.unit.server.scripted import STATE, Node, Scene, honest_content, trained

SENT = RecordDict({wire.ARRAYS: wire.pack_arrays(STATE)})
BAD = 12  # the node whose report is spoiled; it holds partition 2


# --- ways to spoil a report -------------------------------------------------------------------------------------------


def arrays_of(content):
    return wire.unpack_arrays(content.array_records[wire.ARRAYS])


def with_arrays(change):
    """Change the named arrays before they are packed."""

    def spoil(content):
        content[wire.ARRAYS] = wire.pack_arrays(change({n: a.copy() for n, a in arrays_of(content).items()}))

    return spoil


def with_entry(value):
    def change(arrays):
        arrays["w"][1, 2] = value
        return arrays

    return with_arrays(change)


def with_dtype(dtype):
    return with_arrays(lambda arrays: arrays | {"w": arrays["w"].astype(dtype)})


def with_data(change, stype="numpy.ndarray"):
    """Change the bytes of one array."""

    def spoil(content):
        record = content.array_records[wire.ARRAYS]
        packed = record["w"]
        record["w"] = FlowerArray(packed.dtype, packed.shape, stype, change(packed.data))

    return spoil


def with_header(text, *, data=b"\0" * 24):
    body = text.encode("latin1") + b"\n"
    return with_data(lambda _: b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body + data)


def header(descr="'<f4'", fortran="False", shape="(2, 3)"):
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}"


def saved(array, *, version=(1, 0), allow_pickle=False):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=version, allow_pickle=allow_pickle)
    return file.getvalue()


def with_count(value):
    def spoil(content):
        content[wire.METRICS] = MetricRecord({**content[wire.METRICS], wire.NUM_EXAMPLES: value})

    return spoil


def said(**changes):
    def spoil(content):
        content[wire.REPORT] = ConfigRecord({**content[wire.REPORT], **changes})

    return spoil


def without(*names):
    def spoil(content):
        for name in names:
            del content[name]

    return spoil


def adding(name, record):
    def spoil(content):
        content[name] = record

    return spoil


def not_saying(name):
    def spoil(content):
        content[wire.REPORT] = ConfigRecord({k: v for k, v in content[wire.REPORT].items() if k != name})

    return spoil


def without_count(content):
    content[wire.METRICS] = MetricRecord({"train_loss": 1.0})


def sealed_again(content):
    """Let the checksum fit what was spoiled, as who wants to deceive would do; damage alone is tested below."""
    with suppress(Refused):
        wire.seal(content)


class Malicious:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was read",))


OBJECTS = np.array([Malicious()], dtype=object)
RECORDS = np.zeros((2, 3), [("a", "<f4")])

MALFORMED = {
    # names, shapes, dtypes
    "unknown name": ("wrong-names", with_arrays(lambda a: a | {"more": np.zeros(1, np.float32)})),
    "missing name": ("wrong-names", with_arrays(lambda a: {"w": a["w"]})),
    "renamed": ("wrong-names", with_arrays(lambda a: {"W": a["w"], "steps": a["steps"]})),
    "no arrays in the record": ("wrong-names", adding(wire.ARRAYS, ArrayRecord())),
    "transposed": ("wrong-shape", with_arrays(lambda a: a | {"w": np.ascontiguousarray(a["w"].T)})),
    "flat": ("wrong-shape", with_arrays(lambda a: a | {"w": a["w"].reshape(-1)})),
    "one row more": ("wrong-shape", with_arrays(lambda a: a | {"w": np.zeros((3, 3), np.float32)})),
    "empty": ("wrong-shape", with_arrays(lambda a: a | {"w": np.zeros((0, 3), np.float32)})),
    "vector for a scalar": ("wrong-shape", with_arrays(lambda a: a | {"steps": np.zeros(1, np.int64)})),
    "float64": ("wrong-dtype", with_dtype(np.float64)),
    "float16": ("wrong-dtype", with_dtype(np.float16)),
    "big-endian": ("wrong-dtype", with_dtype(">f4")),
    "integers for floats": ("wrong-dtype", with_dtype(np.int32)),
    "booleans": ("wrong-dtype", with_dtype(bool)),
    "floats for integers": ("wrong-dtype", with_arrays(lambda a: a | {"steps": np.array(1.5)})),
    # values
    "NaN": ("not-finite", with_entry(np.nan)),
    "infinity": ("not-finite", with_entry(np.inf)),
    "minus infinity": ("not-finite", with_entry(-np.inf)),
    "both infinities": ("not-finite", with_arrays(lambda a: a | {"w": np.float32([[np.inf, -np.inf, 0]] * 2)})),
    "NaN among the largest": (
        "not-finite",
        with_arrays(lambda a: a | {"w": np.float32([[3e38, 3e38, 0], [np.nan, 3e38, 0]])}),
    ),
    "too large a norm": ("norm-too-large", with_entry(1000.1)),
    "norm beyond float32": ("norm-too-large", with_entry(3e38)),
    # the number of examples
    "no examples": ("wrong-count", with_count(0)),
    "negative": ("wrong-count", with_count(-1)),
    "most negative": ("wrong-count", with_count(-(2**63))),
    "infinitely many": ("wrong-count", with_count(float("inf"))),
    "not a number of them": ("wrong-count", with_count(float("nan"))),
    "absurdly many": ("wrong-count", with_count(10_000_001)),
    "all of int64": ("wrong-count", with_count(2**63 - 1)),
    "a huge float": ("wrong-count", with_count(1e300)),
    "half an example": ("wrong-count", with_count(12.5)),
    "a list of counts": ("wrong-count", with_count([10, 20])),
    "an empty list": ("wrong-count", with_count([])),
    "no count": ("wrong-count", without_count),
    # the place in the run
    "of another round": ("wrong-round", said(round_number=2)),
    "of round 0": ("wrong-round", said(round_number=0)),
    "round as text": ("wrong-round", said(round_number="1")),
    "round unsaid": ("wrong-round", not_saying("round_number")),
    "of another attempt": ("wrong-attempt", said(attempt=2)),
    "attempt unsaid": ("wrong-attempt", not_saying("attempt")),
    "another's position": ("wrong-node", said(position=0)),
    "negative position": ("wrong-node", said(position=-1)),
    "position as list": ("wrong-node", said(position=[2])),
    "another's partition": ("wrong-node", said(partition_id=3)),
    "partition unsaid": ("wrong-node", not_saying("partition_id")),
    "change for weights": ("wrong-kind", said(sends="update")),
    "kind unheard of": ("wrong-kind", said(sends="gradients")),
    "kind unsaid": ("wrong-kind", not_saying("sends")),
    # records
    "no arrays": ("undecodable", without(wire.ARRAYS)),
    "no metrics": ("undecodable", without(wire.METRICS)),
    "no report": ("undecodable", without(wire.REPORT)),
    "no records": ("undecodable", without(wire.ARRAYS, wire.METRICS, wire.REPORT)),
    "an anchor": ("wrong-parcels", adding(wire.ANCHOR, wire.pack_arrays({"w": np.zeros(1)}))),
    "a second ArrayRecord": ("wrong-parcels", adding("more", wire.pack_arrays({"w": np.zeros(1)}))),
    "many records": ("too-large", lambda content: content.update({f"r{i}": ConfigRecord() for i in range(99)})),
    "a second MetricRecord": ("undecodable", adding("more", MetricRecord({"x": 1.0}))),
    "negative seed": ("wrong-seed", said(seed=-1)),
    "seed as text": ("wrong-seed", said(seed="7")),
    "seed as list": ("wrong-seed", said(seed=[7])),
    "seed unsaid": ("wrong-seed", not_saying("seed")),
    # bytes
    "no bytes": ("undecodable", with_data(lambda data: b"")),
    "magic only": ("undecodable", with_data(lambda data: data[:8])),
    "half a header length": ("undecodable", with_data(lambda data: data[:9])),
    "half a header": ("undecodable", with_data(lambda data: data[:40])),
    "header only": ("undecodable", with_data(lambda data: data[:-24])),
    "truncated by one byte": ("undecodable", with_data(lambda data: data[:-1])),
    "truncated by one entry": ("undecodable", with_data(lambda data: data[:-4])),
    "one byte too many": ("undecodable", with_data(lambda data: data + b"\0")),
    "one entry too many": ("undecodable", with_data(lambda data: data + b"\0" * 4)),
    "garbage": ("undecodable", with_data(lambda data: bytes(range(256)))),
    "text": ("undecodable", with_data(lambda data: b"these are my weights")),
    "raw numbers": ("undecodable", with_data(lambda data: data[-24:])),
    "a zip file": ("undecodable", with_data(lambda data: b"PK\x03\x04" + data)),
    "format 2.0": ("undecodable", with_data(lambda data: saved(np.zeros((2, 3), np.float32), version=(2, 0)))),
    "another serialisation": ("undecodable", with_data(lambda data: data, stype="torch.Tensor")),
    "pickled objects": ("undecodable", with_data(lambda data: saved(OBJECTS, allow_pickle=True))),
    "objects promised": ("undecodable", with_header(header("'|O'"))),
    "structured": ("undecodable", with_data(lambda data: saved(RECORDS))),
    "sub-arrays": ("undecodable", with_header(header("('<f4', (3,))", shape="(2,)"))),
    "strings": ("undecodable", with_header(header("'<U1'"))),
    "raw memory": ("undecodable", with_header(header("'|V4'"))),
    "times": ("undecodable", with_header(header("'<M8[s]'", shape="(3,)"))),
    "complex": ("undecodable", with_header(header("'<c8'", shape="(3,)"))),
    "no such dtype": ("undecodable", with_header(header("'<f3'"))),
    "dtype of nothing": ("undecodable", with_header(header("None"))),
    "column order": ("undecodable", with_data(lambda data: saved(np.asfortranarray(np.zeros((2, 3), np.float32))))),
    "order unsaid": ("undecodable", with_header("{'descr': '<f4', 'shape': (2, 3), }")),
    "shape a list": ("undecodable", with_header(header(shape="[2, 3]"))),
    "shape a number": ("undecodable", with_header(header(shape="6"))),
    "shape of truths": ("undecodable", with_header(header(shape="(True, 6)"))),
    "negative shape": ("undecodable", with_header(header(shape="(-1, 3)"))),
    "huge shape": ("undecodable", with_header(header(shape="(9000000000, 9000000000)"))),
    "shape beyond int64": ("undecodable", with_header(header(shape="(9999999999999999999,)"))),
    "shape of thousands of digits": ("undecodable", with_header(header(shape="(" + "9" * 6000 + ",)"))),
    "huge shape with a zero": ("undecodable", with_header(header(shape="(0, 9223372036854775807)"))),
    "70 dimensions": ("undecodable", with_header(header(shape="(" + "1, " * 70 + ")"))),
    "nested header": ("undecodable", with_header("(" * 60_000)),
    "arithmetic header": ("undecodable", with_header("-" * 60_000 + "1")),
    "program for a header": ("undecodable", with_header("__import__('os').abort()")),
    "header longer than its bytes": ("undecodable", with_data(lambda data: data[:8] + b"\xff\xff" + data[10:])),
}


def spoiled(spoil):
    def report(message, node):
        content = honest_content(message, node.partition_id)
        spoil(content)
        sealed_again(content)
        return [content]

    return Node(2, report=report)


def nodes_with(bad):
    return {10: Node(0), 11: Node(1), BAD: bad, 13: Node(3), 14: Node(4)}


def bytes_of_state(run):
    return {name: array.tobytes() for name, array in run.state.items()}


@pytest.fixture(scope="module")
def without_it(tmp_path_factory):
    """The state of a round in which the bad node fails."""
    run = Scene(tmp_path_factory.mktemp("without"), nodes_with(Node(2, failing="it is off"))).run()
    with run.log:
        return bytes_of_state(run)


@pytest.mark.parametrize(("reason", "spoil"), MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_report_is_refused_with_its_reason_and_the_round_commits_without_it(scene, without_it, reason, spoil):
    run = scene(nodes_with(spoiled(spoil)), gate={"max_norm": 1000.0}).run()
    (refused,) = run.events("refused")
    assert refused["reason"].split(":")[0] == reason
    assert refused["node"] == BAD
    assert len(refused["reason"]) < 400
    assert "\n" not in refused["reason"]
    assert bytes_of_state(run) == without_it
    record = run.store.history.rounds[0]
    assert (record.attempts, record.reported, record.refused) == (1, 4, 1)
    assert (BAD, "refused", 1, 1) in run.grid.told


def test_the_bytes_of_a_report_that_is_refused_as_too_large_are_counted(scene):
    sent = []

    def bloat(content):
        content.update({f"r{i}": ConfigRecord({"nothing": 0}) for i in range(99)})
        sent.append(content)

    (refused,) = scene(nodes_with(spoiled(bloat))).run().events("refused")
    assert refused["bytes"] == wire.bytes_of(sent[0])


def test_every_reason_of_the_gate_is_in_the_table():
    words = set(re.findall(r"``([a-z-]+)``", server.gate.gate.__doc__.split("|---|---|")[1]))
    elsewhere = {"duplicate", "wrong-checksum", "wrong-positions", "share-too-large"}
    assert words == {reason for reason, _ in MALFORMED.values()} | elsewhere


def test_refused_reports_below_quorum_abandon_the_round_and_name_the_first_reason(scene):
    bad = {10 + i: Node(i, report=spoiled(with_entry(np.nan)).report) for i in range(2)}
    run = scene(nodes_with(Node(2)) | bad, rounds={"max_attempts": 1})
    with pytest.raises(Exception, match="3 of 5 clients reported, quorum is 4; first reason: not-finite"):
        run.run()


# --- what must pass ---------------------------------------------------------------------------------------------------

LARGEST = float(np.finfo(np.float32).max)

VALID = {
    "the largest float32": with_arrays(lambda a: a | {"w": np.full((2, 3), LARGEST, np.float32)}),
    "the smallest float32": with_arrays(lambda a: a | {"w": np.full((2, 3), -LARGEST, np.float32)}),
    "subnormals": with_arrays(lambda a: a | {"w": np.full((2, 3), 1e-45, np.float32)}),
    "zeros": with_arrays(lambda a: {name: np.zeros_like(array) for name, array in a.items()}),
    "the largest integer": with_arrays(lambda a: a | {"steps": np.array(2**63 - 1)}),
    "one example": with_count(1),
    "a whole float": with_count(30.0),
    "as many examples as allowed": with_count(10_000_000),
    "other metrics": lambda content: content[wire.METRICS].update({"more": 1, "several": [1.0, 2.0]}),
    "infinite metrics": lambda content: content[wire.METRICS].update({"train_loss": float("nan")}),
    "other settings": adding("notes", ConfigRecord({"hello": "server"})),
    "arrays under another key": lambda content: content.update({"model": content.pop(wire.ARRAYS)}),
    "written by NumPy": with_data(lambda data: saved(np.full((2, 3), 7, np.float32))),
}


@pytest.mark.parametrize("spoil", VALID.values(), ids=VALID.keys())
def test_unusual_but_valid_report_is_counted(scene, spoil):
    run = scene(nodes_with(spoiled(spoil)), gate={"max_ratio": 0, "max_share": 1}).run()
    assert run.store.history.rounds[0].reported == 5
    assert not run.events("refused")
    assert all(np.isfinite(array).all() for array in run.state.values())
    assert run.store.history.rounds[0].measured["train_loss"] == 0.5


@pytest.mark.parametrize(("value", "fate"), [(1000.0, Fate.REPORTED), (1000.1, Fate.REFUSED)])
def test_norm_is_of_all_float_entries_and_equality_passes(value, fate):
    gate = gate_of({"gate": {"max_norm": 1000.0}})
    message, member = message_and_member()
    content = honest_content(message, 2)
    content[wire.ARRAYS] = wire.pack_arrays({"w": np.float32([[value, 0, 0], [0, 0, 0]]), "steps": np.array(2**60)})
    wire.seal(content)
    assert gate.check(reply_with(content), member, SENT).report.fate is fate


# --- the gate alone ---------------------------------------------------------------------------------------------------


def gate_of(settings=None, **plan):
    config = RunConfig.model_validate(settings or {})
    return ReportGate(plan_for("strategies.masked_mean:MaskedSum", STATE, settings=to_flower(config), **plan))


def message_and_member():
    message = Message(RecordDict({wire.ARRAYS: wire.pack_arrays(STATE)}), 12, "train")
    return wire.with_instruction(message, Instruction(1, 1, 2), ttl=60.0), Member(12, 2, 2)


def reply_with(content):
    return flower.reply_from(node_id=12, message_type="train", reply_to="m", content=content, error=None)


def test_second_report_through_the_same_gate_is_a_duplicate():
    gate = gate_of()
    message, member = message_and_member()
    first = gate.check(reply_with(honest_content(message, 2)), member, SENT)
    second = gate.check(reply_with(honest_content(message, 2)), member, SENT)
    assert first.report.fate is Fate.REPORTED
    assert (second.report.fate, second.parcels) == (Fate.REFUSED, {})
    assert second.report.reason.startswith("duplicate")


def test_accepted_values_are_those_that_were_sent():
    message, member = message_and_member()
    verdict = gate_of().check(reply_with(honest_content(message, 2)), member, SENT)
    assert verdict.report.num_examples == 30
    for name, array in trained(STATE, 2).items():
        np.testing.assert_array_equal(verdict.parcels[STATE_PARCEL][name].values, array.reshape(-1))


@pytest.mark.parametrize(("public_sizes", "fate"), [(False, Fate.REFUSED), (True, Fate.REPORTED)])
def test_a_node_of_a_private_learner_from_outside_has_one_vote_whatever_the_model(public_sizes, fate):
    message, member = message_and_member()
    gate = gate_of({"privacy": {"public_sizes": public_sizes}}, measured=[EPSILON])
    report = gate.check(reply_with(honest_content(message, 2)), member, SENT).report
    assert report.fate is fate
    assert fate is Fate.REPORTED or report.reason == "wrong-count: 30 examples, allowed are from 1 to 1"


@pytest.mark.parametrize("shape", ["(100000000,)", "(9000000000, 9)", "(0, 9223372036854775807)"])
def test_what_a_header_declares_is_not_allocated(shape):
    message, member = message_and_member()
    content = honest_content(message, 2)
    with_header(header(shape=shape))(content)
    wire.seal(content)
    gate = gate_of()
    tracemalloc.start()
    verdict = gate.check(reply_with(content), member, SENT)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert verdict.report.fate is Fate.REFUSED
    assert peak < 1_000_000


def test_hostile_headers_do_not_fill_the_memory():
    message, member = message_and_member()
    content = honest_content(message, 2)
    with_header(header() + " " * 60_000)(content)
    wire.seal(content)
    assert gate_of().check(reply_with(content), member, SENT).report.reason.startswith("undecodable")


DROPPING = {"compression": {"codec": "drop", "keep_ratio": 0.5}}


def dropped_content(message):
    seed = report_seed(1, round_number=1, node=2)
    content = honest_content(message, 2)
    codec = load_codec(RunConfig.model_validate(DROPPING).compression)
    content[wire.ARRAYS] = wire.pack_arrays(codec.encode(trained(STATE, 2), seed=seed))
    said(seed=seed)(content)
    wire.seal(content)
    return content


def test_dropped_entries_pass_the_gate_as_null():
    message, member = message_and_member()
    verdict = gate_of(DROPPING).check(reply_with(dropped_content(message)), member, SENT)
    assert verdict.report.fate is Fate.REPORTED
    assert len(verdict.parcels[STATE_PARCEL]["w"].values) == 3


def test_the_norm_of_a_change_is_of_the_entries_that_were_sent():
    message, member = message_and_member()
    verdict = gate_of(DROPPING).check(reply_with(dropped_content(message)), member, SENT)
    assert verdict.report.norm == pytest.approx(np.sqrt(3 * 3.0**2))  # three of six entries, each three larger


def test_the_norm_of_a_change_is_against_the_state_as_the_codec_of_the_server_left_it():
    settings = {"compression": {"downlink": "quantize:2"}}
    chain = load_downlink(RunConfig.model_validate(settings).compression)
    seed = downlink_seed(1, round_number=1)
    payload = chain.encode(STATE, seed=seed)
    seen = {name: e.values for name, e in chain.decode(payload, layout=layout_of(STATE), seed=seed).items()}
    message, member = message_and_member()
    content = honest_content(message, 2)
    content[wire.ARRAYS] = wire.pack_arrays(
        {"w": (seen["w"] + np.float32(2)).reshape(2, 3), "steps": np.array(seen["steps"][0], np.int64)}
    )
    wire.seal(content)
    sent = RecordDict({wire.ARRAYS: wire.pack_arrays(payload)})
    verdict = gate_of(settings).check(reply_with(content), member, sent)
    assert verdict.report.norm == pytest.approx(np.sqrt(6 * 2.0**2), rel=1e-6)


@pytest.mark.parametrize("sent", [RecordDict(), RecordDict({"a": wire.pack_arrays({"w": np.zeros(99)})})])
def test_where_no_such_state_was_sent_the_norm_is_that_of_the_values(sent):
    message, member = message_and_member()
    verdict = gate_of().check(reply_with(honest_content(message, 2)), member, sent)
    assert verdict.report.norm == pytest.approx(np.linalg.norm(trained(STATE, 2)["w"]))


@pytest.mark.parametrize(
    ("reason", "arrays"),
    [
        ("wrong-names", {"w": np.zeros(3, np.float32)}),
        ("wrong-names", {"float32": np.zeros(3, np.float32)}),
        ("wrong-shape", {"float32": np.zeros(4, np.float32), "int64": np.zeros(1, np.int64)}),
        ("wrong-shape", {"float32": np.zeros((3, 1), np.float32), "int64": np.zeros(1, np.int64)}),
        ("wrong-dtype", {"float32": np.zeros(3, np.float64), "int64": np.zeros(1, np.int64)}),
        ("not-finite", {"float32": np.float32([1, np.nan, 1]), "int64": np.zeros(1, np.int64)}),
    ],
)
def test_malformed_dropped_report_is_refused_too(reason, arrays):
    message, member = message_and_member()
    content = dropped_content(message)
    content[wire.ARRAYS] = wire.pack_arrays(arrays)
    wire.seal(content)
    verdict = gate_of(DROPPING).check(reply_with(content), member, SENT)
    assert verdict.report.reason.split(":")[0] == reason


# --- fuzzing ----------------------------------------------------------------------------------------------------------

scalars = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=5), st.binary(max_size=5), st.booleans()
)
numbers = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats())
config_records = st.dictionaries(
    st.sampled_from(["round_number", "attempt", "position", "partition_id", "seed", "sends", "x"]),
    st.one_of(scalars, st.lists(st.integers(-5, 5), max_size=2)),
).map(ConfigRecord)
metric_records = st.dictionaries(
    st.sampled_from([wire.NUM_EXAMPLES, "train_loss", "x"]), st.one_of(numbers, st.lists(st.floats(), max_size=2))
).map(MetricRecord)
flower_arrays = st.builds(
    FlowerArray,
    st.sampled_from(["float32", "object"]),
    st.tuples(st.integers(0, 5)),
    st.sampled_from(["numpy.ndarray", "x"]),
    st.one_of(st.binary(max_size=200), st.binary(max_size=60).map(lambda data: b"\x93NUMPY\x01\x00" + data)),
)
array_records = st.dictionaries(st.sampled_from(["w", "steps", "x"]), flower_arrays).map(ArrayRecord)
contents = st.dictionaries(
    st.sampled_from([wire.ARRAYS, wire.METRICS, wire.REPORT, "x"]),
    st.one_of(config_records, metric_records, array_records),
).map(RecordDict)


@pytest.mark.parametrize("settings", [{}, DROPPING], ids=["identity", "drop"])
@given(content=contents)
def test_random_records_are_refused_and_raise_nothing(settings, content):
    _, member = message_and_member()
    verdict = gate_of(settings).check(reply_with(content), member, SENT)
    assert (verdict.report.fate, verdict.parcels) == (Fate.REFUSED, {})


@given(position=st.integers(0, 10_000), flip=st.integers(1, 255), cut=st.integers(0, 300))
def test_flipped_and_missing_bytes_give_a_verdict_even_with_a_fitting_checksum(position, flip, cut):
    message, member = message_and_member()
    content = honest_content(message, 2)

    def damage(data):
        damaged = bytearray(data[: len(data) - cut])
        if damaged:
            damaged[position % len(damaged)] ^= flip
        return bytes(damaged)

    with_data(damage)(content)
    wire.seal(content)
    verdict = gate_of().check(reply_with(content), member, SENT)
    if verdict.parcels:  # a flipped bit of a value cannot be told from a value
        assert np.isfinite(verdict.parcels[STATE_PARCEL]["w"].values).all()
        assert verdict.parcels[STATE_PARCEL]["w"].values.shape == (6,)


@given(position=st.integers(0, 10_000), flip=st.integers(1, 255))
def test_flipped_bytes_of_the_whole_message_give_a_verdict(position, flip):
    message, member = message_and_member()
    data = bytearray(flower.to_bytes(honest_content(message, 2)))
    data[position % len(data)] ^= flip
    try:
        content = flower.from_bytes(bytes(data))
    except Exception:  # Flower's transport refuses it before we see it
        return
    assert gate_of().check(reply_with(content), member, SENT).report.fate in {Fate.REFUSED, Fate.REPORTED}


# --- damage on the way ------------------------------------------------------------------------------------------------

CODECS = ["identity", "drop:0.5", "quantize:3", "rotate,quantize:2", "eden", "fp16", "drop:0.5,quantize:4,entropy"]
OF_CHANGES = ["top-k:0.5,quantize:4", "ternary:0.5", "rand-k:0.5", "residual,top-k:0.5,sign,entropy"]


def compressed_content(message, codec):
    """The report of a node that sends its update by this codec, and the settings of the gate that expects it."""
    settings = {"compression": {"codec": codec, "send": "update" if codec in OF_CHANGES else "weights"}}
    content = honest_content(message, 2)
    seed = report_seed(1, round_number=1, node=2)
    payload = load_codec(RunConfig.model_validate(settings).compression).encode(trained(STATE, 2), seed=seed)
    content[wire.ARRAYS] = wire.pack_arrays(payload)
    said(seed=seed, sends=settings["compression"]["send"])(content)
    wire.seal(content)
    return content, settings


def damaged(content, where, damage):
    """Change the bytes of one array; `where` chooses it."""
    record = content.array_records[wire.ARRAYS]
    name = list(record)[where % len(record)]
    record[name] = FlowerArray(record[name].dtype, record[name].shape, record[name].stype, damage(record[name].data))


@pytest.mark.parametrize("codec", CODECS + OF_CHANGES)
def test_undamaged_compressed_report_passes(codec):
    message, member = message_and_member()
    content, settings = compressed_content(message, codec)
    verdict = gate_of(settings).check(reply_with(content), member, SENT)
    assert verdict.report.fate is Fate.REPORTED, verdict.report.reason


@pytest.mark.parametrize("codec", CODECS + OF_CHANGES)
@given(where=st.integers(0, 5), bit=st.integers(0, 10_000), cut=st.integers(0, 200))
def test_flipped_bit_or_truncation_is_refused_by_its_checksum(codec, where, bit, cut):
    message, member = message_and_member()
    content, settings = compressed_content(message, codec)

    def damage(data):
        if cut:
            return data[:-cut]
        flipped = bytearray(data)
        flipped[bit // 8 % len(data)] ^= 1 << bit % 8
        return bytes(flipped)

    damaged(content, where, damage)
    verdict = gate_of(settings).check(reply_with(content), member, SENT)
    assert (verdict.report.fate, verdict.parcels) == (Fate.REFUSED, {})
    assert verdict.report.reason.startswith("wrong-checksum: ")


@pytest.mark.parametrize("codec", CODECS + OF_CHANGES)
@given(where=st.integers(0, 5), bytes_=st.lists(st.tuples(st.integers(80, 400), st.integers(0, 255)), max_size=4))
def test_garbage_with_a_fitting_checksum_is_refused_or_finite(codec, where, bytes_):
    message, member = message_and_member()
    content, settings = compressed_content(message, codec)

    def damage(data):
        changed = bytearray(data)
        for place, value in bytes_:
            changed[place % len(data)] = value
        return bytes(changed)

    damaged(content, where, damage)
    wire.seal(content)
    verdict = gate_of(settings).check(reply_with(content), member, SENT)
    for entries in verdict.parcels.get(STATE_PARCEL, {}).values():
        assert np.isfinite(entries.values).all()


@pytest.mark.parametrize("spoil", [said(checksum=b"1234"), said(checksum=7), not_saying(wire.CHECKSUM), with_count(31)])
def test_metrics_and_the_checksum_itself_are_covered(spoil):
    message, member = message_and_member()
    content = honest_content(message, 2)
    spoil(content)
    assert gate_of().check(reply_with(content), member, SENT).report.reason.startswith("wrong-checksum: ")
