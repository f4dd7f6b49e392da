"""Stacks: copies of one torch module for several nodes, computed together."""

import fedlearn.models.stacks.stack_rules  # noqa: F401 (it fills the table of `Stacked`)
from fedlearn.models.stacks.stacked import CannotStackError, Stacked
from fedlearn.models.stacks.stacked_network import ExactNetwork, FunctionalNetwork, StackedNetwork
from fedlearn.models.stacks.streams import Stream

__all__ = ["CannotStackError", "ExactNetwork", "FunctionalNetwork", "Stacked", "StackedNetwork", "Stream"]
