"""Partitions of equal sizes with skewed labels: each node draws its examples by class shares of its own.

flwr-datasets' `InnerDirichletPartitioner` does the same, in time that grows with the square of the number of nodes.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedlearn.config.fields import Positive
from fedlearn.core.errors import SettingError
from fedlearn.data.dataset import Dataset

Size = Annotated[int, Field(ge=0)]


def equal_dirichlet(
    dataset: Dataset, clients: int, seed: int, *, alpha: Positive = 0.1, size: Size = 0
) -> NDArray[np.int64]:
    """Return the node of each training example; -1 for an example that is left over.

    Parameters
    ----------
    alpha
        Each node's shares of the classes are drawn from Dirichlet(alpha, ..., alpha). A class without examples left is
        drawn no more; a node whose shares name no other class draws from all examples that are left.
    size
        Number of examples of each node; 0 takes as many as there are for each.

    Raises
    ------
    SettingError
        If an example has several labels, or there are too few examples for `size`.

    References
    ----------
    Hsu et al. 2019, "Measuring the effects of non-identical data distribution for federated visual classification"
    (arXiv:1909.06335), section 2.
    """
    labels = dataset.train.labels
    if dataset.train.targets.ndim > 1:
        allowed = f"it skews labels, and an example of {dataset.name!r} has several: take iid or natural"
        raise SettingError("data.partition", "equal-dirichlet", allowed)
    most = len(labels) // clients
    if size > most:
        allowed = f"at most {most} with {clients} clients and {len(labels)} training examples"
        raise SettingError("data.partition_options.size", size, allowed)
    rng = np.random.default_rng(seed)
    _, classes = np.unique(labels, return_inverse=True)
    rows = [rng.permutation(np.flatnonzero(classes == label)) for label in range(classes.max() + 1)]
    left = np.array([len(each) for each in rows])
    shares = rng.dirichlet(np.full(len(rows), alpha), clients)
    nodes = np.full(len(labels), -1)
    for node in rng.permutation(clients):  # in random order: a class runs out for random nodes
        wanted = size or most
        while wanted:
            chances = np.where(left > 0, shares[node], 0.0)
            chances = chances if chances.sum() > 0 else left.astype(np.float64)
            drawn = np.minimum(rng.multinomial(wanted, chances / chances.sum()), left)
            for label in np.flatnonzero(drawn):
                nodes[rows[label][left[label] - drawn[label] : left[label]]] = node
            left -= drawn
            wanted -= drawn.sum()
    return nodes
