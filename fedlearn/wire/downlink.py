"""The state on its way down, decoded: what a node trains, and what the gate measures a report by."""

from __future__ import annotations

from flwr.app import ArrayRecord, RecordDict

from fedlearn.compression import Codec, load_downlink
from fedlearn.config import RunConfig
from fedlearn.wire.arrays import unpack_arrays
from fedlearn.wire.messages import read_state
from fedlearn.wire.records import state_record
from fedlearn.words.seeding import downlink_seed
from fedlearn.words.state import Layout, State


class Downlink:
    """Decodes the states that a server sends by ``compression.downlink``.

    Parameters
    ----------
    codec
        What the states were encoded by; None of states that travel as they are.
    layout
        Of the state; read by the codec alone.
    seed
        Of the run.
    """

    def __init__(self, codec: Codec | None, *, layout: Layout, seed: int) -> None:
        self._codec, self._layout, self._seed = codec, layout, seed
        self._last: tuple[ArrayRecord, State] | None = None

    @classmethod
    def of(cls, config: RunConfig, *, layout: Layout) -> Downlink:
        """Return the decoder of a run."""
        is_plain = config.compression.downlink == "identity"
        return cls(None if is_plain else load_downlink(config.compression), layout=layout, seed=config.seed)

    def state_in(self, content: RecordDict, *, round_number: int) -> State:
        """Return the state that an instruction of a round brings, read-only.

        Nodes of one process are given the very same record in a round: it is decoded once.

        Raises
        ------
        Refused
            If the message brings no state, or one that does not decode.
        """
        if self._codec is None:
            return read_state(content)
        record = state_record(content)
        if self._last is None or self._last[0] is not record:
            seed = downlink_seed(self._seed, round_number=round_number)
            update = self._codec.decode(unpack_arrays(record), layout=self._layout, seed=seed)
            state = {name: entries.dense(self._layout[name]) for name, entries in update.items()}
            for array in state.values():
                array.flags.writeable = False
            self._last = record, state
        return self._last[1]
