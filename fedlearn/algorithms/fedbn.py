"""FedBN: the layers of normalization of each node are its own; the others are averaged.

They are ``training.personal = "norm"``: weights, biases and running statistics. One node alone is plain SGD.

Source: Li et al. 2021, "FedBN: federated learning on non-iid features via local batch normalization"
(arXiv:2102.07623), algorithm 1.
"""

from fedlearn.extend import FedAvg


class FedBN(FedAvg):
    """Averages as `FedAvg` does all but the layers of normalization (``training.personal``)."""

    laws = ()
