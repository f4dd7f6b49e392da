"""Numbers for people."""

from __future__ import annotations


def number(value: float | None) -> str:
    """Return a measured value for people.

    >>> number(0.48713), number(49325.123), number(None)
    ('0.4871', '49325.1', '-')
    """
    if value is None:
        return "-"
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:.1f}"


def size(count: float) -> str:
    """Return a number of bytes for people, in powers of ten.

    >>> size(2_517_000)
    '2.52 MB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} B" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError
