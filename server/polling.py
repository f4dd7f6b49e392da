"""How often a grid is asked for replies."""

from __future__ import annotations

SHORTEST, LONGEST = 0.05, 0.5  # seconds; with shorter ones the server's polling starves training on two cores
SHARE = 0.05


def pause(*, waited: float, left: float) -> float:
    """Return the seconds until the next question: a twentieth of what was waited so far, and never more than is left.

    So asking costs a short wait little, and a long one, of minutes of training, hardly any messages.

    >>> [pause(waited=seconds, left=100.0) for seconds in (0.1, 4.0, 60.0)]
    [0.05, 0.2, 0.5]
    """
    return max(min(max(waited * SHARE, SHORTEST), LONGEST, left), 0.0)
