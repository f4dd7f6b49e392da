"""Payloads made by hand to make much of little: zstd bombs, Golomb parameters, scales that are no numbers, counts.

Each goes in place of each array of each chain of the codecs, under a checksum that fits.
"""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pyarrow
import pytest
from flwr.app import MetricRecord, RecordDict

from fedlearn import flower, wire
from fedlearn.compression import CODECS
from fedlearn.core.cohort import Fate
from server.gate.gate import ReportGate
from tests.adversary import subjects

MOST = 24 << 20  # bytes; the model has 2 KB
LONGEST = 1.0  # seconds of the processor
CHAINS = [chain for chain in subjects.chains() if chain in CODECS or (":" not in chain and "entropy" in chain)]
CHAINS += ["rotate,quantize"]  # a transform does not stand alone
ZSTD = pyarrow.Codec("zstd")
ZEROS = ZSTD.compress(bytes(64 << 20), asbytes=True)  # 64 MiB of zeros in 2 KB
FRAME = ZSTD.compress(b"x", asbytes=True)
WINDOW = b"\x28\xb5\x2f\xfd\x00\xa8" + b"\x01\x00\x00" * 9  # a frame that wants a window of 2 GiB
SKIPPED = b"\x50\x2a\x4d\x18\xff\xff\xff\xff"  # a frame to be skipped, of 4 GiB
PARAMETERS = (0, 1, 7, 8, 9, 31, 63, 64, 255)
VALUES = (np.nan, np.inf, -np.inf, -1.0, 0.0, -0.0, 5e-324, 1e-40, 6.5e4, 3.4e38, 1e308)
WHOLE = (0, -1, 2**31, 2**63 - 1, -(2**63))
COUNTS = (0, -1, 10_000_001, 2**53 + 1, 2**63 - 1, -(2**63), 0.5, 1e300, np.nan, np.inf, [1], [])


def claiming(size, data):
    """Bytes as the entropy coder sends them: how many there are, and then they."""
    return np.frombuffer(int(size).to_bytes(8, "little") + data, np.uint8)


def byte_bombs(array):
    """Of zstd, and of the codes of positions: their first byte is the parameter."""
    size = int.from_bytes(array.tobytes()[:8], "little")
    for data in (ZEROS, FRAME * 20_000, array.tobytes()[8:] + ZEROS, WINDOW, SKIPPED, b""):
        yield claiming(size, data)
    for claimed in (64 << 20, 2**63, 2**64 - 1):
        yield claiming(claimed, ZEROS)
    for parameter in PARAMETERS:
        yield np.concatenate([np.uint8([parameter]), array[1:]])
    yield from (np.full(length, value, np.uint8) for length in (len(array), 10**6) for value in (0, 255))


def bombs(array):
    """Return the bytes that are sent in place of an array."""
    if array.dtype == np.uint8:
        return byte_bombs(array)
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return [np.full_like(array, np.float64(value).astype(array.dtype)) for value in VALUES]
    return [np.full_like(array, np.array(value % 2**64, np.uint64).astype(array.dtype)) for value in WHOLE]


def looked_at(content, plan):
    """Give a report to the gate; check that it takes little time and memory, and accepts no wrong value."""
    reply = flower.reply_from(node_id=subjects.NODE, message_type="train", reply_to="m", content=content, error=None)
    gate = ReportGate(plan)
    tracemalloc.start()
    begin = time.process_time()
    verdict = gate.check(reply, subjects.MEMBER, RecordDict())
    seconds, peak = time.process_time() - begin, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    subjects.check_verdict(verdict, plan)
    assert peak < MOST and seconds < LONGEST, (peak, seconds)
    return verdict.report


@pytest.mark.parametrize("chain", CHAINS)
def test_a_bomb_takes_little_and_never_raises(chain):
    plan, honest = subjects.reports_by(chain)
    arrays = wire.unpack_arrays(wire.state_record(honest[0]))
    for name, array in arrays.items():
        for bomb in bombs(array):
            content = RecordDict(dict(honest[0].items()))
            content[wire.ARRAYS] = wire.pack_arrays({**arrays, name: bomb})
            wire.seal(content)
            looked_at(content, plan)


def test_every_codec_is_bombed():
    assert all(name in ",".join(CHAINS) for name in CODECS if name != "residual")


@pytest.mark.parametrize("count", COUNTS)
def test_a_count_out_of_range_is_refused(count):
    plan, honest = subjects.reports_by("drop")
    content = RecordDict(dict(honest[0].items()))
    content[wire.METRICS] = MetricRecord({wire.NUM_EXAMPLES: count, "train_loss": 0.5})
    wire.seal(content)
    report = looked_at(content, plan)
    assert report.fate is Fate.REFUSED and report.reason.startswith("wrong-count: ")
