"""The mean change of each group, in the place of a report: for defences under secure sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.state import Entries, Layout, Update
from fedlearn.secure.summands import Summands, Total
from strategies.collected import Collected


def group_means(found: Sequence[tuple[Summands, Total]], layout: Layout, *, senders: int) -> Collected:
    """Return the mean change of each group, in the order of `found`, each of weight one.

    Parameters
    ----------
    senders
        How many groups must have sent an entry; one that fewer sent is null in all of them.
    """
    enough = {name: _sent_by(found, name, spec.size) >= senders for name, spec in layout.items()}
    return Collected(layout, [(1.0, _mean(summands, total, enough)) for summands, total in found])


def _sent_by(found: Sequence[tuple[Summands, Total]], name: str, size: int) -> NDArray[np.intp]:
    """Return how many groups have sent each entry of a parameter."""
    count = np.zeros(size, np.intp)
    for summands, total in found:
        if name in total.changes:
            positions = summands.kept[name]
            count[slice(None) if positions is None else positions] += 1
    return count


def _mean(summands: Summands, total: Total, enough: Mapping[str, NDArray[np.bool_]]) -> Update:
    """Return the mean change of a group in the entries that enough groups have sent."""
    update = {}
    for name, change in total.changes.items():
        positions, values = summands.kept[name], change / total.weight
        if positions is None and enough[name].all():
            update[name] = Entries(values)
            continue
        whole = np.arange(len(enough[name])) if positions is None else positions
        stays = enough[name][whole]
        update[name] = Entries(values[stays], whole[stays])
    return update
