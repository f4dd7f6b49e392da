"""A node's part in secure sums, as a state machine without network, files or time: a method for each message.

Protocol: Bonawitz et al. 2017 (ePrint 2017/281), figure 4, on the graph of Bell et al. 2020 (ePrint 2020/704).

One sum for each question. Attempts only go up: a node that joins one has forgotten the secrets of those before it. A
node answers one roster, one report, one set of survivors in an attempt; the same again gets the same bytes. A node that
has answered an unmasking joins no other attempt of that round.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cached_property

import numpy as np

from fedlearn.core.errors import Refused
from fedlearn.secure import envelopes, shamir, texts
from fedlearn.secure.demands import Demands
from fedlearn.secure.envelopes import Shares, direction
from fedlearn.secure.key_agreement import NodeKey, Signer, is_signed
from fedlearn.secure.masking import add_pairs, self_seed
from fedlearn.secure.masks import Words, add_mask, reduced
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
from fedlearn.secure.secrets import Kept, Secrets, commitment


class SecureNode:
    """One node in one run.

    `memory` must be stored before an answer leaves the node, and a node that is made of it goes on where it was. Every
    method raises `Refused`, and changes nothing, where the server asks for what a node must not answer.

    Parameters
    ----------
    run
        The run, as in `Question`.
    node
        The node's id.
    demands
        What the node demands of a roster.
    signer
        The node's own key, by which other nodes know it; without one each attempt has a key of its own.
    memory
        `memory` of the node before; empty for a new one.
    """

    def __init__(
        self,
        run: str,
        node: int,
        *,
        demands: Demands | None = None,
        signer: Signer | NodeKey | None = None,
        memory: str = "",
    ) -> None:
        self._run, self._node = run, node
        self._demands = demands or Demands()
        self._signer = signer
        self._kept = Kept.from_text(memory)
        held = self._kept.roster
        self._roster = texts.from_same(Roster, bytes.fromhex(held)) if held else None

    @property
    def memory(self) -> str:
        """What the node must keep, with its secrets."""
        return self._kept.to_text()

    @property
    def latest_round(self) -> int:
        """The latest round of which the node has joined an attempt; 0 before the first."""
        return self._kept.round_number

    @property
    def asked(self) -> bytes:
        """The digest of what the node was asked for its masked report; empty before that."""
        return bytes.fromhex(self._kept.asked)

    def advertise(self, question: Question) -> Advertised:
        """Join an attempt: return fresh public keys."""
        if question.run != self._run:
            raise Refused("wrong-run", "a question of another run")
        kept = self._kept
        joined, asked = (kept.round_number, kept.attempt), (question.round_number, question.attempt)
        if asked < joined or (asked == joined and not kept.seed):
            raise Refused("round-is-over", f"round {asked[0]}, attempt {asked[1]} is over for this node")
        if kept.unmasked and asked != joined and asked[0] == joined[0]:
            raise Refused("asked-before", f"round {asked[0]} was summed in attempt {joined[1]}: no other sum of it")
        if asked != joined:
            self._keep(kept.joined(question))
            self._roster = None
        return self._advertised

    def share(self, roster: Roster) -> Shared:
        """Return this node's secrets, a share for each neighbor, sealed in envelopes."""
        self._check(roster.question)
        if self._roster is not None and self._roster.digest != roster.digest:
            raise Refused("another-roster", "this node has shared its secrets with the nodes of another roster")
        position = self._demands.check(roster, self._advertised)
        threshold, own = roster.level.threshold, self._secrets
        places = {other: other + 1 for other in roster.graph.neighbors(position)}
        coefficients = (
            own.polynomial(own.self_mask, "seed", threshold),
            own.polynomial(shamir.from_bytes(own.mask.secret), "key", threshold),
        )
        seeds, keys = (shamir.split(each, places.values()) for each in coefficients)
        sealed, commitments = {}, {}
        for other, place in places.items():
            about = direction(roster.question, roster.digest, position, other)
            shares = Shares(seeds[place], keys[place])
            sealed[other] = envelopes.sealed(shares, own.cipher.agreed(roster.members[other].cipher, about), about)
            commitments[other] = shares.commitments(about)
        if self._roster is None:
            self._roster = roster
            self._keep(replace(self._kept, roster=texts.to_bytes(roster).hex()))
        return Shared(roster.question, self._node, sealed, commitments, commitment(own.self_mask))

    def nodes_of(self, question: Question) -> tuple[int, ...]:
        """Return the ids of the nodes with which this node has shared its secrets, and its own: those of one sum."""
        return tuple(member.node for member in self._within(question).members)

    def keys_of(self, survivors: Survivors) -> list[bytes]:
        """Return the keys by which the nodes of a set are known (`Advertised.verify`)."""
        members = self._within(survivors.question).members
        return [members[position].verify for position in survivors.reported]

    def mask(self, delivered: Delivered, values: Words, bits: int, asked: bytes = b"") -> Masked:
        """Return the report under its masks.

        Parameters
        ----------
        delivered
            Who has shared, and what this node's neighbors have given it.
        values
            (entries,), below 2^bits: what the node adds to the sum. They stay as they are.
        bits
            Of the modulus.
        asked
            The digest of all that the values depend on but the node's own examples: nodes that were asked different
            things have masks that do not cancel, and sign different statements.
        """
        roster, position = self._within(delivered.question), self._position
        answer = hashlib.sha256(repr((delivered.sharers, bits, len(values), asked)).encode())
        answer.update(np.ascontiguousarray(values).data)
        if self._kept.report not in ("", answer.hexdigest()):
            raise Refused("another-report", "this node has sent a masked report of this attempt, of other values")
        among = self._checked_set(delivered.sharers)
        others = roster.graph.neighbors(position, among=among)
        if not among >> position & 1 or set(delivered.envelopes) != set(others):
            raise Refused("wrong-sharers", "envelopes are not those of this node's neighbors that have shared")
        if len(others) < roster.level.threshold:
            raise Refused("too-few-sharers", f"{len(others)} neighbors have shared, {roster.level} asks for more")
        shares = {other: found for other in others if (found := self._opened(delivered, other)) is not None}
        total = values.copy()
        add_mask(total, self_seed(roster, self._secrets.self_mask))
        add_pairs(total, roster, self._secrets.mask, position, others, asked=asked)
        kept = replace(self._kept, report=answer.hexdigest(), asked=asked.hex(), sharers=delivered.sharers)
        self._keep(kept.with_shares(shares))
        return Masked(delivered.question, self._node, reduced(total, bits))

    def sign(self, survivors: Survivors) -> Signed:
        """Return a signature of the set that is to be summed: of one set in an attempt."""
        roster = self._within(survivors.question)
        kept = self._kept
        if not kept.report or survivors.sharers != kept.sharers:
            raise Refused("wrong-sharers", "this node has not reported with the masks of these nodes")
        among, sharers = self._checked_set(survivors.reported), bits_of(survivors.sharers)
        if among & ~sharers or not among >> self._position & 1:
            raise Refused("wrong-survivors", "survivors are not among those that have shared, or lack this node")
        if len(survivors.reported) < self._demands.summed:
            raise Refused(
                "too-few-survivors",
                f"{len(survivors.reported)} reports, and a sum needs the noise of {self._demands.summed}",
            )
        statement = roster.survived(survivors.sharers, survivors.reported, self.asked)
        agreed = statement.hex()
        if kept.survivors not in ("", agreed):
            raise Refused("another-set", "this node has signed another set of survivors of this attempt")
        self._keep(replace(kept, survivors=agreed))
        return Signed(survivors.question, self._node, self._own.sign(statement), self.asked)

    def unmask(self, survivors: Survivors, unmasking: Unmasking) -> Unmasked:
        """Return one share of each neighbor: of its seed where it has reported, of its masking key where it is lost.

        Parameters
        ----------
        survivors
            The set that this node has signed.
        unmasking
            The signatures of the others.
        """
        roster = self._within(unmasking.question)
        statement = roster.survived(survivors.sharers, survivors.reported, self.asked)
        if survivors.question != unmasking.question or self._kept.survivors != statement.hex():
            raise Refused("another-set", "this node has not signed this set of survivors")
        self._check_signatures(statement, survivors, unmasking)
        reported = bits_of(survivors.reported)
        near = roster.graph.neighbors(self._position, among=reported)
        lost = roster.graph.neighbors(self._position, among=bits_of(survivors.sharers) & ~reported)
        seeds = {other: found.seed for other in near if (found := self._kept.share_of(other)) is not None}
        keys = {other: found.key for other in lost if (found := self._kept.share_of(other)) is not None}
        self._keep(replace(self._kept, unmasked=True))
        return Unmasked(unmasking.question, self._node, seeds, keys)

    def forget(self, question: Question) -> None:
        """Forget the secrets of an attempt that is over, and keep the secrets of a later attempt."""
        if question != self._question:
            return
        self._roster = None
        self._keep(self._kept.forgotten())

    def _check_signatures(self, statement: bytes, survivors: Survivors, unmasking: Unmasking) -> None:
        """Refuse where too few of the survivors have signed this set; no more signatures are read than are needed."""
        roster = self._within(unmasking.question)
        given = [each for each in survivors.reported if each in unmasking.signatures]
        if len(given) < roster.level.signers:
            raise Refused("too-few-signatures", f"{len(given)} nodes have signed, {roster.level.signers} must")
        for each in given[: roster.level.signers]:
            member = roster.members[each]
            if not is_signed(statement, unmasking.signatures[each], member.verify):
                raise Refused("bad-signature", f"node {member.node} has not signed this set of survivors")

    def _opened(self, delivered: Delivered, dealer: int) -> Shares | None:
        """Return the shares that a dealer has sealed; None where they are not what it has committed to."""
        roster = self._within(delivered.question)
        about = direction(roster.question, roster.digest, dealer, self._position)
        key = self._secrets.cipher.agreed(roster.members[dealer].cipher, about)
        found = envelopes.opened(delivered.envelopes[dealer], key, about)
        return found if found and found.commitments(about) == delivered.commitments.get(dealer) else None

    def _checked_set(self, positions: tuple[int, ...]) -> int:
        """Return positions of the roster as bits."""
        members = range(len(self._within(self._question).members))
        if any(each not in members for each in positions) or list(positions) != sorted(set(positions)):
            raise Refused("wrong-positions", "positions must be those of the roster, the lowest first")
        return bits_of(positions)

    def _check(self, question: Question) -> None:
        if question != self._question or not self._kept.seed:
            raise Refused("wrong-attempt", "this node is in another attempt, or in none")

    def _within(self, question: Question) -> Roster:
        """Return the roster of the attempt the node is in."""
        self._check(question)
        if self._roster is None:
            raise Refused("no-roster", "this node has no roster of the attempt")
        return self._roster

    def _keep(self, kept: Kept) -> None:
        fresh = kept.seed != self._kept.seed
        self._kept = kept
        if fresh:
            for name in ("_secrets", "_own", "_advertised"):
                self.__dict__.pop(name, None)

    @property
    def _question(self) -> Question:
        return Question(self._run, self._kept.round_number, self._kept.attempt)

    @property
    def _position(self) -> int:
        return self._within(self._question).members.index(self._advertised)

    @cached_property
    def _secrets(self) -> Secrets:
        return Secrets(self._question, bytes.fromhex(self._kept.seed))

    @cached_property
    def _own(self) -> Signer | NodeKey:
        return self._signer or self._secrets.signer()

    @cached_property
    def _advertised(self) -> Advertised:
        own, verify = self._secrets, self._own.public
        unsigned = Advertised(self._question, self._node, own.cipher.public, own.mask.public, verify, b"")
        return replace(unsigned, signature=self._own.sign(unsigned.statement))
