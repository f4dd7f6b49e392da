"""Deal data as the grids ask for it: uneven sizes, noise by node, and the examples that no node tests on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.config import config_from
from fedlearn.core.errors import SettingError
from fedlearn.data import from_arrays
from fedlearn.data.cifar10 import load as load_cifar10
from fedlearn.data.dataset import Dataset
from fedlearn.data.digits import load as load_digits
from fedlearn.data.partitioning import partition_table

FEWEST = 10  # examples of a node
MOST_DRAWS = 10_000
LOADERS = {"cifar10": load_cifar10, "digits": load_digits}


def quantity(dataset: Dataset, clients: int, seed: int, *, alpha: float = 0.5) -> NDArray[np.int64]:
    """Return the node of each training example: random examples, in shares drawn from Dirichlet(alpha).

    Shares are drawn anew until each node has at least ten examples. Li et al. 2022, "Federated learning on non-IID data
    silos" (arXiv:2102.02079), section IV.C, and `iid-diff-quantity` of its code: quantity skew.
    """
    rng = np.random.default_rng(seed)
    drawn = (rng.dirichlet(np.full(clients, alpha)) for _ in range(MOST_DRAWS))
    shares = next((each for each in drawn if each.min() * len(dataset.train) >= FEWEST), None)
    if shares is None:
        allowed = f"larger, so that {clients} nodes have {FEWEST} examples each"
        raise SettingError("data.partition_options", f"alpha {alpha}", allowed)
    cuts = np.rint(np.cumsum(shares)[:-1] * len(dataset.train)).astype(np.int64)
    nodes = np.searchsorted(cuts, np.arange(len(dataset.train)), side="right")
    return rng.permutation(nodes)


def noisy(data_dir: str = "", *, of: str = "cifar10", clients: int = 10, level: float = 0.1, seed: int = 0) -> Dataset:
    """Return images dealt evenly to `clients` groups; group i from 0 has noise of deviation level * i / (clients - 1).

    Pixels are in [0, 1], and are cut off there. Test images have the noise of a group each, too. The same paper,
    section IV.B: noise-based feature skew. The paper calls the level a variance; its code, whose numbers are printed,
    takes the level for a standard deviation (`AddGaussianNoise`), and adds noise to test images.
    """
    plain = LOADERS[of](data_dir)
    rng = np.random.default_rng(seed)
    (images, groups), (tests, _) = (
        _with_noise(np.array(part.inputs), clients, level, rng) for part in (plain.train, plain.test)
    )
    facts: dict[str, Any] = {"mean": plain.mean, "std": plain.std, "classes": plain.num_classes}
    test = (tests, np.array(plain.test.targets))
    return from_arrays(images, np.array(plain.train.targets), *test, groups=groups, name=f"noisy-{of}", **facts)


def _with_noise(
    images: NDArray[np.uint8], clients: int, level: float, rng: np.random.Generator
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return images (n, H, W, C) with the noise of their groups, and the group of each."""
    groups = rng.permutation(len(images)) % clients
    for group in range(clients):
        rows = np.flatnonzero(groups == group)
        noise = rng.normal(0, level * group / max(clients - 1, 1), images[rows].shape)
        images[rows] = np.rint(np.clip(images[rows] / 255 + noise, 0, 1) * 255).astype(np.uint8)
    return images, groups


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
