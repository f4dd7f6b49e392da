"""The state that a training message brings, decoded; the anchor that the node keeps for it.

A node keeps the last anchor that it was sent, as it travelled, and says its name when it is asked whether it is ready.
Where anchors move (``ef21``) it keeps each decoded state as the anchor of the next round.

Of a state of which one array only gets longer (`grows` of the model) it keeps that array, says its name in the same
way, and is sent the end of it.
"""

from __future__ import annotations

import numpy as np

from client.request import Request
from fedlearn import wire
from fedlearn.config import RunConfig, per_run
from fedlearn.core.errors import Refused
from fedlearn.core.state import State, layout_of
from fedlearn.models.loaded import loaded
from fedlearn.wire.decoded_state import Downlink, read_anchor_name, read_anchor_payload
from fedlearn.wire.grown import length_in, name_of

GROWN = "downlink.grown"  # in the node's memory: the array that only gets longer, and its name
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
    if grows := _grows(request.config):
        return _grown(request, state, grows)
    if downlink.moves:
        name, payload = downlink.next_anchor(state, round_number=number)
        request.memory.arrays[ANCHOR], request.memory.texts[ANCHOR] = dict(payload), name
    return state


def kept_anchor(request: Request) -> str:
    """Return the name of the anchor that the node keeps; empty without one, or where the run has no anchors."""
    if _downlink(request.config).has_anchor:
        return request.memory.texts.get(ANCHOR, "")
    return request.memory.texts.get(GROWN, "") if _grows(request.config) else ""


def _grown(request: Request, state: State, grows: str) -> State:
    """Return the state with the whole of the array that grows, of which the message may bring the end; keep it."""
    memory = request.memory
    if wire.DOWNLINK in request.content:
        name = read_anchor_name(request.content)
        begun = memory.arrays.get(GROWN, {}).get(grows, np.zeros(0))[: length_in(name)]
        if not len(begun) or name_of(begun) != name:
            raise Refused("lacks-anchor", f"the state goes on from {name[:40]!r}, which this client lacks")
        state = {**state, grows: np.concatenate([begun, state[grows]])}
    if grows in state:
        memory.arrays[GROWN], memory.texts[GROWN] = {grows: state[grows]}, name_of(state[grows])
    return state


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
def _grows(config: RunConfig) -> str:
    """Return the name of the array of the state that only gets longer; empty without one."""
    return str(getattr(loaded(config)[1], "grows", ""))


@per_run
def _downlink(config: RunConfig) -> Downlink:
    if config.compression.downlink == "identity":
        return Downlink.of(config, layout={})
    return Downlink.of(config, layout=layout_of(loaded(config)[1].initial_state(seed=config.seed)))
