"""The estimators and their words, by the names under which `fedlearn.private_trees` gives them."""

from fedlearn.private_trees.classes.classification import DPClassificationTree
from fedlearn.private_trees.classes.permute_and_flip_forest import PermuteAndFlipForest
from fedlearn.private_trees.classes.random_forest import DPRandomForestClassifier
from fedlearn.private_trees.domain import Domain, NotPrivateWarning
from fedlearn.private_trees.node_table import MalformedTree, NodeTable, union
from fedlearn.private_trees.numbers.regression import DPEnsembleTree, DPRegressionTree
from fedlearn.private_trees.numbers.regression_forest import DPRegressionForest
from fedlearn.private_trees.numbers.relay_forest import DPRelayForest, DPRelayTree
from fedlearn.private_trees.numbers.voted import DPVotedForest  # noqa: F401  it leaves: not in `__all__`
from fedlearn.private_trees.private_search import PrivateSearch
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
    "DPRelayTree",
    "Domain",
    "MalformedTree",
    "NodeTable",
    "NotPrivateWarning",
    "PermuteAndFlipForest",
    "PrivateSearch",
    "union",
]
