"""The grid by which a ServerApp of a deployment reaches its nodes; there is no public name for it."""

from flwr.superlink.grid import HttpGrid

__all__ = ["HttpGrid"]
