"""The way down with anchors, told in the plainest words: every node with a list of its own, every state coded anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fedlearn.compression import load_codec
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.core.seeding import anchor_seed, downlink_seed
from fedlearn.core.state import State, layout_of


def through(code: str, state: State, seed: int) -> dict[str, np.ndarray]:
    """Return what is decoded of a coded state; zero where nothing was sent."""
    codec = load_codec(CompressionSettings(codec=code, send="update"))
    update = codec.decode(codec.encode(state, seed=seed), layout=layout_of(state), seed=seed)
    decoded = {}
    for name, array in state.items():
        flat = np.zeros(array.size, array.dtype)
        if name in update:
            flat[slice(None) if update[name].positions is None else update[name].positions] = update[name].values
        decoded[name] = flat.reshape(array.shape)
    return decoded


def seen(states: Sequence[State], *, every: int, anchor_code: str, code: str, seed: int) -> list[dict[str, np.ndarray]]:
    """Return what the nodes of each round train from.

    Parameters
    ----------
    states
        The exact state before each round, from round 1.
    """
    found, anchor = [], {}
    for number, state in enumerate(states, start=1):
        if (number - 1) % every == 0:
            anchor = through(anchor_code, state, anchor_seed(seed, number=number))
        less = {name: array - anchor[name] for name, array in state.items()}
        change = through(code, less, downlink_seed(seed, round_number=number))
        found.append({name: anchor[name] + change[name] for name in state})
    return found


def followed(states: Sequence[State], *, code: str, seed: int) -> list[dict[str, np.ndarray]]:
    """Return what the nodes of each round train from where each decoded state is the anchor of the next round."""
    found, before = [], {name: array.copy() for name, array in states[0].items()}
    for number, state in enumerate(states, start=1):
        less = {name: array - before[name] for name, array in state.items()}
        change = through(code, less, downlink_seed(seed, round_number=number))
        before = {name: before[name] + change[name] for name in state}
        found.append(before)
    return found


def anchors_sent(cohorts: Mapping[tuple[int, int], Iterable[int]], *, every: int) -> list[int]:
    """Return how many nodes of each round need the anchor, where every node has got what it was sent.

    Parameters
    ----------
    cohorts
        (round, attempt) -> the nodes that were asked.
    """
    has: dict[int, int] = {}
    sent: dict[int, int] = {}
    for (number, _), cohort in sorted(cohorts.items()):
        current = number - (number - 1) % every
        lacking = [node for node in cohort if has.get(node) != current]
        has |= dict.fromkeys(lacking, current)
        sent[number] = sent.get(number, 0) + len(lacking)
    return list(sent.values())
