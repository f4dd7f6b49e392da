"""The way down as a feature of the round: what is put in place of the state in messages, and what comes of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flwr.app import Message

from fedlearn import wire
from fedlearn.compression import load_anchor, load_downlink
from fedlearn.config import RunConfig
from fedlearn.core.cohort import At, Member
from fedlearn.core.metric import ANCHORS_SENT, DOWNLINK_ERROR
from fedlearn.core.metrics import Metrics
from fedlearn.core.seeding import downlink_seed
from fedlearn.core.state import Array, State
from server.feature import Added, Feature, Instructions, Measure, Measures, NewState
from server.features.downlink.anchors import HEARD, PREFIX, Anchors, Heard, expected
from server.features.downlink.downlink_rules import RULES
from server.run import ServerRun
from strategies.base import RoundStrategy

STORED = f"schedule/{HEARD}"  # its name in checkpoints: which anchors nodes have, where they are not asked


class CodedDownlink(Feature):
    """Codes the states that nodes are sent."""

    run: ServerRun
    rules = RULES
    stores = PREFIX

    def __init__(self) -> None:
        self._anchors: Anchors | None = None
        self._heard: Heard | None = None
        self._state: State = {}

    @classmethod
    def is_asked(cls, config: RunConfig, strategy: RoundStrategy[Any]) -> bool:
        """Return whether states are not sent as they are."""
        return config.compression.downlink != "identity"

    def metrics(self, of_model: Metrics) -> Added:
        """Return the columns of anchors."""
        return Added((ANCHORS_SENT, DOWNLINK_ERROR) if load_anchor(self.config.compression) is not None else ())

    def begin(self, state: State, memory: Mapping[str, Array]) -> None:
        """Take up the anchors on which nodes still work, if states are sent as corrections."""
        self._state = state
        self._anchors = Anchors.of(self.config, state, memory)
        if STORED in memory:
            self._heard = Heard(self._anchors, self.config.clients, {HEARD: memory[STORED]})

    def notices(self) -> Sequence[str]:
        """Return what is to be expected of anchors that do not pay."""
        return [expected(self.config, self._state)]

    def instruct(self, instructions: Instructions) -> None:
        """Put the coded state, or a correction to an anchor, in place of the state."""
        if self._anchors is None:
            self._code(instructions)
            return
        has = instructions.anchors
        if has is None:
            self._heard = self._heard or Heard(self._anchors, self.config.clients, {})
            has = self._heard.has(instructions.members)
        self._anchors.correct(instructions.messages, instructions.state, instructions.at, has)
        fixed = self._anchors.serving(instructions.at.round_number)
        instructions.anchor = None if fixed is None else fixed.state
        if instructions.again:
            self._anchors.measured()  # they were counted before

    def answered(self, member: Member, at: At, reply: Message) -> None:
        """Note which anchor a node has, by what it has answered."""
        if self._heard is not None:
            self._heard.note(member.partition_id, at, reply)

    def measured(self, new: NewState, measure: Measure) -> Measures:
        """Return the measures with the anchors that were sent for a state, and the error of its correction."""
        found = measure(new)
        if self._anchors is None or new.once:
            return found
        return replace(found, columns={**found.columns, **self._anchors.measured()})

    def memory(self, versions: Collection[int]) -> Mapping[str, Array]:
        """Return the anchors on which nodes work, and which each node has, where they are not asked."""
        if self._anchors is None:
            return {}
        heard = {} if self._heard is None else {STORED: self._heard.memory()[HEARD]}
        return {**self._anchors.memory(versions), **heard}

    def _code(self, instructions: Instructions) -> None:
        codec = load_downlink(self.config.compression)
        seed = downlink_seed(self.config.seed, round_number=instructions.at.round_number)
        wire.replace_arrays(
            [message.content for message in instructions.messages],
            lambda record: wire.pack_arrays(codec.encode(wire.unpack_arrays(record), seed=seed)),
            keys_of=lambda content: [wire.state_key(content)],
        )
