"""Arrays of the model that no training message brings: frozen ones, and the first personal ones.

Every process makes them from the seed. A node of a network may come to other numbers, as it lacks a file of pretrained
weights, or has another version of torch. It then says so when it is asked whether it is ready; the server sends them
once, the node compares their SHA-256, and keeps them in its memory.
"""

from __future__ import annotations

from typing import Any

from client.visit import Visit
from fedlearn import wire
from fedlearn.config import RunConfig, per_run
from fedlearn.models.loaded import loaded
from fedlearn.words.errors import Refused
from fedlearn.words.node import LACKS
from fedlearn.words.state import State, digest_of

UNSENT = "model.unsent"  # in the node's memory: the arrays, and their SHA-256


def why_not(visit: Visit) -> str:
    """Return that the node lacks the arrays that a ready query names; empty if it has them."""
    wanted = wire.wanted_unsent(visit.content)
    return LACKS if wanted and wanted not in (_own(visit.config), visit.memory.texts.get(UNSENT)) else ""


def unsent_digest(visit: Visit) -> str:
    """Return the SHA-256 of the unsent arrays that the model computes with."""
    return visit.memory.texts.get(UNSENT) or _own(visit.config)


def keep(visit: Visit) -> None:
    """Keep the arrays that a server has sent.

    Raises
    ------
    Refused
        If their SHA-256 is not the one that the message names, or they do not fit the model.
    """
    arrays, wanted = wire.read_state(visit.content), wire.wanted_unsent(visit.content)
    if digest_of(arrays) != wanted:
        raise Refused("wrong-checksum", f"the unsent arrays have another SHA-256 than {wanted[:40]}")
    _take(visit.config, arrays)
    visit.memory.arrays[UNSENT], visit.memory.texts[UNSENT] = arrays, wanted
    visit.keep_memory()


def use(visit: Visit) -> None:
    """Let the model compute with the arrays that a server has sent, if it has sent any."""
    if arrays := visit.memory.arrays.get(UNSENT):
        _take(visit.config, arrays)


def _take(config: RunConfig, arrays: State) -> None:
    model: Any = loaded(config)[1]
    if not hasattr(model, "hold"):
        raise Refused("undecodable", "the model has no arrays that are not sent")
    model.hold(arrays)


@per_run
def _own(config: RunConfig) -> str:
    """Return the SHA-256 of the arrays that this process has made itself."""
    return digest_of(getattr(loaded(config)[1], "unsent", {}))
