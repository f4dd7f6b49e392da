"""Stale replay: the change of an attacker's first round, again and again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedlearn.attacks.claim import Attack, Claim
from fedlearn.core.state import Array


class StaleReplay(Attack):
    """Reports the change of the first round that the node took part in, in every later one; one model of memory."""

    def reported(self, claim: Claim, *, memory: dict[str, Array], rng: np.random.Generator) -> Claim:
        """Return the claim with the first change, which the node keeps in its memory."""
        floats = {name: array for name, array in claim.arrays.items() if array.dtype.kind == "f"}
        if not memory:
            memory |= {name: array - claim.state[name] for name, array in floats.items()}
        return replace(claim, arrays={**claim.arrays, **{name: claim.state[name] + memory[name] for name in floats}})
