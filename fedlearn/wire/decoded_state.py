"""The state on its way down, decoded: what a node trains, and what the gate measures a report by.

A state travels as it is, or coded, or as a coded correction to an anchor. A message then says the anchor's name, and
brings the anchor itself to a node that has another one (`fedlearn.compression.anchor`).
"""

from __future__ import annotations

from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from fedlearn import flower
from fedlearn.compression import Anchor, Codec, Payload, anchor_codec, load_anchor, load_downlink
from fedlearn.compression.anchor import corrected, name_of, number_in
from fedlearn.config import RunConfig
from fedlearn.core.errors import Refused
from fedlearn.core.seeding import anchor_seed, downlink_seed
from fedlearn.core.state import Array, Layout, State, Update
from fedlearn.wire.arrays import pack_arrays, unpack_arrays
from fedlearn.wire.content_records import ANCHOR, DOWNLINK, config_in, state_record
from fedlearn.wire.server_messages import read_state

ALIVE = 4  # decoded anchors that a process holds; synchronous rounds have one, asynchronous ones a few


class Downlink:
    """Decodes the states that a server sends by ``compression.downlink``.

    Parameters
    ----------
    codec
        What the states were encoded by, or the corrections; None of states that travel as they are.
    layout
        Of the state; read by the codec alone.
    seed
        Of the run.
    anchor
        How anchors travel; None where each state is coded by itself.
    """

    def __init__(self, codec: Codec | None, *, layout: Layout, seed: int, anchor: Anchor | None = None) -> None:
        self._codec, self._layout, self._seed = codec, layout, seed
        self._anchor_codec = None if anchor is None else anchor_codec(anchor)
        self.moves = anchor is not None and anchor.moves
        self._anchors: dict[str, State] = {}
        self._next: tuple[State, str, Payload] | None = None
        self._last: tuple[ArrayRecord, State] | None = None

    @classmethod
    def of(cls, config: RunConfig, *, layout: Layout) -> Downlink:
        """Return the decoder of a run."""
        is_plain = config.compression.downlink == "identity"
        codec, anchor = None if is_plain else load_downlink(config.compression), load_anchor(config.compression)
        return cls(codec, layout=layout, seed=config.seed, anchor=anchor)

    @property
    def has_anchor(self) -> bool:
        """Whether the states travel as corrections to an anchor."""
        return self._anchor_codec is not None

    def state_in(self, content: RecordDict, *, round_number: int, anchor: State | None = None) -> State:
        """Return the state that an instruction of a round brings, read-only.

        Nodes of one process are given the very same record in a round: it is decoded once.

        Parameters
        ----------
        anchor
            The decoded anchor that the message names (`anchor_of`); None where there are no anchors.

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
            state = self._dense(update) if anchor is None else corrected(anchor, update, self._layout)
            self._last = record, _read_only(state)
        return self._last[1]

    def anchor_of(self, name: str, payload: Payload) -> State:
        """Return the anchor of a name, read-only, from what travels of it; it is decoded once, and compared each time.

        Raises
        ------
        Refused
            If the payload does not decode, or is that of another anchor.
        """
        if (number := number_in(name)) < 1 or name_of(number, payload) != name:
            raise Refused("wrong-anchor", f"{name[:40]!r} is not the name of the anchor that is there")
        if name not in self._anchors:
            assert self._anchor_codec is not None
            seed = anchor_seed(self._seed, number=number)
            update = self._anchor_codec.decode(payload, layout=self._layout, seed=seed)
            while len(self._anchors) >= ALIVE:
                del self._anchors[next(iter(self._anchors))]
            self._anchors[name] = _read_only(self._dense(update))
        return self._anchors[name]

    def next_anchor(self, state: State, *, round_number: int) -> tuple[str, Payload]:
        """Return the name and the payload of a round's decoded state as the anchor of the next round."""
        if self._next is None or self._next[0] is not state:
            assert self._anchor_codec is not None
            payload = self._anchor_codec.encode(state, seed=0)  # exact: nothing is drawn
            self._next = state, name_of(round_number + 1, payload), payload
        return self._next[1:]

    def _dense(self, update: Update) -> dict[str, Array]:
        return {name: entries.dense(self._layout[name]) for name, entries in update.items()}


def _read_only(state: dict[str, Array]) -> State:
    for array in state.values():
        array.flags.writeable = False
    return state


def name_anchor(content: RecordDict, name: str, record: ArrayRecord | None) -> None:
    """Say in a message to which anchor its state is a correction, and bring that anchor, if it is given."""
    flower.filled(content, {DOWNLINK: flower.filled(ConfigRecord(), {"anchor": name})})
    if record is not None:
        flower.filled(content, {ANCHOR: record})


def anchor_size(anchor: Anchor, state: State) -> int:
    """Return the bytes that an anchor adds to the message that brings it."""
    payload = anchor_codec(anchor).encode(state, seed=0)
    return flower.size_in_bytes(ANCHOR, pack_arrays(payload))


def read_anchor_name(content: RecordDict) -> str:
    """Return the name of the anchor to which the state of a message is a correction.

    Raises
    ------
    Refused
        If the message names none.
    """
    record = config_in(content, DOWNLINK)
    name = None if record is None else record.get("anchor")
    if not isinstance(name, str):
        raise Refused("undecodable", "the message does not say to which anchor its state is a correction")
    return name


def read_anchor_payload(content: RecordDict) -> Payload | None:
    """Return what travels of the anchor that a message brings; None if it brings none."""
    record = content.get(ANCHOR)
    return unpack_arrays(record) if isinstance(record, ArrayRecord) else None
