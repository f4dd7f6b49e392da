"""Changes of fedlearn's own arithmetic: a resume of a run that one of them concerns is refused, unless it is accepted.

A checkpoint says how many of the changes there were when its run was begun. A change is added here, at the end, where
it makes another model, or another measure, of the same settings; `fedlearn.models.concerning_changes` says whom it
concerns.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedlearn.core.errors import UsageError

CHANGES = {
    "shared gradients": "a gradient that two parameters share is no longer changed in place for both",
    "constants": "buffers that nobody trains are no longer averaged, and those that follow from others are computed",
    "whole numbers": "whole numbers of a model are rounded, not cut, after a strategy of Flower's",
    "targets": "targets that do not count in the loss do not count in measures",
}
"""Name -> what is otherwise since then, in the order in which they were made."""


def changes_since(number: int) -> list[str]:
    """Return the names of the changes that were made after the first `number` of them.

    >>> changes_since(2)
    ['whole numbers', 'targets']
    """
    return list(CHANGES)[number:]


def refuse(names: Sequence[str], folder: Path) -> None:
    """Raise UsageError, in one line, if there is a change that concerns the run in a folder."""
    if names:
        what = "; ".join(CHANGES[name] for name in names)
        raise UsageError(
            f"the run in {folder} began before fedlearn's arithmetic changed: {what}: begin another run, or continue "
            "with the present arithmetic by --accept-code; the results will say so"
        )
