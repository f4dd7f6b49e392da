"""What stands between a message and the examples of a node, in one order for all handlers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from client.discretion import discreet, withheld
from client.memory_file import memory_at_home
from client.policy import AS_IF_LOADED, refused
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
    reason = refused(visit)
    if reason and reason not in AS_IF_LOADED:
        raise withheld(visit, reason)
    with discreet(visit), memory_at_home(visit):
        if reason:
            raise withheld(visit, reason)
        use(visit)
        yield
