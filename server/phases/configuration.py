"""Configuration: one instruction for each member of the cohort, with the latest stored state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flwr.app import ArrayRecord, ConfigRecord, Message
from flwr.serverapp import Grid

from fedlearn import wire
from fedlearn.cohort import Instruction
from fedlearn.compression import Payload
from fedlearn.errors import RunFailed
from fedlearn.folding import Member
from fedlearn.state import State
from server.grids import CohortGrid
from strategies import RoundStrategy


@dataclass(frozen=True, slots=True)
class Configuration:
    """The messages of an attempt and the members they go to, in the order of positions; their size in bytes."""

    messages: Sequence[Message]
    members: Sequence[Member]
    bytes_down: int


def configure(
    strategy: RoundStrategy,
    state: State,
    cohort: Sequence[Member],
    grid: Grid,
    *,
    round_number: int,
    attempt: int,
    ttl: float,
    shrink: Callable[[State], Payload] | None = None,
) -> Configuration:
    """Return the strategy's messages to the cohort, each with our instruction.

    Parameters
    ----------
    shrink
        Makes of a state what travels in its place; None where it travels as it is. The strategy sees the state.

    Raises
    ------
    RunFailed
        If the strategy writes to nodes outside the cohort, or waits for more nodes than it has.
    """
    arrays = wire.pack_arrays(state)
    view = CohortGrid(grid, [member.node_id for member in cohort])
    written = strategy.configure_train(round_number, arrays, ConfigRecord(), view)
    by_node = {message.metadata.dst_node_id: message for message in written}
    if strangers := by_node.keys() - {member.node_id for member in cohort}:
        raise RunFailed(f"strategy {type(strategy).__name__} writes to nodes outside the cohort: {sorted(strangers)}")
    # A strategy may leave nodes out (fraction_train below one): positions count those that are left.
    addressed = [member for member in cohort if member.node_id in by_node]
    members = [member._replace(position=position) for position, member in enumerate(addressed)]
    messages = [
        wire.with_instruction(by_node[member.node_id], Instruction(round_number, attempt, member.position), ttl=ttl)
        for member in members
    ]
    if shrink is not None:
        contents = [message.content for message in messages]
        wire.replace_arrays(contents, lambda record: wire.pack_arrays(shrink(wire.unpack_arrays(record))))
    return Configuration(messages, members, wire.bytes_of_all(messages))


def evaluation_messages(
    strategy: RoundStrategy, state: State, cohort: Sequence[Member], grid: Grid, *, round_number: int
) -> list[Message]:
    """Return the strategy's messages that ask the cohort to evaluate the state."""
    view = CohortGrid(grid, [member.node_id for member in cohort])
    arrays: ArrayRecord = wire.pack_arrays(state)
    return list(strategy.configure_evaluate(round_number, arrays, ConfigRecord(), view))
