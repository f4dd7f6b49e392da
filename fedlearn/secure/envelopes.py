"""Envelopes: two shares on their way from one node to another, which the server relays and cannot open.

ChaCha20-Poly1305 (RFC 8439). The key is agreed by both ends for one direction of one attempt, and seals one envelope,
so that the nonce is constant. Beside an envelope its dealer gives a commitment to each share: SHA-256 of the share, cut
to 16 bytes. It hides the share, a uniform element of the field; a share that is revealed later must fit it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from fedlearn.secure import shamir
from fedlearn.secure.question import Question

COMMITMENT = 16  # bytes: a second share for one commitment takes 2^128 trials
ENVELOPE = 2 * shamir.SIZE + 16  # bytes: two shares, and the tag
_NONCE = bytes(12)


@dataclass(frozen=True, slots=True)
class Shares:
    """One node's shares of the two secrets of a dealer: of its self mask's seed, and of its masking key."""

    seed: int = field(repr=False)
    key: int = field(repr=False)

    def commitments(self, about: bytes) -> tuple[bytes, bytes]:
        """Return the commitments to both shares; `about` is `direction`."""
        return committed(self.seed, about, "seed"), committed(self.key, about, "key")


def direction(question: Question, roster: bytes, dealer: int, receiver: int) -> bytes:
    """Return what an envelope is bound to: run, round, attempt, roster (its digest), and both ends (positions)."""
    return question.about("envelope", roster, dealer.to_bytes(4, "big"), receiver.to_bytes(4, "big"))


def committed(share: int, about: bytes, kind: str) -> bytes:
    """Return the commitment to a share of a kind, ``"seed"`` or ``"key"``: `COMMITMENT` bytes."""
    return hashlib.sha256(about + kind.encode() + shamir.to_bytes(share)).digest()[:COMMITMENT]


def sealed(shares: Shares, key: bytes, about: bytes) -> bytes:
    """Return the envelope of two shares, `ENVELOPE` bytes."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key).encrypt(_NONCE, shamir.to_bytes(shares.seed) + shamir.to_bytes(shares.key), about)


def opened(envelope: bytes, key: bytes, about: bytes) -> Shares | None:
    """Return the shares in an envelope; None where it is not what the dealer sealed for this node."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    try:
        plain = ChaCha20Poly1305(key).decrypt(_NONCE, envelope, about)
    except InvalidTag:
        return None
    if len(plain) != 2 * shamir.SIZE:
        return None
    shares = Shares(shamir.from_bytes(plain[: shamir.SIZE]), shamir.from_bytes(plain[shamir.SIZE :]))
    return shares if max(shares.seed, shares.key) < shamir.PRIME else None
