"""The two sources of randomness of a fit: the noise that protects, and the draws that need no protection."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedlearn.privacy import Noise, secure_noise, seeded_noise


def sources(noise: str, random_state: Any) -> tuple[Noise, np.random.Generator]:
    """Return the source of the protecting noise, and a generator for draws that need no protection.

    Parameters
    ----------
    noise
        ``"secure"`` or ``"seeded"``; seeded noise can be reproduced from `random_state`.
    random_state
        None, an integer, a numpy Generator or SeedSequence, or a RandomState.
    """
    protecting, structure = _sequence(random_state).spawn(2)
    return secure_noise() if noise == "secure" else seeded_noise(protecting), np.random.default_rng(structure)


def part_sources(noise: str, random_state: Any, part: int) -> tuple[Noise, np.random.Generator]:
    """Return the `sources` of one part (a node), the same on a node alone and with all parts in one place.

    Parameters
    ----------
    noise, random_state
        As in `sources`; the same `random_state` for all parts.
    part
        Number of the part, from 0.
    """
    common = _sequence(random_state)
    own = np.random.SeedSequence(common.entropy, spawn_key=(*common.spawn_key, 2 + part))  # 0 and 1 belong to `sources`
    return sources(noise, own)


def _sequence(random_state: Any) -> np.random.SeedSequence:
    """Return a fresh seed sequence; spawning from the caller's own would change its next fit."""
    if isinstance(random_state, np.random.SeedSequence):
        return np.random.SeedSequence(random_state.entropy, spawn_key=random_state.spawn_key)
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(int(random_state.randint(2**31 - 1)))
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(int(random_state.integers(2**63 - 1)))
    return np.random.SeedSequence(None if random_state is None else int(random_state))
