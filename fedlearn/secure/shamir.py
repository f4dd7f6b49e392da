"""Shamir's secret sharing over the field of 2^255 - 19 elements, the base field of Curve25519 (RFC 7748).

Source: Shamir 1979, "How to share a secret". A polynomial of degree t - 1 has the secret as its value at 0, and all
other coefficients uniform. Its values at t places determine it; those at t - 1 places are uniform whatever the secret.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

PRIME = 2**255 - 19
SIZE = 32  # bytes of an element


def split(coefficients: Sequence[int], places: Collection[int]) -> dict[int, int]:
    """Return the share of each place.

    Parameters
    ----------
    coefficients
        The secret, then t - 1 secret elements drawn uniformly: t shares are needed to find the secret.
    places
        Different whole numbers from 1, fewer than `PRIME`.

    >>> split([1234, 166, 94], [1, 2, 3])
    {1: 1494, 2: 1942, 3: 2578}
    """
    shares = {}
    for place in places:
        share = 0
        for coefficient in reversed(coefficients):
            share = (share * place + coefficient) % PRIME
        shares[place] = share
    return shares


def combined(shares: Mapping[int, int]) -> int:
    """Return the value at 0 of the polynomial of lowest degree through the shares (Lagrange).

    It is the secret if there are at least t shares and each is the one that its place was given.

    >>> combined({2: 1942, 4: 3402, 5: 4414})
    1234
    """
    secret = 0
    for place, share in shares.items():
        above, below = share, 1
        for other in shares:
            if other != place:
                above = above * other % PRIME
                below = below * (other - place) % PRIME
        secret = (secret + above * pow(below, -1, PRIME)) % PRIME
    return secret


def to_bytes(element: int) -> bytes:
    """Return an element as `SIZE` bytes, the lowest first."""
    return element.to_bytes(SIZE, "little")


def from_bytes(data: bytes) -> int:
    """Return the whole number that `SIZE` bytes hold; it may be no element."""
    return int.from_bytes(data, "little")
