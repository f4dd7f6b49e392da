"""Deal data as the grids ask for it: uneven sizes, noise by node, and the examples that no node tests on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.config import config_from
from fedlearn.data import from_arrays
from fedlearn.data.cifar10 import load as load_cifar10
from fedlearn.data.dataset import Dataset
from fedlearn.data.digits import load as load_digits
from fedlearn.data.partitioning import partition_table

LOADERS = {"cifar10": load_cifar10, "digits": load_digits}


def quantity(dataset: Dataset, clients: int, seed: int, *, alpha: float = 0.5) -> NDArray[np.int64]:
    """Return the node of each training example: random examples, in shares drawn from Dirichlet(alpha).

    Li et al. 2022, "Federated learning on non-IID data silos" (arXiv:2102.02079), section IV.C: quantity skew.
    """
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(clients, alpha))
    cuts = np.rint(np.cumsum(shares)[:-1] * len(dataset.train)).astype(np.int64)
    nodes = np.searchsorted(cuts, np.arange(len(dataset.train)), side="right")
    return rng.permutation(nodes)


def noisy(data_dir: str = "", *, of: str = "cifar10", clients: int = 10, level: float = 0.1, seed: int = 0) -> Dataset:
    """Return images dealt evenly to `clients` groups; those of group i have noise of variance level * i / clients.

    Pixels are in [0, 1], and are cut off there. The same paper, section IV.B: noise-based feature skew.
    """
    plain = LOADERS[of](data_dir)
    rng = np.random.default_rng(seed)
    groups = rng.permutation(len(plain.train)) % clients
    images = np.array(plain.train.inputs)  # (n, H, W, C), uint8
    for group in range(clients):
        rows = np.flatnonzero(groups == group)
        noise = rng.normal(0, np.sqrt(level * (group + 1) / clients), images[rows].shape)
        images[rows] = np.rint(np.clip(images[rows] / 255 + noise, 0, 1) * 255).astype(np.uint8)
    facts: dict[str, Any] = {"mean": plain.mean, "std": plain.std, "classes": plain.num_classes}
    test = (np.array(plain.test.inputs), np.array(plain.test.targets))
    return from_arrays(images, np.array(plain.train.targets), *test, groups=groups, name=f"noisy-{of}", **facts)


def untested(
    dataset: Dataset, clients: int, seed: int, *, as_settings: dict[str, Any], seeds: list[int]
) -> NDArray[np.int64]:
    """Return the node of each training example that no node tests on in any run of these seeds; -1 for the others.

    Examples are dealt as in the run of the first seed. Here algorithms are tuned: `data.node_test_share` of these
    examples is what they are chosen by.

    Parameters
    ----------
    as_settings
        The settings of data of the runs that will be reported.
    """
    data = config_from({f"data.{name}": value for name, value in as_settings.items()}).data
    tables = [partition_table(dataset, data, num_partitions=clients, seed=each) for each in seeds]
    nodes = np.full(len(dataset.train), -1)
    for node in range(clients):
        nodes[tables[0].indices(node)] = node
    for table in tables:
        for node in range(clients):
            nodes[table.held_out(node)] = -1
    return nodes
