"""DeComFL: clients send directional derivatives along directions that the run's seed draws; the server averages them.

The state is the history of the mean derivatives, from which each client computes the weights. So a report and the state
have the same size for any module, and a client that was away has all that it missed in its next message. All K
derivatives of a round are taken at one point, as with P = K perturbations and one local step in the paper.

Source: Li et al. 2025, "Achieving dimension-free communication in federated learning via zeroth-order optimization"
(arXiv:2405.15861), algorithms 1 and 3; Qin et al. 2024 (arXiv:2312.06353), FedKSeed, for the history of scalars.
"""

from fedlearn.extend import Sums


class DeComFL(Sums):
    """Averages directional derivatives, and appends them to the history."""

    learner = "two-point"
