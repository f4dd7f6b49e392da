"""The anchors of a run on the server: fixed every few rounds, stored with the state, sent to nodes that lack them.

The server keeps no list of who has which anchor: a node says so when it is asked whether it is ready. An asynchronous
schedule asks no node, and remembers in which round each has last answered an instruction (`Heard`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from flwr.app import ArrayRecord, Message

from fedlearn import wire
from fedlearn.compression import Anchor, Payload, anchor_codec, load_anchor, load_downlink
from fedlearn.compression.anchor import corrected, correction, name_of
from fedlearn.config import RunConfig
from fedlearn.core.cohort import At, Member
from fedlearn.core.errors import RunFailed
from fedlearn.core.metric import ANCHORS_SENT, DOWNLINK_ERROR, Measured
from fedlearn.core.seeding import anchor_seed, downlink_seed, rng_for
from fedlearn.core.state import Array, State, layout_of
from fedlearn.wire.decoded_state import Downlink, anchor_size, name_anchor

NORMAL = 1 << 14  # entries of the vector by which the error of corrections is estimated
HEARD = "heard"  # of the arrays of a schedule in the checkpoint
PREFIX = "anchor/"  # of the arrays in the checkpoint; then the round, and the part


class Fixed(NamedTuple):
    """An anchor that was fixed: its name, what travels of it, and its values as every node decodes them."""

    name: str
    payload: Payload
    record: ArrayRecord
    state: State


class Anchors:
    """The anchors on which nodes still work, the last of which new instructions name.

    Parameters
    ----------
    how
        How often anchors are fixed, and how they travel.
    state
        Any state of the run, for its layout.
    memory
        The arrays of the checkpoint that the run goes on from.
    """

    def __init__(self, config: RunConfig, how: Anchor, state: State, memory: Mapping[str, Array]) -> None:
        self._seed = config.seed
        self._how = how
        self._codec = load_downlink(config.compression)
        self._layout = layout_of(state)
        self._downlink = Downlink.of(config, layout=self._layout)
        self._fixed: dict[int, Fixed] = {}
        self._last: tuple[ArrayRecord, ArrayRecord] | None = None  # of a state, and of its correction
        self._sent = 0
        self._error: float | None = None
        for number, payload in _payloads(memory).items():
            self._keep(number, payload)

    @classmethod
    def of(cls, config: RunConfig, state: State, memory: Mapping[str, Array]) -> Anchors | None:
        """Return the anchors of a run; None where each state is coded by itself."""
        how = load_anchor(config.compression)
        return None if how is None else cls(config, how, state, memory)

    @property
    def names(self) -> list[str]:
        """The names of all anchors that are kept, the oldest first."""
        return [fixed.name for _, fixed in sorted(self._fixed.items())]

    def serving(self, round_number: int) -> Fixed | None:
        """Return the last anchor that was fixed in a round or before it; None before there is one."""
        return self._fixed.get(max((number for number in self._fixed if number <= round_number), default=0))

    def correct(self, messages: Sequence[Message], state: ArrayRecord, at: At, has: Mapping[int, str]) -> None:
        """Put corrections in place of the states in messages, and the anchor into those to nodes that lack it.

        Parameters
        ----------
        state
            The exact state of the round, of which a new anchor is made where one is due.
        has
            Node id -> the name of the anchor that the node says it keeps.
        """
        fixed = self._of_round(at.round_number, state)
        wire.replace_arrays(
            [message.content for message in messages],
            lambda record: self._corrected(record, fixed, at.round_number),
            keys_of=lambda content: [wire.state_key(content)],
        )
        for message in messages:
            lacks = has.get(message.metadata.dst_node_id) != fixed.name
            name_anchor(message.content, fixed.name, fixed.record if lacks else None)
            self._sent += lacks

    def memory(self, versions: Collection[int]) -> dict[str, Array]:
        """Return what a resume needs, and forget the anchors on which nobody works any more.

        Parameters
        ----------
        versions
            The rounds whose states nodes still work on.
        """
        in_use = {max(number for number in self._fixed if number <= version + 1) for version in versions}
        in_use |= {max(self._fixed)} if self._fixed else set()
        self._fixed = {number: self._fixed[number] for number in sorted(in_use)}
        return {
            f"{PREFIX}{number}/{part}": array
            for number, fixed in self._fixed.items()
            for part, array in fixed.payload.items()
        }

    def measured(self) -> Measured:
        """Return the columns of a round: the anchors sent since the last call, and the error of the last state."""
        sent, error, self._sent, self._error = self._sent, self._error, 0, None
        return {ANCHORS_SENT.name: sent, DOWNLINK_ERROR.name: error}

    def _of_round(self, round_number: int, state: ArrayRecord) -> Fixed:
        last = max((number for number in self._fixed if number <= round_number), default=0)
        if last and round_number - last < self._how.rounds:
            return self._fixed[last]
        seed = anchor_seed(self._seed, number=round_number)
        return self._keep(round_number, anchor_codec(self._how).encode(wire.unpack_arrays(state), seed=seed))

    def _keep(self, number: int, payload: Payload) -> Fixed:
        name = name_of(number, payload)
        self._fixed[number] = Fixed(name, payload, wire.pack_arrays(payload), self._downlink.anchor_of(name, payload))
        return self._fixed[number]

    def _corrected(self, record: ArrayRecord, fixed: Fixed, round_number: int) -> ArrayRecord:
        """Return the record of a correction; the same one for the same state, which is then decoded once."""
        if self._last is None or self._last[0] is not record:
            sent = wire.unpack_arrays(record)
            if layout_of(sent) != self._layout:
                raise RunFailed("the strategy sends other arrays than the state, to which there is no anchor")
            seed = downlink_seed(self._seed, round_number=round_number)
            payload = self._codec.encode(correction(sent, fixed.state), seed=seed)
            seen = corrected(fixed.state, self._codec.decode(payload, layout=self._layout, seed=seed), self._layout)
            self._error = _relative_error(seen, sent)
            self._last = record, wire.pack_arrays(payload)
            if self._how.moves:
                self._keep(round_number + 1, self._downlink.next_anchor(seen, round_number=round_number)[1])
        return self._last[1]


class Heard:
    """For asynchronous schedules: which anchor each node has, by the instruction that it has answered last.

    A node of which this is wrong, as its memory was lost, fails once, and is then sent the anchor again.
    """

    def __init__(self, anchors: Anchors | None, clients: int, stored: Mapping[str, Array]) -> None:
        self._anchors = anchors
        self._rounds = stored[HEARD].copy() if HEARD in stored else np.zeros(clients, np.int64)

    def note(self, partition: int, at: At, reply: Message) -> None:
        """Note what a node has answered to the instruction of an attempt: an error may mean that it has no anchor."""
        self._rounds[partition] = at.round_number if reply.has_content() else 0

    def has(self, members: Sequence[Member]) -> dict[int, str]:
        """Return the names of the anchors that nodes have, by node id; empty where a node may have none."""
        fixed = {each.node_id: self._serving(int(self._rounds[each.partition_id])) for each in members}
        return {node_id: "" if each is None else each.name for node_id, each in fixed.items()}

    def memory(self) -> dict[str, Array]:
        """Return what a resume needs: the round of each node, by partition."""
        return {} if self._anchors is None else {HEARD: self._rounds.copy()}

    def _serving(self, round_number: int) -> Fixed | None:
        return None if self._anchors is None else self._anchors.serving(round_number)


def expected(config: RunConfig, state: State) -> str:
    """Return what is to be expected of anchors that do not pay, or of too coarse corrections; empty of others."""
    how = load_anchor(config.compression)
    if how is None or how.moves:  # the latter is refused where it cannot pay
        return ""
    return "; ".join(filter(None, (_saved(config, how, state), _lost(config))))


def _saved(config: RunConfig, how: Anchor, state: State) -> str:
    """Return what is saved where the anchor's chain, without an anchor, would take less than half as much again."""
    share = how.sent_share(config.goal_count / config.clients)
    plain = _bytes(state)
    anchor = anchor_size(how, state)
    down = share * anchor + _bytes(load_downlink(config.compression).encode(state, seed=0))
    if down * 1.5 <= anchor:
        return ""
    return (
        f"compression.downlink = {config.compression.downlink}: with {config.goal_count} of {config.clients} clients "
        f"in a round, {share:.2f} of the instructions are expected to bring the anchor, and the way down to take "
        f"{plain / down:.1f} times fewer bytes than plain; {how.chain} without an anchor: {plain / anchor:.1f} times"
    )


def energy_lost(config: RunConfig) -> float:
    """Return the share of its energy, the squared L2 norm, that the correction of a normal vector loses."""
    state = {"x": rng_for(0, purpose="corrections").standard_normal(NORMAL, np.float32)}
    codec, layout, zero = load_downlink(config.compression), layout_of(state), {"x": np.zeros(NORMAL, np.float32)}
    seen = corrected(zero, codec.decode(codec.encode(state, seed=0), layout=layout, seed=0), layout)
    return _relative_error(seen, state) ** 2


def _lost(config: RunConfig) -> str:
    """Return how much a correction loses, where that is more than it holds: all nodes train from the same error."""
    if (lost := energy_lost(config)) < 1:
        return ""
    return (
        f"compression.downlink = {config.compression.downlink}: of a normal vector the correction loses {lost:.1f} "
        "times its energy, in all clients alike, so that clients would be nearer without it: take eden, or top-k"
    )


def _bytes(payload: Payload) -> int:
    return wire.bytes_of({wire.ARRAYS: wire.pack_arrays(payload)})


def _payloads(memory: Mapping[str, Array]) -> dict[int, dict[str, Array]]:
    found: dict[int, dict[str, Array]] = {}
    for name, array in memory.items():
        if name.startswith(PREFIX):
            number, _, part = name.removeprefix(PREFIX).partition("/")
            found.setdefault(int(number), {})[part] = array
    return found


def _relative_error(seen: State, exact: State) -> float:
    """Return the L2 norm of the difference of two states by that of the exact one, over all floats; 0 of zeros."""
    floats = [name for name, array in exact.items() if array.dtype.kind == "f"]
    wide = [(seen[name].astype(np.float64), exact[name].astype(np.float64)) for name in floats]
    error, norm = sum(float(((a - b) ** 2).sum()) for a, b in wide), sum(float((b**2).sum()) for _, b in wide)
    return float(f"{np.sqrt(error / norm):.6g}") if norm else 0.0
