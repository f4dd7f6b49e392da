"""Centralized: one node holds all examples, and takes as many passes over them as the federation does on average.

It is ``training.baseline = "central"``: what a federation cannot be expected to reach.
"""

from fedlearn.extend import FedAvg


class Central(FedAvg):
    """Stands for the baseline, which leaves all strategies out."""

    laws = ()
