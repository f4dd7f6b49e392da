"""Differentially private trees, used like scikit-learn estimators, alone: without Flower, without torch."""

from fedlearn.trees.classes.classification import DPClassificationTree, DPRandomForestClassifier
from fedlearn.trees.classes.permute_and_flip_forest import PermuteAndFlipForest
from fedlearn.trees.domain import Domain, NotPrivateWarning
from fedlearn.trees.nodes import MalformedTree, NodeTable, union
from fedlearn.trees.numbers.regression import DPEnsembleTree, DPRegressionForest, DPRegressionTree
from fedlearn.trees.numbers.relay import DPRelayForest, RelayTurn
from fedlearn.trees.numbers.voted import DPVotedForest
from fedlearn.trees.searching import PrivateSearch
from fedlearn.trees.sums.boosted import DPBoostingClassifier, DPBoostingRegressor
from fedlearn.trees.sums.naive_bayes import DPNaiveBayes

__all__ = [
    "DPBoostingClassifier",
    "DPBoostingRegressor",
    "DPClassificationTree",
    "DPEnsembleTree",
    "DPNaiveBayes",
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
    "PrivateSearch",
    "RelayTurn",
    "union",
]
