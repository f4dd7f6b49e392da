"""A node's part in secure sums: its keys, its masked report, and its memory of both (`fedlearn.secure.node`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from flwr.app import Message, RecordDict

from client.discretion import is_private
from client.fits import learner_of
from client.node import examples_of
from client.peers import demands_of, key_of
from client.sets import QUESTION
from client.visit import Visit
from client.whole_question import WholeQuestion
from fedlearn import flower, wire
from fedlearn.folding.modular import MASKED
from fedlearn.models.loaded import whole_numbers_of
from fedlearn.secure import texts
from fedlearn.secure.groups import drop_seed
from fedlearn.secure.masks import Words
from fedlearn.secure.messages import Delivered
from fedlearn.secure.node import SecureNode
from fedlearn.secure.packed import packed
from fedlearn.secure.question import Question
from fedlearn.secure.summands import Summands
from fedlearn.words.errors import Refused
from fedlearn.words.metric import EPSILON
from fedlearn.words.seeding import report_seed
from fedlearn.words.state import State, difference, layout_of

SUM = "sum"  # name of the node's part in secure sums, among its secrets
T = TypeVar("T")


def said_in(visit: Visit, kind: type[T]) -> T:
    """Return what a message says of one kind.

    Raises
    ------
    Refused
        If it says nothing of that kind.
    """
    return texts.from_same(kind, wire.read_secure(visit.content).get(kind.__name__, b""))


@contextmanager
def part_in(visit: Visit) -> Iterator[SecureNode]:
    """Give the node's part in the secure sums of this run as it stands, and store what the block makes of it."""
    secrets, run = visit.memory.secrets, visit.config.out
    memory = secrets.get(SUM, b"").decode()
    node = SecureNode(run, visit.partition_id, demands=demands_of(visit), signer=key_of(visit), memory=memory)
    yield node
    secrets[SUM] = node.memory.encode()
    visit.keep_memory()


def keys_of(visit: Visit) -> bytes:
    """Return the node's fresh keys for the attempt that a ready query is about; empty for one about no round."""
    at = wire.read_at(visit.content)
    if not at.round_number:  # a server looks who is there
        return b""
    question = Question(visit.config.out, *at)
    with part_in(visit) as node:
        return texts.to_bytes(node.advertise(question))


def shares_noise(visit: Visit) -> bool:
    """Return whether a real node sends sums with a share of the noise alone, of which one sum may be made."""
    return visit.is_real and visit.config.privacy.trust == "distributed"


def has_joined(visit: Visit, round_number: int) -> bool:
    """Return whether the node remembers that it has joined a secure sum of this round, or of a later one."""
    with part_in(visit) as node:
        return node.latest_round >= round_number


def forget_sum(visit: Visit) -> None:
    """Forget the secrets of the attempt that is over for the node; a late notice costs it no later one."""
    with part_in(visit) as node:
        node.forget(Question(visit.config.out, *wire.read_at(visit.content)))


def masked_report(visit: Visit, arrays: State, record: Mapping[str, Any], *, state: State) -> Message:
    """Return the report of a fit under the node's masks: all that leaves the node of its training.

    Parameters
    ----------
    arrays
        The node's new state.
    record
        The metrics of the fit, with the number of the node's examples.
    state
        The state that the node was sent.

    Raises
    ------
    Refused
        If a change is not finite, a wanted metric was not measured, or the node must not answer in this attempt.
    """
    config, instruction = visit.config, visit.instruction
    numbers = whole_numbers_of(config, layout_of(state))
    is_masked = config.secure.sums == "masked"
    with part_in(visit) as node:  # without masks all else is done: those of a vector of no entries
        if numbers is None:
            (vector, bits), metrics = _fixed_point(visit, node, arrays, record, state), {}
        else:  # what was spent follows from public settings, and leaves in the clear
            vector, bits = numbers.encoded(arrays["sums"]), numbers.modulus_bits
            metrics = {name: float(record[name]) for name in (EPSILON.name,) if name in record}
        whole = WholeQuestion.of(visit, state) if visit.is_real else None  # a virtual node has one server, its own
        asked = whole.digest if whole else b""
        masked = node.mask(said_in(visit, Delivered), vector if is_masked else vector[:0], bits, asked)
        if whole:  # not before: a message that is refused must not name the question of the report that was sent
            visit.memory.texts[QUESTION] = whole.of_numbers(drawn=_is_drawn(visit)).hex()
    values = masked.values if is_masked else vector
    seed = report_seed(config.seed, round_number=instruction.round_number, node=visit.partition_id)
    records = {
        wire.ARRAYS: wire.pack_arrays({MASKED: np.frombuffer(packed(values, bits), np.uint8)}),
        wire.METRICS: wire.metrics_record(metrics, 1),
        wire.REPORT: wire.report_record(instruction, partition_id=visit.partition_id, seed=seed, sends=config.sends),
    }
    content = flower.filled(RecordDict(), records)
    wire.seal(content)
    return Message(content, reply_to=visit.message)


def _is_drawn(visit: Visit) -> bool:
    """Return whether the node's fit draws random numbers that change its report noticeably."""
    return not is_private(visit.config) and learner_of(visit.config).draws(len(examples_of(visit)))


def _fixed_point(
    visit: Visit, node: SecureNode, arrays: State, record: Mapping[str, Any], state: State
) -> tuple[Words, int]:
    """Return the vector of a change, its weight and its metrics, and the bits of its modulus."""
    config, instruction = visit.config, visit.instruction
    measured = {name: float(value) for name, value in record.items() if isinstance(value, int | float)}
    examples = int(measured.get(wire.NUM_EXAMPLES, 0))
    nodes = node.nodes_of(Question(config.out, *instruction.at))
    seed = drop_seed(nodes, seed=config.seed, at=instruction.at)
    summands = Summands(config, layout_of(state), _metrics(visit), seed)
    vector = summands.encoded(
        {name: difference(arrays[name], state[name]) for name in summands.lengths}, measured, examples,
        round_number=instruction.round_number, node=visit.partition_id,
    )  # fmt: skip
    return vector, summands.modulus_bits


def _metrics(visit: Visit) -> list[str]:
    """Return the names of the metrics that are summed, as the instruction says."""
    try:
        return wire.read_secure(visit.content).get(wire.METRICS, b"").decode().split()
    except UnicodeDecodeError:
        raise Refused("undecodable", "the names of metrics are no text") from None
