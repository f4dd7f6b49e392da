"""The methods as the papers print them, with their true privacy loss; for comparison only."""

from fedlearn.private_trees.as_printed.forest import PrintedRandomForest
from fedlearn.private_trees.as_printed.id3 import PrintedID3
from fedlearn.private_trees.as_printed.regression import PrintedRegressionForest, PrintedRegressionTree
from fedlearn.private_trees.as_printed.true_loss import PrintedLoss

__all__ = [
    "PrintedID3",
    "PrintedLoss",
    "PrintedRandomForest",
    "PrintedRegressionForest",
    "PrintedRegressionTree",
]
