"""Local only: each node trains a model of its own, with as many steps as in the federation; nothing is averaged.

It is ``training.baseline = "local"``: what a federation must be better than, node by node.
"""

from fedlearn.extend import FedAvg


class Local(FedAvg):
    """Stands for the baseline, which leaves all strategies out."""

    laws = ("walk",)
