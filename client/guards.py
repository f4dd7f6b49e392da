"""What stands between a message and the examples of a node, in one order for all handlers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from client.discretion import Withheld, discreet
from client.memory_file import memory_at_home
from client.policy import refused
from client.unsent import use
from client.visit import Visit


@contextmanager
def guarded(visit: Visit) -> Iterator[None]:
    """Ask the policy of the node's owner, hide the texts of private errors, keep the memory in the node's file.

    The model gets the arrays that the server has sent to this node apart from any state.

    Raises
    ------
    Withheld
        If the policy refuses the message, or the block fails on a node that keeps its examples private.
    """
    if word := refused(visit):
        raise Withheld(word)
    with discreet(visit), memory_at_home(visit):
        use(visit)
        yield
