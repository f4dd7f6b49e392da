"""A strategy's result, computed again from the nodes' reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fedlearn.core.state import State
from tests.faults.world import Ended, Seen

CLOSE = 1e-5


def next_state(ended: Ended, seen: Seen, rows: Sequence[tuple[State, int]]) -> State:
    """Return what the strategy makes of changes and numbers of examples; an empty result if there are none.

    An entry that was not sent is NaN: it counts nowhere, and what nobody has sent stays as it is.
    """
    name = ended.schedule.settings["strategy"]["name"]
    if not rows:
        return {}
    after = {}
    for key, before in seen.state_before.items():
        changes = np.array([change[key] for change, _ in rows], np.float64)
        weights = np.array([examples for _, examples in rows], np.float64)
        sent = ~np.isnan(changes)
        by_entry = weights.reshape(-1, *[1] * before.ndim) * sent
        mean = (by_entry * np.where(sent, changes, 0)).sum(axis=0) / np.where(sent.any(axis=0), by_entry.sum(axis=0), 1)
        if name == "median":
            step = np.nanmedian(np.where(sent.any(axis=0), changes, 0), axis=0)
        elif name == "fedavgm":
            velocity = next((v for k, v in seen.memory_before.items() if k.endswith(key)), np.zeros(before.shape))
            step = (0.9 * np.asarray(velocity).reshape(before.shape) + mean) * sent.any(axis=0)
        else:
            step = mean
        after[key] = before + step
    return after


def differences_of(round_number: int, found: State, expected: State) -> Iterator[str]:
    """Yield in which parameters a state is not the expected one."""
    for name, array in expected.items():
        if not (abs(found[name] - array) <= CLOSE + CLOSE * abs(array)).all():
            made = array.ravel()[:3]
            yield f"round {round_number}: {name} is {found[name].ravel()[:3]}, the counted reports make {made}"
