"""The fixed tree in which the reports of a round are added up.

The cohort, sorted by partition id, is cut into blocks of `BLOCK` positions, or of ``training.stack`` if that is more;
each block is added up in order, and the blocks are added in order. The tree depends on the cohort and on that number
alone. So the sum is the same to the bit whether one process adds up everything or each worker its own blocks, in
whatever order the blocks end; and a block may be cut into its positions, as the sum of a block begins at nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedlearn.aggregation.fold import Fold, Sums, merge
from fedlearn.aggregation.fold_plan import BLOCK, Verdict


def blocks_of(cohort_size: int, size: int = BLOCK) -> list[range]:
    """Return the positions of each block.

    >>> blocks_of(5)
    [range(0, 2), range(2, 4), range(4, 5)]
    """
    return [range(start, min(start + size, cohort_size)) for start in range(0, cohort_size, size)]


def parts_of(cohort_size: int, workers: int, *, block: int = BLOCK, stack: int = 1) -> list[tuple[int, range]]:
    """Return a number and the positions of each task: whole blocks, and at the end single positions of one block.

    Blocks that would leave workers idle at the end are cut into their positions, if there is a worker for each. Two
    workers then train five nodes each of ten, and not six and four. Where the nodes of a block are trained together
    (`stack`), each block is a task; where more nodes are, a task has at most so many, and each worker equally many.

    >>> parts_of(6, workers=2)
    [(0, range(0, 2)), (1, range(2, 4)), (2, range(4, 5)), (2, range(5, 6))]
    >>> parts_of(25, workers=2, stack=10)
    [(0, range(0, 6)), (1, range(6, 12)), (2, range(12, 18)), (3, range(18, 25))]
    """
    if 1 < stack <= block:
        return [*enumerate(blocks_of(cohort_size, block))]
    if stack > 1 and cohort_size:
        tasks = min(workers * -(-cohort_size // (workers * stack)), cohort_size)
        cuts = [cohort_size * place // tasks for place in range(tasks + 1)]
        return [*enumerate(map(range, cuts, cuts[1:]))]
    blocks = blocks_of(cohort_size)
    even = len(blocks) - len(blocks) % workers
    if cohort_size - BLOCK * even > workers:
        even = len(blocks)
    last = range(BLOCK * even, cohort_size)
    return [*enumerate(blocks[:even]), *((place // BLOCK, range(place, place + 1)) for place in last)]


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
        self._parts: dict[int, dict[int, tuple[int, Sums]]] = {}  # by block and first position: positions, sum
        self._next = 0
        self.total = fold.empty()

    def place(self, position: int, verdict: Verdict | None) -> None:
        """Add the verdict of one position; None for a position without a report."""
        self._verdicts[position] = verdict
        block = position // self._size
        if all(other in self._verdicts for other in self._blocks[block]):
            verdicts = [self._verdicts.pop(other) for other in self._blocks[block]]
            self.place_block(block, self._fold.of(v for v in verdicts if v is not None))

    def takes_at_once(self, positions: Sequence[int]) -> bool:
        """Return whether the sum of these positions would be added at once, and not kept until others have arrived."""
        return positions[0] // self._size == self._next and len(positions) == len(self._blocks[self._next])

    def place_part(self, positions: Sequence[int], total: Sums) -> None:
        """Add the sum of a block, or of a part of it; a part is kept until the other parts have arrived."""
        block = positions[0] // self._size
        parts = self._parts.setdefault(block, {})
        parts[min(positions)] = (len(positions), total)
        if sum(count for count, _ in parts.values()) == len(self._blocks[block]):
            self.place_block(block, self._joined(block))

    def _joined(self, block: int) -> Sums:
        """Return the sum of the parts of a block that have come, and forget them."""
        parts = self._parts.pop(block)
        first, *others = (parts[position][1] for position in sorted(parts))
        for later in others:
            merge(first, later)
        return first

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
            if block in self._parts:
                self.place_block(block, self._joined(block))
                continue
            verdicts = [self._verdicts.pop(position, None) for position in self._blocks[block]]
            self.place_block(block, self._fold.of(v for v in verdicts if v is not None))
        return self.total
