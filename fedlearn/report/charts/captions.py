"""Place names beside dots where there is room for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

AWAY = 8.0  # sideways from the middle of a dot to its name
BELOW, ABOVE = 12.0, 5.0  # down or up from the middle of a dot to the name's base line


class Caption(NamedTuple):
    """A name and its place: its left or right end, and its base line; y grows downwards."""

    text: str
    x: float
    y: float
    is_right: bool  # x is the right end of the name


def placed(
    dots: Iterable[tuple[str, float, float]], *, left: float, right: float, bottom: float, letter: float
) -> list[Caption]:
    """Return the captions of dots that fit between the edges without meeting another caption; others are left out.

    Parameters
    ----------
    dots
        (name, x, y) of each dot.
    letter
        The mean width of a letter; a line is twice as high.
    """
    captions: list[Caption] = []
    taken: list[tuple[float, float, float]] = []  # left, right, y
    for text, x, y in sorted(dots, key=lambda dot: dot[1:]):
        length = letter * len(text)
        for is_right, base in ((False, y + BELOW), (True, y - ABOVE), (False, y - ABOVE), (True, y + BELOW)):
            begin = x - AWAY - length if is_right else x + AWAY
            met = any(begin < b and a < begin + length and abs(base - c) < 2 * letter for a, b, c in taken)
            if begin >= left and begin + length <= right and base <= bottom and not met:
                taken.append((begin, begin + length, base))
                captions.append(Caption(text, begin + length if is_right else begin, base, is_right))
                break
    return captions
