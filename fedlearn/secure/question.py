"""The question that a secure sum answers (run, round, attempt), and the bytes that keys and signatures are bound to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fedlearn.core.errors import Refused

_MOST = 1 << 63


@dataclass(frozen=True, slots=True, order=True)
class Question:
    """One attempt at one round of one run.

    Parameters
    ----------
    run
        The name of the run, which no two runs share.
    round_number, attempt
        From 1.
    """

    run: str
    round_number: int
    attempt: int

    def __post_init__(self) -> None:
        if not (0 <= self.round_number < _MOST and 0 <= self.attempt < _MOST):
            raise Refused("wrong-question", "rounds and attempts are counted from 1")

    def about(self, purpose: str, *parts: bytes) -> bytes:
        """Return the bytes that stand for a purpose in this attempt; other arguments give other bytes.

        Each part is preceded by its length, so that no two lists of parts read alike.

        >>> Question("r", 1, 2).about("box", b"a") == Question("r", 1, 2).about("box", b"", b"a")
        False
        """
        words = (b"fedlearn secure sum 1", purpose.encode(), self.run.encode(), self._numbers, *parts)
        return b"".join(len(word).to_bytes(4, "big") + word for word in words)

    @property
    def _numbers(self) -> bytes:
        return self.round_number.to_bytes(8, "big") + self.attempt.to_bytes(8, "big")


def bits_of(positions: Iterable[int]) -> int:
    """Return a set of positions as the bits of a whole number.

    >>> bits_of([0, 3])
    9
    """
    found = 0
    for position in positions:
        found |= 1 << position
    return found


def bytes_of(positions: Iterable[int]) -> bytes:
    """Return the shortest bytes that hold a set of positions, the lowest first; equal sets have equal bytes."""
    bits = bits_of(positions)
    return bits.to_bytes(-(-bits.bit_length() // 8), "little")
