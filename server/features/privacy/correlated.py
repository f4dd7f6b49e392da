"""Correlated noise in a run that protects nodes: rows that are drawn once, kept secret, and never drawn again.

A row of noise takes away what earlier rows have added, so the server keeps the last ones: in its checkpoint, in a file
that its own user alone can read. The row of a round is drawn when its sum is released, and stored with the state that
was made of it before anything of that state is told. A run that is resumed goes on with the stored rows. A row whose
round was abandoned, or killed before it was stored, has hidden nothing that anybody has seen: the next attempt draws
another one from the same earlier rows. After the last round no row is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fedlearn.core.state import Array
from fedlearn.privacy.clipping import SLACK
from fedlearn.privacy.factorization import CorrelatedNoise
from fedlearn.privacy.factorization.banded import Banded
from fedlearn.privacy.factorization.inverse_banded import Factorization, InverseBanded
from fedlearn.privacy.node_costs import NodePlan
from fedlearn.privacy.noise import Noise
from strategies.masked_mean import Float64

MATRIX, INVERSE = "privacy/correlation", "privacy/inverse"  # names of arrays in the checkpoint: one of both, and
ROWS, DONE = "privacy/rows", "privacy/rounds"
Memory = Mapping[str, Array]


class CorrelatedRows:
    """The noise of the rounds of one run.

    Parameters
    ----------
    plan : NodePlan
        Plan of the run, with its correlation.
    memory : mapping
        Arrays of the checkpoint; without rows at first.
    """

    def __init__(self, plan: NodePlan, memory: Memory) -> None:
        assert plan.correlation is not None
        self._matrix = plan.correlation
        done = int(memory[DONE]) if DONE in memory else 0
        sensitivity = self._matrix.sensitivity(plan.separation)
        self._kept = CorrelatedNoise(
            self._matrix, plan.separation, clip=plan.clip * (1 + SLACK),
            noise_multiplier=plan.noise_multiplier / sensitivity,
            rows=[] if done == self._matrix.rounds else list(memory.get(ROWS, ())),
            done=0 if done == self._matrix.rounds else done,
        )  # fmt: skip
        self._drawn = self._kept

    @classmethod
    def of(cls, plan: NodePlan, memory: Memory) -> CorrelatedRows | None:
        """Return the rows of a run; None where the noise of rounds is independent."""
        return None if plan.correlation is None else cls(plan, memory)

    def added(self, exact: Float64, noise: Noise, round_number: int) -> Float64:
        """Return a round's sum plus its row; asked again for the same round, another row on the same earlier ones."""
        if self._drawn.done < round_number:
            self._kept = self._drawn  # the round before was committed
        self._drawn = replace(self._kept, rows=list(self._kept.rows))
        if self._drawn.done != round_number - 1:
            raise ValueError(f"round {round_number}: the rows of noise are those after round {self._drawn.done}")
        row = self._drawn.draw(exact.size, noise)
        return self._drawn.added(exact, row)

    def deviation(self, round_number: int) -> float:
        """Return the standard deviation of the noise in a round's sum, in the unit of its values."""
        return self._kept.deviation * self._matrix.row_deviation(round_number)

    def memory(self) -> dict[str, Array]:
        """Return the arrays of the checkpoint after the round that was released last."""
        name = MATRIX if isinstance(self._matrix, Banded) else INVERSE
        found: dict[str, Array] = {name: self._matrix.rows, DONE: np.array(self._drawn.done)}
        if self._drawn.rows and self._drawn.done < self._matrix.rounds:
            found[ROWS] = np.stack(self._drawn.rows)
        return found


def matrix_in(memory: Memory) -> Factorization | None:
    """Return the matrix with which the run of a checkpoint began; None at first, and where noise is independent."""
    if INVERSE in memory:
        return InverseBanded(memory[INVERSE])
    return Banded(memory[MATRIX]) if MATRIX in memory else None
