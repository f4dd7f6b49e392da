"""Names beside dots, where there is room for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

AWAY = 8.0  # from the dot's middle to its name, sideways
BELOW, ABOVE = 12.0, 5.0  # and down or up


class Caption(NamedTuple):
    """A name and where it stands: its left or right end, and its base line, y growing downwards."""

    text: str
    x: float
    y: float
    is_right: bool  # x is where it ends


def placed(dots: Iterable[tuple[str, float, float]], *, left: float, right: float, letter: float) -> list[Caption]:
    """Return the names of the dots that fit between two edges without meeting another; others are left out.

    Parameters
    ----------
    dots
        (name, x, y)
    letter
        The width of a letter, about; a line takes twice as much.
    """
    captions: list[Caption] = []
    taken: list[tuple[float, float, float]] = []  # left, right, y
    for text, x, y in sorted(dots, key=lambda dot: dot[1:]):
        length = letter * len(text)
        for is_right, base in ((False, y + BELOW), (True, y - ABOVE), (False, y - ABOVE), (True, y + BELOW)):
            begin = x - AWAY - length if is_right else x + AWAY
            met = any(begin < b and a < begin + length and abs(base - c) < 2 * letter for a, b, c in taken)
            if begin >= left and begin + length <= right and not met:
                taken.append((begin, begin + length, base))
                captions.append(Caption(text, begin + length if is_right else begin, base, is_right))
                break
    return captions
