"""The fixed tree in which the reports of a round are added up.

The cohort, sorted by partition id, is cut into blocks of `BLOCK` positions, or of as many as are trained together; each
block is added up in order, and the blocks are added in order. The tree depends on the cohort and on that number
alone. So the sum is the same to the bit whether one process adds up everything or each worker its own blocks, in
whatever order the blocks end.
"""

from __future__ import annotations

from fedlearn.folding.fold import Fold, Sums, merge
from fedlearn.folding.plan import BLOCK, Verdict


def blocks_of(cohort_size: int, size: int = BLOCK) -> list[range]:
    """Return the positions of each block.

    >>> blocks_of(5)
    [range(0, 2), range(2, 4), range(4, 5)]
    """
    return [range(start, min(start + size, cohort_size)) for start in range(0, cohort_size, size)]


class FoldingTree:
    """Adds up a cohort in the fixed order, whatever the order in which its parts arrive.

    A part is kept until all parts before it have arrived; then it is added and forgotten.
    """

    def __init__(self, fold: Fold, cohort_size: int) -> None:
        self._fold = fold
        self._size = fold.plan.block
        self._blocks = blocks_of(cohort_size, self._size)
        self._verdicts: dict[int, Verdict | None] = {}  # by position, of blocks that are not complete
        self._sums: dict[int, Sums | None] = {}  # by block, kept until the blocks before have arrived
        self._next = 0
        self.total = fold.empty()

    def place(self, position: int, verdict: Verdict | None) -> None:
        """Add the verdict of one position; None for a position without a report."""
        self._verdicts[position] = verdict
        block = position // self._size
        if all(other in self._verdicts for other in self._blocks[block]):
            verdicts = [self._verdicts.pop(other) for other in self._blocks[block]]
            self.place_block(block, self._fold.of(v for v in verdicts if v is not None))

    def is_next(self, block: int) -> bool:
        """Return whether a block would be added at once, and not kept until others have arrived."""
        return block == self._next

    def place_block(self, block: int, total: Sums | None) -> None:
        """Add the sum of one block; None for a block without a sum."""
        self._sums[block] = total
        while self._next in self._sums:
            ready = self._sums.pop(self._next)
            if ready is not None:
                merge(self.total, ready)
            self._next += 1

    def close(self) -> Sums:
        """Return the total; positions without a verdict are left out."""
        for block in range(self._next, len(self._blocks)):
            if block in self._sums:
                continue
            verdicts = [self._verdicts.pop(position, None) for position in self._blocks[block]]
            self.place_block(block, self._fold.of(v for v in verdicts if v is not None))
        return self.total
