"""Taking the masks off a sum, with the secrets that enough shares give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedlearn.core.errors import Refused
from fedlearn.secure import shamir
from fedlearn.secure.key_agreement import KeyPair
from fedlearn.secure.masking import add_pairs, self_seed
from fedlearn.secure.masks import Words, add_mask, reduced
from fedlearn.secure.protocol_messages import Roster
from fedlearn.secure.question import bits_of
from fedlearn.secure.secrets import commitment


@dataclass(frozen=True, slots=True)
class Found:
    """The shares that were revealed, each as its dealer has committed to it.

    Parameters
    ----------
    seeds
        For the position of each survivor: position -> share of its self mask's seed.
    keys
        For the position of each lost node: position -> share of its masking key.
    commitments
        For the position of each survivor: what it has committed its seed to.
    """

    seeds: Mapping[int, Mapping[int, int]] = field(repr=False)
    keys: Mapping[int, Mapping[int, int]] = field(repr=False)
    commitments: Mapping[int, bytes]


def opened(total: Words, bits: int, roster: Roster, found: Found, asked: bytes) -> Words:
    """Return a sum of masked reports without the masks.

    The masks that two survivors have in common have cancelled. What is left are the survivors' self masks, and the
    masks of survivors with lost nodes, which these would have taken away.

    Parameters
    ----------
    total
        (entries,): the sum of the survivors' masked reports. It stays as it is.
    asked
        The digest of what all survivors were asked.

    Raises
    ------
    Refused
        If a secret is not the one that its node has masked with, though each share is as that node committed to it.
    """
    threshold, bare = roster.level.threshold, total.copy()
    for position, shares in found.seeds.items():
        secret = _secret(shares, threshold)
        if commitment(secret) != found.commitments[position]:
            raise Refused("bad-sharing", f"node {roster.members[position].node} has shared another seed")
        add_mask(bare, self_seed(roster, secret), sign=-1)
    survivors = bits_of(found.seeds)
    for position, shares in found.keys.items():
        pair = KeyPair(shamir.to_bytes(_secret(shares, threshold)))
        if pair.public != roster.members[position].mask:
            raise Refused("bad-sharing", f"node {roster.members[position].node} has shared another masking key")
        # As the lost node would have: each of its masks is the opposite of the one that is left in the sum.
        add_pairs(bare, roster, pair, position, roster.graph.neighbors(position, among=survivors), asked=asked)
    return reduced(bare, bits)


def _secret(shares: Mapping[int, int], threshold: int) -> int:
    """Return the secret of `threshold` of the shares; the place of a share is its position and one."""
    return shamir.combined({position + 1: shares[position] for position in sorted(shares)[:threshold]})
