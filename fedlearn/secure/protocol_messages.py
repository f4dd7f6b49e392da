"""The messages of one attempt. A node is known to the others by its position in the roster, from 0.

```text
node                                        server
 │── Advertised: two keys, fresh ────────────> │   with the answer that the node is ready
 │ <──────────── Roster: everybody's keys ─────│
 │── Shared: an envelope for each neighbor ──> │
 │ <──── Delivered: the neighbors' envelopes ──│   with the instruction
 │── Masked: the update under its masks ─────> │
 │ <──── Survivors: who has shared, reported ──│
 │── Signed: this set, and no other ─────────> │
 │ <──── Unmasking: the others' signatures ────│   from here on: this set, or none in this round
 │── Unmasked: one share of each neighbor ───> │
```
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from fedlearn.secure.graph import Graph
from fedlearn.secure.level import Level
from fedlearn.secure.masks import Words
from fedlearn.secure.question import Question, bytes_of


@dataclass(frozen=True, slots=True)
class Advertised:
    """A node's public keys for one attempt.

    Parameters
    ----------
    question
        The attempt.
    node
        The node's id.
    cipher, mask
        X25519: envelopes are sealed with the first, masks agreed with the second, whose secret is shared.
    verify
        Verifies what the node signs: a key of the attempt (Ed25519), or of the node (`keys.NodeKey`).
    signature
        Of `statement`, by `verify`.
    """

    question: Question
    node: int
    cipher: bytes
    mask: bytes
    verify: bytes
    signature: bytes

    @property
    def statement(self) -> bytes:
        """The bytes that are signed."""
        node = str(self.node).encode()
        return self.question.about("advertised", node, self.cipher, self.mask, self.verify)


@dataclass(frozen=True)
class Roster:
    """All nodes of an attempt, and the level that protects them."""

    question: Question
    level: Level
    members: tuple[Advertised, ...]

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of all that stands here: 32 bytes."""
        level = self.level
        numbers = (level.nodes, level.neighbors, level.threshold, level.colluders)
        parts = [number.to_bytes(4, "big") for number in numbers] + [member.statement for member in self.members]
        return hashlib.sha256(self.question.about("roster", *parts)).digest()

    @cached_property
    def graph(self) -> Graph:
        """Who is whose neighbor."""
        return Graph.drawn(self.digest, nodes=len(self.members), neighbors=self.level.neighbors)

    def survived(self, sharers: tuple[int, ...], reported: tuple[int, ...], asked: bytes) -> bytes:
        """Return what a survivor signs: who has shared, whose reports are summed, and the digest of what it was asked.

        The nodes that have shared and not reported are lost.
        """
        return self.question.about("survived", self.digest, bytes_of(sharers), bytes_of(reported), asked)


@dataclass(frozen=True, slots=True)
class Unlisted:
    """A node's answer to a roster with nodes that its owner does not list: their ids. It shares nothing."""

    question: Question
    node: int
    others: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shared:
    """A node's secrets, in one envelope for each neighbor.

    Parameters
    ----------
    question, node
        The attempt, and the node's id.
    envelopes
        Neighbor -> envelope (`envelopes.ENVELOPE` bytes).
    commitments
        Neighbor -> commitments to the two shares in its envelope.
    seed
        SHA-256 of the seed of the self mask, which what is found from the shares must fit.
    """

    question: Question
    node: int
    envelopes: Mapping[int, bytes]
    commitments: Mapping[int, tuple[bytes, bytes]]
    seed: bytes


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a node needs to mask its report.

    Parameters
    ----------
    question
        The attempt.
    sharers
        The positions of all nodes that have shared, the lowest first; the same for every node.
    envelopes
        Neighbor -> the envelope that it has sealed for this node.
    commitments
        Neighbor -> its commitments to the shares in there.
    """

    question: Question
    sharers: tuple[int, ...]
    envelopes: Mapping[int, bytes]
    commitments: Mapping[int, tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Masked:
    """A node's report under its masks.

    Parameters
    ----------
    question, node
        The attempt, and the node's id.
    values
        (entries,), below 2^modulus_bits.
    """

    question: Question
    node: int
    values: Words = field(repr=False)


@dataclass(frozen=True, slots=True)
class Survivors:
    """The set that is to be summed: positions, the lowest first. Nodes that have shared and not reported are lost."""

    question: Question
    sharers: tuple[int, ...]
    reported: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Signed:
    """A survivor's signature of `Roster.survived`, and the digest of what it was asked, which stands in there."""

    question: Question
    node: int
    signature: bytes
    asked: bytes = b""


@dataclass(frozen=True, slots=True)
class Unmasking:
    """The proof that enough nodes have agreed on one set.

    Parameters
    ----------
    question
        The attempt.
    signatures
        Position -> signature of `Roster.survived`.
    """

    question: Question
    signatures: Mapping[int, bytes]


@dataclass(frozen=True, slots=True)
class Unmasked:
    """One node's shares: of the self mask's seed of neighbors that have reported, of the masking key of lost ones."""

    question: Question
    node: int
    seeds: Mapping[int, int] = field(repr=False)
    keys: Mapping[int, int] = field(repr=False)
