"""The grid by which a ServerApp of a deployment reaches its nodes; there is no public name for it."""

import sys

from flwr.serverapp import Grid


def crosses_network(grid: Grid) -> bool:
    """Say whether it is that grid.

    Flower has imported its module wherever there is one. Nobody else needs it, and what it imports takes a second.
    """
    module = sys.modules.get("flwr.superlink.grid")
    return module is not None and isinstance(grid, module.HttpGrid)
