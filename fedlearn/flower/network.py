"""How a ServerApp of a deployment reaches its nodes, and what it knows of them: the names of their keys."""

import re
import sys

from flwr.serverapp import Grid


def crosses_network(grid: Grid) -> bool:
    """Say whether it is the grid of a deployment; there is no public name for it.

    Flower has imported its module wherever there is one. Nobody else needs it, and what it imports takes a second.
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
    """Return the partition for which a key was registered; None where its name says nothing of one.

    The SuperLink tells the name with each node that is connected. Only the Control API gives names, never a node.
    """
    match = re.fullmatch(r"partition-([0-9]{1,9})", name)
    return int(match[1]) if match else None
