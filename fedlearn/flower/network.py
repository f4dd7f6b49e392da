"""The grid of a deployment, and the names of its nodes' keys."""

import re
import sys

from flwr.serverapp import Grid


def crosses_network(grid: Grid) -> bool:
    """Return whether a grid is that of a deployment, which has no public name.

    Flower has imported the grid's module wherever there is such a grid. Importing it here would take a second.
    """
    module = sys.modules.get("flwr.superlink.grid")
    return module is not None and isinstance(grid, module.HttpGrid)


def name_of_key(partition: str) -> str:
    """Return the name by which the key of a partition's node is registered.

    >>> partition_of_key(name_of_key("3"))
    3
    """
    return f"partition-{partition}"


def partition_of_key(name: str) -> int | None:
    """Return the partition for which a key was registered; None where the key's name has no partition.

    The SuperLink sends the name of each connected node. Only the Control API gives names, never a node.
    """
    match = re.fullmatch(r"partition-([0-9]{1,9})", name)
    return int(match[1]) if match else None
