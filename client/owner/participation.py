"""Participations of a node in a run of correlated noise: at least ``privacy.separation`` rounds apart.

The account of such a run holds for a node only if its reports are so far apart, and no server can be relied upon to see
to it after a crash. So the node does: its memory holds the round of its last report, and it takes part in rounds from
there + separation on alone, so that round numbers strictly increase. A report counts when it leaves, whatever becomes
of it: the node of an abandoned, late or refused report has taken part. A node that cannot keep a memory takes no part.
"""

from __future__ import annotations

import logging

from client.owner.error_disclosure import withheld
from client.request import Request

LAST = "participation"  # of a node's memory: the round of its last report
log = logging.getLogger("fedlearn.node")


def why_not(request: Request, round_number: int) -> str:
    """Return why the node cannot take part in a round; empty where it can, and where no noise is correlated."""
    last, separation = int(request.memory.texts.get(LAST, 0)), request.config.privacy.separation
    if not (request.config.separates_nodes and last) or round_number >= last + separation:
        return ""
    return f"it has taken part in round {last}: again from round {last + separation} on (privacy.separation)"


def check_separated(request: Request) -> None:
    """Raise Withheld if the message asks the node to take part too early."""
    if reason := why_not(request, request.instruction.round_number):
        raise withheld(request, reason)


def count_participation(request: Request) -> None:
    """Note that the report to a message leaves; the caller keeps the memory."""
    if request.config.separates_nodes:
        request.memory.texts[LAST] = str(request.instruction.round_number)
