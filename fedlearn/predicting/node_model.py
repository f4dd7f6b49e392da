"""The model of a single node: personal layers, or a whole model that the node keeps for itself."""

from __future__ import annotations

from numbers import Integral
from pathlib import Path
from typing import Any

from fedlearn.config import RunConfig
from fedlearn.core.errors import UsageError
from fedlearn.core.state import State, is_same
from fedlearn.engine.node_calls import FIRST_NODE_ID
from fedlearn.plugins.own_packages import claimed
from fedlearn.plugins.registry import load_reference
from fedlearn.plugins.tables import CLIENT_OWN
from fedlearn.runs.file_names import CHECKPOINT, NODE_STATES
from fedlearn.runs.manifest import Manifest
from fedlearn.runs.memories import unpacked
from fedlearn.runs.stored_round import read_part


def state_on_node(folder: Path, node: int, state: State, model: Any, config: RunConfig) -> State:
    """Return the state that a node of a simulation uses.

    Parameters
    ----------
    folder
        The run folder.
    node
        Number of the node, from 0.
    state
        The run's state.
    model
        The model, planned by the settings.

    Raises
    ------
    UsageError
        If there is no such node, or it has kept no model of its own.
    """
    if not isinstance(node, Integral) or not 0 <= node < config.clients:
        raise UsageError(f"client = {node!r}: the run has clients 0 to {config.clients - 1}")
    kept = _memories(folder).get(FIRST_NODE_ID + node, b"")
    if kept:
        with claimed():
            own: State = load_reference(CLIENT_OWN)(kept, state, model, config)
        if not is_same(own, state):
            return own
    why = (
        "it took part in no round, or the run keeps no personal layers (training.personal), or was made on a network, "
        "whose clients keep theirs to themselves"
    )
    raise UsageError(f"{folder}: client {node} has no model of its own: {why}")


def _memories(folder: Path) -> dict[int, bytes]:
    """Return node id -> memory, of the nodes that keep any."""
    manifest = Manifest.read(folder / CHECKPOINT)
    name = next((name for name in manifest.files if NODE_STATES.fullmatch(name)), "")
    return unpacked(read_part(folder, name, manifest.files[name], first=manifest.sizes.get(name))) if name else {}
