"""What one node keeps of one run between its messages: the secrets of the attempt it is in, and what it has answered.

All secrets of an attempt follow from one seed of the operating system's generator, so that a node that is asked the
same again gives the same bytes. The text of `to_text` belongs into the node's memory and nowhere else; `repr` hides it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, fields, replace

from fedlearn.secure import key_agreement
from fedlearn.secure.envelopes import Shares
from fedlearn.secure.key_agreement import KeyPair, Signer
from fedlearn.secure.question import Question


@dataclass(frozen=True, slots=True)
class Kept:
    """A node's memory of one run.

    Parameters
    ----------
    round_number, attempt
        The latest that the node has joined; 0 before the first.
    seed
        Hexadecimal: all secrets of this attempt. Empty when they are forgotten.
    roster
        Hexadecimal: the roster that the node has accepted (`texts.to_bytes`). Empty before that, as are the next two.
    report
        Hexadecimal: SHA-256 of the report as it was before it was masked.
    asked
        Hexadecimal: the digest of what the node was asked for that report.
    survivors
        Hexadecimal: the statement that the node has signed (`Roster.survived`).
    sharers
        The positions that had shared when the node masked its report.
    shares
        Dealer -> its two shares for this node, as hexadecimal texts.
    unmasked
        Whether the node has answered an unmasking: the round is closed for it.
    """

    round_number: int = 0
    attempt: int = 0
    seed: str = field(default="", repr=False)
    roster: str = field(default="", repr=False)
    report: str = field(default="", repr=False)
    asked: str = ""
    sharers: tuple[int, ...] = ()
    shares: dict[str, tuple[str, str]] = field(default_factory=dict, repr=False)
    survivors: str = field(default="", repr=False)
    unmasked: bool = False

    @classmethod
    def from_text(cls, text: str) -> Kept:
        """Return what `to_text` has written; an empty text is an empty memory."""
        found = json.loads(text) if text else {}
        shares = {dealer: (seed, key) for dealer, (seed, key) in found.pop("shares", {}).items()}
        return cls(**{**found, "sharers": tuple(found.pop("sharers", ())), "shares": shares})

    def to_text(self) -> str:
        """Return this memory as one line of JSON."""
        return json.dumps({each.name: getattr(self, each.name) for each in fields(self)})

    def joined(self, question: Question) -> Kept:
        """Return the memory of a node that has joined an attempt: with a fresh seed, and nothing of the one before."""
        return Kept(question.round_number, question.attempt, seed=key_agreement.fresh_secret().hex())

    def forgotten(self) -> Kept:
        """Return the memory without the secrets: of a round that is over."""
        return Kept(self.round_number, self.attempt, unmasked=self.unmasked)

    def with_shares(self, shares: dict[int, Shares]) -> Kept:
        """Return the memory with the shares that dealers have given."""
        texts = {str(dealer): (f"{each.seed:x}", f"{each.key:x}") for dealer, each in shares.items()}
        return replace(self, shares=texts)

    def share_of(self, dealer: int) -> Shares | None:
        """Return the shares that a dealer has given; None where it has given none."""
        found = self.shares.get(str(dealer))
        return Shares(int(found[0], 16), int(found[1], 16)) if found else None


class Secrets:
    """The secrets of one attempt.

    Parameters
    ----------
    question
        The attempt.
    seed
        32 bytes.
    """

    def __init__(self, question: Question, seed: bytes) -> None:
        self._question = question
        self._seed = seed
        self.cipher = KeyPair.derived(seed, question.about("cipher key"))
        self.mask = KeyPair.derived(seed, question.about("masking key"))
        self.self_mask = key_agreement.derived_element(seed, question.about("self mask"))

    def signer(self) -> Signer:
        """Return the signer of a node that has no key of its own."""
        return Signer(key_agreement.derived(self._seed, self._question.about("signing key")))

    def polynomial(self, secret: int, purpose: str, threshold: int) -> list[int]:
        """Return the coefficients by which a secret is shared (`shamir.split`)."""
        others = (str(place).encode() for place in range(1, threshold))
        about = self._question.about
        return [
            secret,
            *(key_agreement.derived_element(self._seed, about(f"share the {purpose}", place)) for place in others),
        ]


def commitment(seed: int) -> bytes:
    """Return the commitment to the seed of a self mask: SHA-256, 32 bytes."""
    return hashlib.sha256(b"self mask" + seed.to_bytes(32, "little")).digest()
