"""Secure sums as a node sees them: it shares its secrets, signs who has survived, and helps to unmask their sum."""

from __future__ import annotations

from flwr.app import Message

from client.discretion import log
from client.guards import guarded
from client.sets import remember_set, settle_set
from client.summing import part_in, said_in
from client.visit import Visit
from fedlearn import wire
from fedlearn.secure import texts
from fedlearn.secure.messages import Roster, Shared, Survivors, Unlisted, Unmasking
from fedlearn.secure.policy import UnlistedPeers


def share(visit: Visit) -> Message:
    """Return the node's secrets, in an envelope for each of its neighbors; or which of them its owner does not list."""
    with guarded(visit):
        roster = said_in(visit, Roster)
        answer: Shared | Unlisted
        try:
            with part_in(visit) as node:
                answer = node.share(roster)
        except UnlistedPeers as refused:
            log.error("%s", refused)
            answer = Unlisted(roster.question, visit.partition_id, refused.nodes)
        return wire.secure_answer(visit.message, texts.to_bytes(answer))


def sign(visit: Visit) -> Message:
    """Return the node's signature of the set of nodes whose reports are to be summed."""
    with guarded(visit):
        with part_in(visit) as node:
            survivors = said_in(visit, Survivors)
            signed = node.sign(survivors)
            remember_set(visit, node.keys_of(survivors))
        return wire.secure_answer(visit.message, texts.to_bytes(signed))


def unmask(visit: Visit) -> Message:
    """Return a share of a secret of each neighbor, which the sum of the agreed set needs."""
    with guarded(visit):
        with part_in(visit) as node:
            survivors = said_in(visit, Survivors)
            unmasked = node.unmask(survivors, said_in(visit, Unmasking))
            settle_set(visit, node.keys_of(survivors))
        return wire.secure_answer(visit.message, texts.to_bytes(unmasked))
