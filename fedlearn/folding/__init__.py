"""Adding up reports where they are made, in a fixed order."""

from fedlearn.cohort import Member
from fedlearn.folding.plan import Accumulator, FoldPlan, Gate, Verdict
from fedlearn.folding.tree import BLOCK, BlockResult, FoldingTree, blocks_of

__all__ = ["BLOCK", "Accumulator", "BlockResult", "FoldPlan", "FoldingTree", "Gate", "Member", "Verdict", "blocks_of"]
