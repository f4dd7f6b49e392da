"""Give the shards of our nodes to other systems, which train NCHW float batches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedlearn.config.tables.data import DataSettings
from fedlearn.data import load_dataset, partition_table


def nchw_shards(nodes: int) -> list[tuple[Tensor, Tensor]]:
    """Return images (n, 3, 32, 32), normalized, and labels (n,) of each node: the shards of our clients."""
    dataset: Any = load_dataset("cifar10", "")
    table = partition_table(dataset, DataSettings(), num_partitions=nodes, seed=1)
    mean, std = torch.tensor(dataset.mean).view(3, 1, 1), torch.tensor(dataset.std).view(3, 1, 1)
    images = (torch.from_numpy(dataset.train.inputs).permute(0, 3, 1, 2).contiguous().float() / 255 - mean) / std
    labels = torch.from_numpy(dataset.train.labels)
    return [(images[rows], labels[rows]) for rows in (torch.from_numpy(table.indices(node)) for node in range(nodes))]
