"""The state that a training message brings, decoded."""

from __future__ import annotations

from client.visit import Visit
from fedlearn.config import RunConfig, per_run
from fedlearn.models.loaded import loaded
from fedlearn.wire.downlink import Downlink
from fedlearn.words.state import State, layout_of


def state_in(visit: Visit) -> State:
    """Return the state that a training message brings, read-only.

    Raises
    ------
    Refused
        If the message brings no state, or one that does not decode.
    """
    return _downlink(visit.config).state_in(visit.content, round_number=visit.instruction.round_number)


@per_run
def _downlink(config: RunConfig) -> Downlink:
    if config.compression.downlink == "identity":
        return Downlink.of(config, layout={})
    return Downlink.of(config, layout=layout_of(loaded(config)[1].initial_state(seed=config.seed)))
