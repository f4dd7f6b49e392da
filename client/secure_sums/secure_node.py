"""A node's part in secure sums: its keys, its masked report, and its memory of both (`fedlearn.secure.node_protocol`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from flwr.app import Message, RecordDict

from client.examples import examples_of
from client.isolated_fits import learner_of
from client.owner.error_disclosure import is_private
from client.owner.peers import demands_of, key_of
from client.owner.signed_sets import QUESTION
from client.request import Request
from client.secure_sums.whole_question import WholeQuestion
from fedlearn import flower, wire
from fedlearn.aggregation.modular import MASKED
from fedlearn.core.errors import Refused
from fedlearn.core.metric import EPSILON
from fedlearn.core.seeding import report_seed
from fedlearn.core.state import State, difference, layout_of
from fedlearn.models.loaded import whole_numbers_of
from fedlearn.secure import texts
from fedlearn.secure.groups import drop_seed
from fedlearn.secure.masks import Words
from fedlearn.secure.node_protocol import SecureNode
from fedlearn.secure.packed import packed
from fedlearn.secure.protocol_messages import Delivered
from fedlearn.secure.question import Question
from fedlearn.secure.summands import Summands

SUM = "sum"  # name of the node's part in secure sums, among its secrets
T = TypeVar("T")


def said_in(request: Request, kind: type[T]) -> T:
    """Return what a message says of one kind.

    Raises
    ------
    Refused
        If it says nothing of that kind.
    """
    return texts.from_same(kind, wire.read_secure(request.content).get(kind.__name__, b""))


@contextmanager
def part_in(request: Request) -> Iterator[SecureNode]:
    """Give the node's part in the secure sums of this run as it stands, and store what the block makes of it."""
    secrets, run = request.memory.secrets, request.config.out
    memory = secrets.get(SUM, b"").decode()
    node = SecureNode(run, request.partition_id, demands=demands_of(request), signer=key_of(request), memory=memory)
    yield node
    secrets[SUM] = node.memory.encode()
    request.keep_memory()


def keys_of(request: Request) -> bytes:
    """Return the node's fresh keys for the attempt that a ready query is about; empty for one about no round."""
    at = wire.read_at(request.content)
    if not at.round_number:  # a server looks who is there
        return b""
    question = Question(request.config.out, *at)
    with part_in(request) as node:
        return texts.to_bytes(node.advertise(question))


def shares_noise(request: Request) -> bool:
    """Return whether a real node sends sums with a share of the noise alone, of which one sum may be made."""
    return request.is_real and request.config.privacy.trust == "distributed"


def has_joined(request: Request, round_number: int) -> bool:
    """Return whether the node remembers that it has joined a secure sum of this round, or of a later one."""
    with part_in(request) as node:
        return node.latest_round >= round_number


def forget_sum(request: Request) -> None:
    """Forget the secrets of the attempt that is over for the node; a late notice costs it no later one."""
    with part_in(request) as node:
        node.forget(Question(request.config.out, *wire.read_at(request.content)))


def masked_report(request: Request, arrays: State, record: Mapping[str, Any], *, state: State) -> Message:
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
    config, instruction = request.config, request.instruction
    numbers = whole_numbers_of(config, layout_of(state))
    is_masked = config.secure.sums == "masked"
    with part_in(request) as node:  # without masks all else is done: those of a vector of no entries
        if numbers is None:
            (vector, bits), metrics = _fixed_point(request, node, arrays, record, state), {}
        else:  # what was spent follows from public settings, and leaves in the clear
            vector, bits = numbers.encoded(arrays["sums"]), numbers.modulus_bits
            metrics = {name: float(record[name]) for name in (EPSILON.name,) if name in record}
        whole = WholeQuestion.of(request, state) if request.is_real else None  # a virtual node has one server, its own
        asked = whole.digest if whole else b""
        masked = node.mask(said_in(request, Delivered), vector if is_masked else vector[:0], bits, asked)
        if whole:  # not before: a message that is refused must not name the question of the report that was sent
            request.memory.texts[QUESTION] = whole.of_numbers(drawn=_is_drawn(request)).hex()
    values = masked.values if is_masked else vector
    seed = report_seed(config.seed, round_number=instruction.round_number, node=request.partition_id)
    records = {
        wire.ARRAYS: wire.pack_arrays({MASKED: np.frombuffer(packed(values, bits), np.uint8)}),
        wire.METRICS: wire.metrics_record(metrics, 1),
        wire.REPORT: wire.report_record(instruction, partition_id=request.partition_id, seed=seed, sends=config.sends),
    }
    content = flower.filled(RecordDict(), records)
    wire.seal(content)
    return Message(content, reply_to=request.message)


def _is_drawn(request: Request) -> bool:
    """Return whether the node's fit draws random numbers that change its report noticeably."""
    return not is_private(request.config) and learner_of(request.config).draws(len(examples_of(request)))


def _fixed_point(
    request: Request, node: SecureNode, arrays: State, record: Mapping[str, Any], state: State
) -> tuple[Words, int]:
    """Return the vector of a change, its weight and its metrics, and the bits of its modulus."""
    config, instruction = request.config, request.instruction
    measured = {name: float(value) for name, value in record.items() if isinstance(value, int | float)}
    examples = int(measured.get(wire.NUM_EXAMPLES, 0))
    nodes = node.nodes_of(Question(config.out, *instruction.at))
    seed = drop_seed(nodes, seed=config.seed, at=instruction.at)
    summands = Summands(config, layout_of(state), _metrics(request), seed)
    vector = summands.encoded(
        {name: difference(arrays[name], state[name]) for name in summands.lengths}, measured, examples,
        round_number=instruction.round_number, node=request.partition_id,
    )  # fmt: skip
    return vector, summands.modulus_bits


def _metrics(request: Request) -> list[str]:
    """Return the names of the metrics that are summed, as the instruction says."""
    try:
        return wire.read_secure(request.content).get(wire.METRICS, b"").decode().split()
    except UnicodeDecodeError:
        raise Refused("undecodable", "the names of metrics are no text") from None
