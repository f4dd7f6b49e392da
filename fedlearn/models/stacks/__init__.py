"""Several nodes' copies of one torch module, computed together."""

from fedlearn.models.stacks.network import StackedNetwork
from fedlearn.models.stacks.stacked import CannotStackError, Stacked, of_node
from fedlearn.models.stacks.streams import Stream

__all__ = ["CannotStackError", "Stacked", "StackedNetwork", "Stream", "of_node"]
