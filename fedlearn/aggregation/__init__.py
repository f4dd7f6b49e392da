"""Adding up reports where they are made, in a fixed order."""

from fedlearn.aggregation.fold import Fold, ParcelFold, Sums, merge
from fedlearn.aggregation.fold_plan import (
    BLOCK,
    STATE,
    Accumulator,
    BlockResult,
    FoldPlan,
    FoldStep,
    Gate,
    ParcelPlan,
    StepSpec,
    Verdict,
)
from fedlearn.aggregation.steps import FOLD_STEPS
from fedlearn.aggregation.tree import FoldingTree, blocks_of, parts_of

__all__ = [
    "BLOCK",
    "FOLD_STEPS",
    "STATE",
    "Accumulator",
    "BlockResult",
    "Fold",
    "FoldPlan",
    "FoldStep",
    "FoldingTree",
    "Gate",
    "ParcelFold",
    "ParcelPlan",
    "StepSpec",
    "Sums",
    "Verdict",
    "blocks_of",
    "merge",
    "parts_of",
]
