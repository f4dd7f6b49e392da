"""The state that a training message brings, decoded; the anchor that the node keeps for it.

A node keeps the last anchor that it was sent, as it travelled, and says its name when it is asked whether it is ready.
Where anchors move (``ef21``) it keeps each decoded state as the anchor of the next round.
"""

from __future__ import annotations

from client.visit import Visit
from fedlearn.config import RunConfig, per_run
from fedlearn.models.loaded import loaded
from fedlearn.wire.downlink import Downlink, read_anchor_name, read_anchor_payload
from fedlearn.words.errors import Refused
from fedlearn.words.state import State, layout_of

ANCHOR = "downlink.anchor"  # in the node's memory: what has travelled of the anchor, and the anchor's name


def state_in(visit: Visit) -> State:
    """Return the state that a training message brings, read-only; keep the anchor that it may bring.

    Raises
    ------
    Refused
        If the message brings no state, or one that does not decode, or names an anchor that the node does not have.
    """
    downlink, number = _downlink(visit.config), visit.instruction.round_number
    anchor = _anchor(visit, downlink) if downlink.has_anchor else None
    state = downlink.state_in(visit.content, round_number=number, anchor=anchor)
    if downlink.moves:
        name, payload = downlink.next_anchor(state, round_number=number)
        visit.memory.arrays[ANCHOR], visit.memory.texts[ANCHOR] = dict(payload), name
    return state


def kept_anchor(visit: Visit) -> str:
    """Return the name of the anchor that the node keeps; empty without one, or where the run has no anchors."""
    return visit.memory.texts.get(ANCHOR, "") if _downlink(visit.config).has_anchor else ""


def _anchor(visit: Visit, downlink: Downlink) -> State:
    name, memory = read_anchor_name(visit.content), visit.memory
    if (payload := read_anchor_payload(visit.content)) is not None:
        anchor = downlink.anchor_of(name, payload)
        memory.arrays[ANCHOR], memory.texts[ANCHOR] = dict(payload), name
        return anchor
    if memory.texts.get(ANCHOR) != name or ANCHOR not in memory.arrays:
        raise Refused("lacks-anchor", f"the state is a correction to anchor {name[:40]!r}, which this node lacks")
    return downlink.anchor_of(name, memory.arrays[ANCHOR])


@per_run
def _downlink(config: RunConfig) -> Downlink:
    if config.compression.downlink == "identity":
        return Downlink.of(config, layout={})
    return Downlink.of(config, layout=layout_of(loaded(config)[1].initial_state(seed=config.seed)))
