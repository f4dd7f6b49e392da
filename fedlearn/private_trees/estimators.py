"""The estimators and their words, by the names under which `fedlearn.private_trees` gives them."""

from fedlearn.private_trees.classes.classification import DPClassificationTree, DPRandomForestClassifier
from fedlearn.private_trees.classes.permute_and_flip_forest import PermuteAndFlipForest
from fedlearn.private_trees.domain import Domain, NotPrivateWarning
from fedlearn.private_trees.nodes import MalformedTree, NodeTable, union
from fedlearn.private_trees.numbers.regression import DPEnsembleTree, DPRegressionForest, DPRegressionTree
from fedlearn.private_trees.numbers.relay import DPRelayForest, RelayTurn
from fedlearn.private_trees.numbers.voted import DPVotedForest
from fedlearn.private_trees.searching import PrivateSearch
from fedlearn.private_trees.sums.boosted import DPBoostingClassifier, DPBoostingRegressor
from fedlearn.private_trees.sums.naive_bayes import DPNaiveBayes

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
