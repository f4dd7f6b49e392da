"""Configuration: one instruction for each member of the cohort, with the latest stored state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from flwr.app import ArrayRecord, ConfigRecord

from fedlearn import flower, wire
from fedlearn.core.cohort import At, Instruction, Member
from fedlearn.core.errors import RunFailed
from server.attempt import Configuration
from server.feature import Instructions
from server.run import ServerRun

NOTHING: Mapping[int, Mapping[str, bytes]] = MappingProxyType({})
NO_ANCHORS: Mapping[int, str] = MappingProxyType({})
KEPT = 2  # deadlines after which a network forgets an instruction; a report until then is found, and refused as late


def configure(
    run: ServerRun,
    cohort: Sequence[Member],
    at: At,
    beside: Mapping[int, Mapping[str, bytes]] = NOTHING,
    *,
    anchors: Mapping[int, str] = NO_ANCHORS,
) -> Configuration:
    """Return the strategy's messages to the cohort, each with our instruction; they count as sent.

    Parameters
    ----------
    beside
        Node id -> what a secure sum says to the node.
    anchors
        Node id -> the name of the anchor that the node says it keeps.
    """
    configuration = written(run, cohort, at, wire.pack_arrays(run.state), anchors=anchors)
    for message, member in zip(configuration.messages, configuration.members, strict=True) if beside else ():
        flower.filled(message.content, {wire.SECURE: wire.secure_record(beside[member.node_id])})
    if beside:
        configuration = replace(configuration, bytes_down=wire.bytes_of_all(configuration.messages))
    run.exchange.traffic.down += configuration.bytes_down
    cohort_size = len(configuration.members)
    run.events.write("configured", **at.where, cohort=cohort_size, bytes=configuration.bytes_down)
    return configuration


def written(
    run: ServerRun,
    cohort: Sequence[Member],
    at: At,
    state: ArrayRecord,
    *,
    first: int = 0,
    anchors: Mapping[int, str] | None = None,
    again: bool = False,
) -> Configuration:
    """Return the strategy's messages to nodes that are sent a state, each with our instruction; count nothing.

    Parameters
    ----------
    state
        The one that was stored before round `at`.
    first
        The position of the first of them.
    anchors
        Node id -> the name of the anchor that the node says it keeps; None where nodes were not asked.
    again
        Whether they were sent, and counted, before the run was stopped.

    Raises
    ------
    RunFailed
        If the strategy writes to nodes outside the cohort, or waits for more nodes than it has.
    """
    with run.draws.to_choose(run.strategy, "training", at):
        written = list(run.strategy.configure_train(at.round_number, state, ConfigRecord(), run.grid_of(cohort)))
    by_node = {message.metadata.dst_node_id: message for message in written}
    if strangers := by_node.keys() - {member.node_id for member in cohort}:
        raise RunFailed(
            f"strategy {type(run.strategy).__name__} writes to clients outside the cohort: {sorted(strangers)}"
        )
    # A strategy may leave nodes out (fraction_train below one): positions count those that are left.
    addressed = [member for member in cohort if member.node_id in by_node]
    members = [member._replace(position=position) for position, member in enumerate(addressed, start=first)]
    deadline = run.rounds.reporting_deadline
    ttl = deadline if run.exchange.is_virtual else KEPT * deadline
    messages = [
        wire.with_instruction(by_node[member.node_id], Instruction(*at, member.position), ttl=ttl) for member in members
    ]
    instructions = Instructions(messages, members, state, at, anchors, again)
    for each in run.features:
        each.instruct(instructions)
    return Configuration(messages, members, wire.bytes_of_all(messages), instructions.anchor)
