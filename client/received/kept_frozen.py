"""Arrays of the model that no training message brings: frozen ones, and the first personal ones.

Every process makes them from the seed. A node of a network may come to other numbers, as it lacks a file of pretrained
weights, or has another version of torch. It then says so when it is asked whether it is ready; the server sends them
once, the node compares their SHA-256, and keeps them in its memory.
"""

from __future__ import annotations

from typing import Any

from client.request import Request
from fedlearn import wire
from fedlearn.config import RunConfig, per_run
from fedlearn.core.client_facts import LACKS
from fedlearn.core.errors import Refused
from fedlearn.core.state import State, digest_of
from fedlearn.models.loaded import loaded

UNSENT = "model.unsent"  # in the node's memory: the arrays, and their SHA-256


def why_not(request: Request) -> str:
    """Return that the node lacks the arrays that a ready query names; empty if it has them."""
    wanted = wire.wanted_unsent(request.content)
    return LACKS if wanted and wanted not in (_own(request.config), request.memory.texts.get(UNSENT)) else ""


def unsent_digest(request: Request) -> str:
    """Return the SHA-256 of the unsent arrays that the model computes with."""
    return request.memory.texts.get(UNSENT) or _own(request.config)


def keep(request: Request) -> None:
    """Keep the arrays that a server has sent.

    Raises
    ------
    Refused
        If their SHA-256 is not the one that the message names, or they do not fit the model.
    """
    arrays, wanted = wire.read_state(request.content), wire.wanted_unsent(request.content)
    if digest_of(arrays) != wanted:
        raise Refused("wrong-checksum", f"the unsent arrays have another SHA-256 than {wanted[:40]}")
    _take(request.config, arrays)
    request.memory.arrays[UNSENT], request.memory.texts[UNSENT] = arrays, wanted
    request.keep_memory()


def use(request: Request) -> None:
    """Let the model compute with the arrays that a server has sent, if it has sent any."""
    if arrays := request.memory.arrays.get(UNSENT):
        _take(request.config, arrays)


def _take(config: RunConfig, arrays: State) -> None:
    model: Any = loaded(config)[1]
    if not hasattr(model, "hold"):
        raise Refused("undecodable", "the model has no arrays that are not sent")
    model.hold(arrays)


@per_run
def _own(config: RunConfig) -> str:
    """Return the SHA-256 of the arrays that this process has made itself."""
    return digest_of(getattr(loaded(config)[1], "unsent", {}))
