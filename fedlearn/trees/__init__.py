"""Differentially private trees, used like scikit-learn estimators, alone: without Flower, without torch."""

from fedlearn.trees.classification import DPClassificationTree, DPRandomForestClassifier
from fedlearn.trees.domain import Domain, NotPrivateWarning
from fedlearn.trees.nodes import MalformedTree, NodeTable, union
from fedlearn.trees.permute_and_flip_forest import PermuteAndFlipForest
from fedlearn.trees.regression import DPEnsembleTree, DPRegressionForest, DPRegressionTree
from fedlearn.trees.relay import DPRelayForest
from fedlearn.trees.voted import DPVotedForest

__all__ = [
    "DPClassificationTree",
    "DPEnsembleTree",
    "DPRandomForestClassifier",
    "DPRegressionForest",
    "DPRegressionTree",
    "DPRelayForest",
    "DPVotedForest",
    "Domain",
    "MalformedTree",
    "NodeTable",
    "NotPrivateWarning",
    "PermuteAndFlipForest",
    "union",
]
