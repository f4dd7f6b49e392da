"""The clipping norm of each round, in a run whose norm follows a quantile (`fedlearn.privacy.adaptive_clip`).

The norm of the next round follows from this round's noisy sums alone, and is stored with the state that was made of
them. An attempt that is made again has the norm of its round, whatever came of the attempt before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fedlearn.aggregation.fold_plan import ParcelPlan
from fedlearn.config import RunConfig
from fedlearn.core.state import Array, ArraySpec
from fedlearn.privacy.adaptive_clip import WITHIN, AdaptiveClip
from strategies.base import AVERAGE
from strategies.masked_mean import Float64, MaskedSum

if TYPE_CHECKING:
    from fedlearn.privacy.node_costs import NodePlan

NEXT = "privacy/clip"  # of the checkpoint: the round after it, and its clipping norm
ASKED = {WITHIN: ParcelPlan({WITHIN: ArraySpec((1,), "float32")}, AVERAGE, uniform=True)}


class RoundClip:
    """The clipping norms of one run, round after round.

    Parameters
    ----------
    plan : NodePlan
        Plan of the run.
    quantile : float
        Share of the changes that are to be within the norm.
    memory : mapping
        Arrays of the checkpoint; without the norm at first.
    """

    def __init__(self, plan: NodePlan, quantile: float, memory: Mapping[str, Array]) -> None:
        self.steps = AdaptiveClip(quantile, plan.noise_multiplier, plan.expected, plan.clip)
        number, clip = memory.get(NEXT, (1, plan.clip))
        self._now = self._next = (int(number), float(clip))

    @classmethod
    def of_run(cls, config: RunConfig, plan: NodePlan, memory: Mapping[str, Array]) -> RoundClip | None:
        """Return the norms of a run; None where the norm is fixed."""
        return cls(plan, config.privacy.clip_quantile, memory) if config.adapts_clip else None

    def of(self, round_number: int) -> float:
        """Return the clipping norm of the round that comes next, or is under way."""
        if self._next[0] == round_number:
            self._now = self._next  # the round before was committed
        return self._now[1]

    def joined(self, changes: Float64, counted: MaskedSum, round_number: int) -> Float64:
        """Return the sum of the nodes' vectors: their changes, and whether these were within the norm."""
        within = float(counted.totals[WITHIN][0]) if WITHIN in counted.totals else 0.0
        return self.steps.joined(changes, within, self.of(round_number))

    def parted(self, noisy: Float64, round_number: int) -> tuple[Float64, float]:
        """Return the noisy sum of changes and the noisy share within the norm, from which the next norm follows."""
        clip = self.of(round_number)
        changes, within = self.steps.parted(noisy, clip)
        self._next = round_number + 1, self.steps.next(clip, within)
        return changes, within

    def memory(self) -> dict[str, Array]:
        """Return the arrays of the checkpoint."""
        return {NEXT: np.array(self._next)}
