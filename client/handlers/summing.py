"""Secure sums as a node sees them: it shares its secrets, signs who has survived, and helps to unmask their sum."""

from __future__ import annotations

from flwr.app import Message

from client.owner.error_disclosure import log
from client.owner.guards import guarded
from client.owner.signed_sets import remember_set, settle_set
from client.request import Request
from client.secure_sums.secure_node import part_in, said_in
from fedlearn import wire
from fedlearn.secure import texts
from fedlearn.secure.demands import UnlistedPeers
from fedlearn.secure.protocol_messages import Roster, Shared, Survivors, Unlisted, Unmasking


def share(request: Request) -> Message:
    """Return the node's secrets, in an envelope for each of its neighbors; or which of them its owner does not list."""
    with guarded(request):
        roster = said_in(request, Roster)
        answer: Shared | Unlisted
        try:
            with part_in(request) as node:
                answer = node.share(roster)
        except UnlistedPeers as refused:
            log.error("%s", refused)
            answer = Unlisted(roster.question, request.partition_id, refused.nodes)
        return wire.secure_answer(request.message, texts.to_bytes(answer))


def sign(request: Request) -> Message:
    """Return the node's signature of the set of nodes whose reports are to be summed."""
    with guarded(request):
        with part_in(request) as node:
            survivors = said_in(request, Survivors)
            signed = node.sign(survivors)
            remember_set(request, node.keys_of(survivors))
        return wire.secure_answer(request.message, texts.to_bytes(signed))


def unmask(request: Request) -> Message:
    """Return a share of a secret of each neighbor, which the sum of the agreed set needs."""
    with guarded(request):
        with part_in(request) as node:
            survivors = said_in(request, Survivors)
            unmasked = node.unmask(survivors, said_in(request, Unmasking))
            settle_set(request, node.keys_of(survivors))
        return wire.secure_answer(request.message, texts.to_bytes(unmasked))
