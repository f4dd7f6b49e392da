"""DeComFL: clients send directional derivatives along directions that the run's seed draws; the server averages them.

The state is the history of the mean derivatives, from which each client computes the weights. So a report and the state
have the same size for any module, and a client that was away has all that it missed in its next message. All K
derivatives of a round are taken at one point, as with P = K perturbations and one local step in the paper.

*Noise that protects clients* (``privacy.protects = "nodes"``, added by the server). A client shortens the vector of its
K derivatives to an L2 norm of at most ``privacy.clip``, in whole numbers, and weighs one. The sum of a round gets
Gaussian noise, and is divided by the expected number of clients.

*Claim.* A round is a Gaussian mechanism of the noise multiplier z, between federations of which one has a client more
(`fedlearn.privacy.node_costs` composes rounds). *Proof.* The weights, the directions and the numbers of directions
and clients follow from settings and from earlier answers. A report is m whole numbers in steps of `STEP`, of which
the gate and the client itself make sure that sum m^2 <= reach^2, with reach = clip / STEP rounded down; so a client
moves the sum of derivatives, STEP sum m, by at most clip in the L2 norm, without any rounding. Sums of whole numbers
are exact: the other clients' part has the same bits with and without it. What a client says beside them is dropped by
the client, and of its weight nothing is read. The rest is post-processing of the noisy sum: its rounding to whole
numbers, the bound of a mean, and the history.

Source: Li et al. 2025, "Achieving dimension-free communication in federated learning via zeroth-order optimization"
(arXiv:2405.15861), algorithms 1 and 3; Qin et al. 2024 (arXiv:2312.06353), FedKSeed, for the history of scalars; Tang
et al. 2024 (arXiv:2401.04343), for noise on clipped scalars.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from fedlearn.core.state import ArraySpec
from fedlearn.extend import Float64, MaskedSum, RunConfig, Sums

DIRECTIONS = 10
SCALARS = "scalars"  # of the state: the history
BOUND = 1024.0  # largest derivative; one beyond it is sent as this
MOST_BITS = 30  # of what an example adds to a sum, without its sign
STEP = BOUND / 2**MOST_BITS  # of a derivative in whole numbers, where clients are protected
LARGEST_SUM = 2**61


class DeComFL(Sums):
    """Averages directional derivatives, and appends them to the history."""

    laws = ("walk", "other weights", "under masks")
    learner = "two-point"
    clips = True
    grows = SCALARS

    def released(self, total: Any, config: RunConfig, release: Callable[[MaskedSum], MaskedSum]) -> Any:
        """Return the noisy sum of a round, weighted by the expected number of clients, however many reported."""
        count = directions_of(config)
        sums = total.totals["sums"][1:] if total.totals else np.zeros(count, np.int64)
        exact: Float64 = STEP * sums.astype(np.float64)  # below 2^53, times a power of two
        noisy = release(MaskedSum({SCALARS: ArraySpec((count,), "float64")}, {SCALARS: exact}, {}))
        steps = np.clip(np.rint(noisy.totals[SCALARS] / STEP), -LARGEST_SUM, LARGEST_SUM)
        weight = int(noisy.weights[SCALARS][0]) << MOST_BITS
        return type(total)({"sums": np.append(weight, steps.astype(np.int64)), "reports": np.ones(1, np.int64)})


def directions_of(config: RunConfig) -> int:
    """Return K, the number of directions of a round."""
    return int(json.loads(config.training.options or "{}").get("directions", DIRECTIONS))
