"""What stands between a message and the examples of a node, in one order for all handlers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from client.owner.agreement import not_agreed, unallowed_code
from client.owner.error_disclosure import discreet, withheld
from client.owner.memory_file import memory_at_home
from client.owner.owner_refusals import AS_IF_LOADED, refused
from client.received.kept_frozen import use
from client.request import Request


@contextmanager
def guarded(request: Request) -> Iterator[None]:
    """Ask the policy of the node's owner, hide the texts of private errors, keep the memory in the node's file.

    The model gets the arrays that the server has sent to this node apart from any state.

    Raises
    ------
    Withheld
        If the policy refuses the message, or the block fails on a node that keeps its examples private.
    """
    reason = unallowed_code(request) or refused(request) or not_agreed(request)
    if reason and reason not in AS_IF_LOADED:
        raise withheld(request, reason)
    with discreet(request), memory_at_home(request):
        if reason:
            raise withheld(request, reason)
        use(request)
        yield
