"""The masks of one node: its own, and one with each neighbor, which that neighbor takes away again."""

from __future__ import annotations

from collections.abc import Iterable

from fedlearn.secure import key_agreement, shamir
from fedlearn.secure.key_agreement import KeyPair
from fedlearn.secure.masks import Words, add_mask
from fedlearn.secure.protocol_messages import Roster


def self_seed(roster: Roster, secret: int) -> bytes:
    """Return the seed of a node's own mask."""
    return key_agreement.derived(shamir.to_bytes(secret), roster.question.about("self mask", roster.digest))


def pair_seed(roster: Roster, mine: KeyPair, position: int, other: int, asked: bytes) -> bytes:
    """Return the seed of the mask that the nodes at two positions have in common, from the secret of the first.

    The masks of two nodes that were asked different things are different, so that they never cancel.
    """
    ends = (each.to_bytes(4, "big") for each in sorted((position, other)))
    return mine.agreed(roster.members[other].mask, roster.question.about("mask", roster.digest, *ends, asked))


def add_pairs(
    total: Words, roster: Roster, mine: KeyPair, position: int, others: Iterable[int], *, asked: bytes
) -> None:
    """Add the pairwise masks of a node to its vector in place: the lower position adds a mask, the higher subtracts it.

    Parameters
    ----------
    asked
        The digest of what the node was asked.
    """
    if not len(total):  # of a study without masks
        return
    for other in others:
        add_mask(total, pair_seed(roster, mine, position, other, asked), sign=1 if position < other else -1)
