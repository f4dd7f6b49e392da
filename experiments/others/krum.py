"""How often Flower's Krum takes another node than exact distances do.

    python -m experiments.others.krum              # by the installed flwr

Ten nodes send weights that differ by small changes. Krum (Blanchard et al. 2017) takes the node with the least sum of
squared distances to its n - f - 2 nearest others, here n = 10 and f = 2. Flower computes a distance as
|x|^2 + |y|^2 - 2 x.y in float32: there the weights, not the changes, set the size of the rounding error.
"""

from __future__ import annotations

import numpy as np
from flwr.app import ArrayRecord, MetricRecord, RecordDict
from flwr.serverapp.strategy import Krum
from numpy.typing import NDArray

from fedlearn.flower import reply_from

NODES, LIARS, TRIALS = 10, 2, 20
DEVIATION = 0.05  # of the weights
CASES = ((62_006, 1e-3), (62_006, 1e-4), (1_000_000, 1e-3), (1_000_000, 1e-4))  # parameters, deviation of the changes


def exact_choice(changes: NDArray[np.float64]) -> int:
    """Return the node that Krum takes by distances in float64; changes have shape (nodes, parameters)."""
    norms = (changes**2).sum(axis=1)
    squares = norms[:, None] + norms[None, :] - 2 * changes @ changes.T
    np.fill_diagonal(squares, np.inf)
    return int(np.sort(squares, axis=1)[:, : NODES - LIARS - 2].sum(axis=1).argmin())


def flowers_choice(weights: list[NDArray[np.float32]]) -> int:
    """Return the node that Flower's Krum takes."""
    replies = []
    for node, array in enumerate(weights, start=1):
        content = RecordDict({"arrays": ArrayRecord([array]), "metrics": MetricRecord({"num-examples": 1})})
        replies.append(reply_from(node_id=node, message_type="train", reply_to="", content=content, error=None))
    taken, _ = Krum(num_malicious_nodes=LIARS).aggregate_train(1, replies)
    assert taken is not None
    (array,) = taken.to_numpy_ndarrays()
    return next(node for node, each in enumerate(weights) if np.array_equal(each, array))


def main() -> None:
    """Print, for each case, how many of the trials end with another node."""
    rng = np.random.default_rng(0)
    for parameters, deviation in CASES:
        common = rng.normal(0, DEVIATION, parameters).astype(np.float32)
        others = 0
        for _ in range(TRIALS):
            scales = deviation * (1 + 0.5 * rng.random(NODES))
            weights = [(common + rng.normal(0, scale, parameters)).astype(np.float32) for scale in scales]
            changes = np.stack(weights).astype(np.float64) - common
            others += flowers_choice(weights) != exact_choice(changes)
        print(f"{parameters:,} parameters, changes of {deviation:g}: another node in {others} of {TRIALS} trials")


if __name__ == "__main__":
    main()
