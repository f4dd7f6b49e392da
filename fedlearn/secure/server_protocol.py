"""The server's part in one attempt at a secure sum, as a state machine without network, files or time.

A method for each message that comes, and one for each step: it closes a phase and returns what is to be sent, by node
id. A step returns `Missing` where too few have answered. A message that comes twice, late, or with anything wrong in it
raises `Refused`, and changes nothing.

Until `unmasking` an attempt may be given up, and another be made with fresh keys. What `unmasking` returns must not be
sent before `to_bytes` is stored: from then on this set is summed, or the round is skipped. `from_bytes` gives the
attempt of a server that was killed; it asks for the very same set again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from fedlearn.core.errors import Refused
from fedlearn.secure import envelopes, key_agreement, texts
from fedlearn.secure.envelopes import committed, direction
from fedlearn.secure.key_agreement import is_signed, is_usable
from fedlearn.secure.level import Level
from fedlearn.secure.masks import Words, zeros
from fedlearn.secure.opening import Found, opened
from fedlearn.secure.packed import packed, unpacked
from fedlearn.secure.protocol_messages import (
    Advertised,
    Delivered,
    Masked,
    Roster,
    Shared,
    Signed,
    Survivors,
    Unmasked,
    Unmasking,
)
from fedlearn.secure.question import Question, bits_of


class Phase(IntEnum):
    """What an attempt waits for."""

    SHARES = 1
    REPORTS = 2
    SIGNATURES = 3
    UNMASKING = 4


@dataclass(frozen=True, slots=True)
class Missing:
    """Too few have answered: why the attempt ends, or the sum is not found yet."""

    reason: str


@dataclass(frozen=True, slots=True)
class Summed:
    """What a secure sum comes to.

    Parameters
    ----------
    total
        (entries,): the sum of what the nodes have put in, modulo 2^bits.
    nodes
        The ids of the nodes whose values are in it.
    """

    total: Words
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Stored:
    """What a server needs to ask for the very same set again; it holds no secret of any node."""

    roster: Roster
    count: int
    bits: int
    shared: tuple[Shared, ...]
    survivors: Survivors
    signed: tuple[Signed, ...]
    total: bytes


class SecureServer:
    """One attempt.

    Parameters
    ----------
    question
        The attempt.
    level
        For as many nodes as `members`.
    members
        What the nodes of the cohort have advertised, in any order (`check_advertised`).
    count
        Entries of the vector that is summed.
    bits
        Of the modulus.
    """

    def __init__(
        self, question: Question, level: Level, members: Sequence[Advertised], *, count: int, bits: int
    ) -> None:
        self.roster = Roster(question, level, tuple(sorted(members, key=lambda each: each.node)))
        self.phase = Phase.SHARES
        self._positions = {member.node: position for position, member in enumerate(self.roster.members)}
        self._bits = bits
        self._total = zeros(count, bits)
        self._shared: dict[int, Shared] = {}
        self._reported: set[int] = set()
        self._signed: dict[int, Signed] = {}
        self._seeds: dict[int, dict[int, int]] = defaultdict(dict)
        self._keys: dict[int, dict[int, int]] = defaultdict(dict)
        self._unmasked: set[int] = set()
        self._survivors: Survivors | None = None
        self._unmasking: Unmasking | None = None

    # --- messages that come

    def shared(self, message: Shared) -> None:
        """Take in the envelopes of a node."""
        position = self._take(message, Phase.SHARES, self._shared)
        neighbors = set(self.roster.graph.neighbors(position))
        sizes = {len(envelope) for envelope in message.envelopes.values()}
        commitments = {len(each) for pair in message.commitments.values() for each in pair}
        whole = message.envelopes.keys() == neighbors == message.commitments.keys()
        if not whole or sizes != {envelopes.ENVELOPE} or commitments != {envelopes.COMMITMENT}:
            raise Refused("malformed-shares", f"node {message.node} has not sealed one envelope for each neighbor")
        if len(message.seed) != key_agreement.SIZE:
            raise Refused("malformed-shares", f"node {message.node} has not committed to its seed")
        self._shared[position] = message

    def masked(self, message: Masked) -> None:
        """Add the masked report of a node to the sum."""
        position = self._take(message, Phase.REPORTS, self._reported)
        if position not in self._shared:
            raise Refused("not-a-sharer", f"node {message.node} reports and has not shared")
        values = message.values
        if len(values) and (values.dtype != self._total.dtype or values.shape != self._total.shape):
            raise Refused("wrong-shape", f"node {message.node} reports {values.shape} of {values.dtype}")
        if len(values) and int(values.max()) >> self._bits:
            raise Refused("wrong-range", f"node {message.node} reports a number beyond the modulus")
        if len(values):
            self._total += values
        self._reported.add(position)

    def add(self, total: Words) -> None:
        """Add the values of masked reports that come without them, as others have added them up already."""
        self._total += total

    def signed(self, message: Signed) -> None:
        """Take in the signature of a survivor."""
        position = self._take(message, Phase.SIGNATURES, self._signed)
        verify = self.roster.members[position].verify
        statement = self.roster.survived(self.agreed.sharers, self.agreed.reported, message.asked)
        if position not in self._reported or not is_signed(statement, message.signature, verify):
            raise Refused("bad-signature", f"node {message.node} has not signed the set of survivors")
        self._signed[position] = message

    def unmasked(self, message: Unmasked) -> None:
        """Take in the shares that a survivor reveals; those that do not fit their commitments are left out."""
        position = self._take(message, Phase.UNMASKING, self._unmasked)
        if position not in self._reported:
            raise Refused("not-a-survivor", f"node {message.node} reveals shares and is no survivor")
        near = self.roster.graph.beside[position]
        for kind, shares, kept, of in (
            ("seed", message.seeds, self._seeds, bits_of(self._reported)),
            ("key", message.keys, self._keys, self._lost),
        ):
            for dealer, share in shares.items():
                if dealer in self._shared and near & of & 1 << dealer and self._fits(dealer, position, kind, share):
                    kept[dealer][position] = share
        self._unmasked.add(position)

    # --- steps

    def deliver(self) -> dict[int, Delivered] | Missing:
        """Close the sharing: return what each node needs to mask its report."""
        graph, level = self.roster.graph, self.roster.level
        among = bits_of(self._shared)
        alone = [each for each in self._shared if graph.degree(each, among=among) < level.threshold]
        if len(self._shared) < level.signers or alone:
            return Missing(f"{len(self._shared)} of {level.nodes} nodes have shared: too few for {level}")
        self._enter(Phase.REPORTS)
        delivered = {}
        for position in self._sharers:
            near = graph.neighbors(position, among=among)
            delivered[self.roster.members[position].node] = Delivered(
                self.roster.question,
                self._sharers,
                {dealer: self._shared[dealer].envelopes[position] for dealer in near},
                {dealer: self._shared[dealer].commitments[position] for dealer in near},
            )
        return delivered

    def survivors(self) -> dict[int, Survivors] | Missing:
        """Close the reporting: return the set that each survivor is asked to sign."""
        graph, level = self.roster.graph, self.roster.level
        among = bits_of(self._reported)
        alone = [each for each in self._reported if graph.degree(each, among=among) < level.threshold]
        lost = [each for each in self._shared if graph.degree(each, among=among) < level.threshold]
        if len(self._reported) < level.signers or alone or lost:
            return Missing(f"{len(self._reported)} of {level.nodes} nodes have reported: too few for {level}")
        self._enter(Phase.SIGNATURES)
        self._survivors = Survivors(self.roster.question, self._sharers, tuple(sorted(self._reported)))
        return dict.fromkeys(self._ids(self._reported), self._survivors)

    def unmasking(self) -> dict[int, Unmasking] | Missing:
        """Close the signing: return the proof for each survivor. Store `to_bytes` before it is sent."""
        if self._unmasking is None:
            if len(self._signed) < self.roster.level.signers:
                return Missing(f"{len(self._signed)} nodes have signed the set, {self.roster.level.signers} must")
            self._enter(Phase.UNMASKING)
            self._unmasking = self._proof
        return dict.fromkeys(self._ids(self._unmasking.signatures), self._unmasking)

    @property
    def unlike(self) -> list[int]:
        """The ids of the nodes that have signed another question than most: their masks do not cancel."""
        return [signed.node for signed in self._signed.values() if signed.asked != self._asked]

    def summed(self) -> Summed | Missing:
        """Return the sum without its masks; `Missing` as long as a secret lacks shares.

        Raises
        ------
        Refused
            If a node has shared another secret than it has masked with: no sum can be found, and the round is skipped.
        """
        if self.phase is not Phase.UNMASKING:
            raise Refused("too-early", "nothing was unmasked yet")
        threshold = self.roster.level.threshold
        revealed = [self._seeds[each] for each in self._reported] + [self._keys[each] for each in self._positions_lost]
        short = sum(len(shares) < threshold for shares in revealed)
        if short:
            return Missing(f"{short} secrets have fewer than {threshold} shares")
        found = Found(
            {each: self._seeds[each] for each in sorted(self._reported)},
            {each: self._keys[each] for each in self._positions_lost},
            {each: self._shared[each].seed for each in self._reported},
        )
        total = opened(self._total, self._bits, self.roster, found, self._asked)
        return Summed(total, tuple(self._ids(self._reported)))

    # --- a server that is killed

    def to_bytes(self) -> bytes:
        """Return what is to be stored before anything is unmasked."""
        if self._survivors is None or self._unmasking is None:
            raise Refused("too-early", "an attempt is stored when its set is signed")
        shared = tuple(self._shared[each] for each in self._sharers)
        total = packed(self._total & self._total.dtype.type((1 << self._bits) - 1), self._bits)
        signed = tuple(self._signed[each] for each in sorted(self._signed))
        stored = _Stored(self.roster, len(self._total), self._bits, shared, self._survivors, signed, total)
        return texts.to_bytes(stored)

    @classmethod
    def from_bytes(cls, data: bytes) -> SecureServer:
        """Return the attempt that `to_bytes` was stored of: it waits for the unmasking of the same set."""
        stored = texts.from_bytes(_Stored, data)
        roster = stored.roster
        server = cls(roster.question, roster.level, roster.members, count=stored.count, bits=stored.bits)
        server._shared = dict(zip(stored.survivors.sharers, stored.shared, strict=True))
        server._total = unpacked(stored.total, stored.count, stored.bits)
        server._survivors = stored.survivors
        server._signed = {server._positions[signed.node]: signed for signed in stored.signed}
        server._unmasking = server._proof
        server._reported = set(stored.survivors.reported)
        server.phase = Phase.UNMASKING
        return server

    @property
    def agreed(self) -> Survivors:
        """The set of survivors, once the reporting is closed."""
        if self._survivors is None:
            raise Refused("too-early", "the set of survivors is not known yet")
        return self._survivors

    # --- within

    def _take(self, message: Shared | Masked | Signed | Unmasked, phase: Phase, taken: object) -> int:
        """Return the position of the node that a message came from, if it came in time and for the first time."""
        if message.question != self.roster.question or self.phase is not phase:
            raise Refused("late", f"node {message.node} answers another attempt or phase")
        position = self._positions.get(message.node)
        if position is None:
            raise Refused("unknown-node", f"node {message.node} is not in the roster")
        if position in taken:  # type: ignore[operator]  # a mapping, or a set
            raise Refused("again", f"node {message.node} has answered before")
        return position

    def _enter(self, phase: Phase) -> None:
        if phase != self.phase + 1:
            raise Refused("wrong-phase", f"an attempt does not go from {self.phase.name} to {phase.name}")
        self.phase = phase

    def _fits(self, dealer: int, position: int, kind: str, share: int) -> bool:
        """Return whether a share is the one that its dealer has committed to."""
        if not 0 <= share < 1 << (8 * key_agreement.SIZE):
            return False
        about = direction(self.roster.question, self.roster.digest, dealer, position)
        return committed(share, about, kind) == self._shared[dealer].commitments[position][kind == "key"]

    def _ids(self, positions: object) -> list[int]:
        return [self.roster.members[position].node for position in sorted(positions)]  # type: ignore[call-overload]

    @property
    def _sharers(self) -> tuple[int, ...]:
        return tuple(sorted(self._shared))

    @property
    def _positions_lost(self) -> tuple[int, ...]:
        return tuple(each for each in self._sharers if each not in self._reported)

    @property
    def _lost(self) -> int:
        return bits_of(self._positions_lost)

    @property
    def _proof(self) -> Unmasking:
        return Unmasking(self.roster.question, {each: signed.signature for each, signed in self._signed.items()})

    @property
    def _asked(self) -> bytes:
        """The digest of what most of those that have signed were asked."""
        counts = Counter(signed.asked for signed in self._signed.values())
        return max(counts, key=lambda each: (counts[each], each), default=b"")


def check_advertised(message: Advertised, question: Question, others: Sequence[Advertised]) -> None:
    """Refuse keys that would make the other nodes refuse the whole roster.

    Raises
    ------
    Refused
        If they are those of another attempt or node, of low order, or not signed.
    """
    if message.question != question:
        raise Refused("wrong-attempt", f"node {message.node} has sent keys of another attempt")
    own = (message.cipher, message.mask, message.verify)
    taken = {key for other in others for key in (other.cipher, other.mask, other.verify)}
    if len({*own}) < len(own) or taken & {*own} or message.node in {other.node for other in others}:
        raise Refused("key-taken", f"node {message.node} has sent a key that stands in the roster")
    sizes = [len(key) for key in own]
    if (
        sizes[:2] != [key_agreement.SIZE] * 2
        or sizes[2] not in (key_agreement.SIZE, key_agreement.NODE_KEY)
        or not (is_usable(message.cipher) and is_usable(message.mask))
    ):
        raise Refused("low-order-key", f"node {message.node} has sent a key from which no secret can be agreed")
    if not is_signed(message.statement, message.signature, message.verify):
        raise Refused("bad-signature", f"node {message.node} has not signed its keys")
