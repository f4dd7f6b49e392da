"""The methods as the papers print them, with their true privacy loss; for comparison only."""

from experiments.private_trees.as_printed.forest import PrintedRandomForest
from experiments.private_trees.as_printed.id3 import PrintedID3
from experiments.private_trees.as_printed.regression import PrintedRegressionForest, PrintedRegressionTree
from experiments.private_trees.as_printed.true_loss import PrintedLoss

__all__ = [
    "PrintedID3",
    "PrintedLoss",
    "PrintedRandomForest",
    "PrintedRegressionForest",
    "PrintedRegressionTree",
]
