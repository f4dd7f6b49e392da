"""The state that a training message brings, decoded; the anchor that the node keeps for it.

A node keeps the last anchor that it was sent, as it travelled, and says its name when it is asked whether it is ready.
Where anchors move (``ef21``) it keeps each decoded state as the anchor of the next round.
"""

from __future__ import annotations

from client.request import Request
from fedlearn.config import RunConfig, per_run
from fedlearn.core.errors import Refused
from fedlearn.core.state import State, layout_of
from fedlearn.models.loaded import loaded
from fedlearn.wire.decoded_state import Downlink, read_anchor_name, read_anchor_payload

ANCHOR = "downlink.anchor"  # in the node's memory: what has travelled of the anchor, and the anchor's name


def state_in(request: Request) -> State:
    """Return the state that a training message brings, read-only; keep the anchor that it may bring.

    Raises
    ------
    Refused
        If the message brings no state, or one that does not decode, or names an anchor that the node does not have.
    """
    downlink, number = _downlink(request.config), request.instruction.round_number
    anchor = _anchor(request, downlink) if downlink.has_anchor else None
    state = downlink.state_in(request.content, round_number=number, anchor=anchor)
    if downlink.moves:
        name, payload = downlink.next_anchor(state, round_number=number)
        request.memory.arrays[ANCHOR], request.memory.texts[ANCHOR] = dict(payload), name
    return state


def kept_anchor(request: Request) -> str:
    """Return the name of the anchor that the node keeps; empty without one, or where the run has no anchors."""
    return request.memory.texts.get(ANCHOR, "") if _downlink(request.config).has_anchor else ""


def _anchor(request: Request, downlink: Downlink) -> State:
    name, memory = read_anchor_name(request.content), request.memory
    if (payload := read_anchor_payload(request.content)) is not None:
        anchor = downlink.anchor_of(name, payload)
        memory.arrays[ANCHOR], memory.texts[ANCHOR] = dict(payload), name
        return anchor
    if memory.texts.get(ANCHOR) != name or ANCHOR not in memory.arrays:
        raise Refused("lacks-anchor", f"the state is a correction to anchor {name[:40]!r}, which this client lacks")
    return downlink.anchor_of(name, memory.arrays[ANCHOR])


@per_run
def _downlink(config: RunConfig) -> Downlink:
    if config.compression.downlink == "identity":
        return Downlink.of(config, layout={})
    return Downlink.of(config, layout=layout_of(loaded(config)[1].initial_state(seed=config.seed)))
