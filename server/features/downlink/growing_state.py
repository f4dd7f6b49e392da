"""A state of which one array only gets longer: a client that keeps what it has seen is sent the rest.

A client says which array it keeps when it is asked whether it is ready, by length and hash, as it names an anchor
(`fedlearn.wire.grown`). One that keeps another array, or none, is sent all of it; so are clients of a schedule that
asks none.
"""

from __future__ import annotations

from typing import Any

from flwr.app import ArrayRecord

from fedlearn import wire
from fedlearn.config import RunConfig
from fedlearn.core.state import State
from fedlearn.wire.decoded_state import name_anchor
from fedlearn.wire.grown import length_in, name_of
from server.feature import Feature, Instructions
from strategies.base import RoundStrategy


class GrowingState(Feature):
    """Sends the end of an array that only gets longer."""

    @classmethod
    def is_asked(cls, config: RunConfig, strategy: RoundStrategy[Any]) -> bool:
        """Return whether the strategy names such an array."""
        return bool(strategy.grows)

    def instruct(self, instructions: Instructions) -> None:
        """Put the end of the array in place of it, in messages to clients that keep its beginning."""
        state = wire.unpack_arrays(instructions.state)
        ends: dict[str, ArrayRecord | None] = {}
        for message in instructions.messages:
            kept = (instructions.anchors or {}).get(message.metadata.dst_node_id, "")
            if kept not in ends:
                ends[kept] = self._end_of(state, kept)
            if (end := ends[kept]) is not None:
                message.content[wire.state_key(message.content)] = end
                name_anchor(message.content, kept, None)

    def _end_of(self, state: State, kept: str) -> ArrayRecord | None:
        """Return the state with the end of the array alone; None where `kept` does not name its beginning."""
        grown, count = state[self.strategy.grows], length_in(kept)
        if not len(grown[:count]) or name_of(grown[:count]) != kept:
            return None
        return wire.pack_arrays({**state, self.strategy.grows: grown[count:]})
