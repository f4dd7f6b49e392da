"""What a node keeps of its reports that the server has counted (`client.learners.learner.Learner.counted`).

A node must not keep what the server has refused: control variates would then differ from those of the server for good.
So the sum of what was sent is kept in two phases. A report is added to it as it leaves, with the sum as it was before
beside it; the notice that the report was late, refused or of an abandoned attempt puts the sum before back, and so does
an instruction for a round that is already in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

from client.memory import NodeMemory
from fedlearn.core.cohort import At
from fedlearn.core.state import Array, Entries, Layout, Update

KEPT = "counted"  # of a node's memory: of which round and attempt the last report is, and what is summed
BEFORE = ".before"  # ends the names of the sums as they were before it


def book(memory: NodeMemory, at: At, sent: Mapping[str, Update], layouts: Mapping[str, Layout]) -> None:
    """Add what was sent in an attempt to the node's sums: name -> update, and the layout of each."""
    for name, update in sent.items():
        own, layout = memory.arrays.get(name, {}), layouts[name]
        memory.arrays[name + BEFORE] = own
        zeros = {each: np.zeros(layout[each].shape, layout[each].dtype) for each in update if each not in own}
        memory.arrays[name] = {
            each: _added(array, update[each]) if each in update else array for each, array in {**own, **zeros}.items()
        }
    memory.texts[KEPT] = json.dumps([*at, *sent])


def undo(memory: NodeMemory, at: At) -> bool:
    """Take the report of an attempt out of the sums, if it is the last one in them; return whether it was."""
    round_number, attempt, names = _last(memory)
    if At(round_number, attempt) != at or not names:
        return False
    for name in names:
        memory.arrays[name] = memory.arrays.pop(name + BEFORE)
    del memory.texts[KEPT]
    return True


def undo_from(memory: NodeMemory, round_number: int) -> None:
    """Take the last report out of the sums, if it is of this round or a later one: the round is made again."""
    last, attempt, _ = _last(memory)
    if last >= round_number:
        undo(memory, At(last, attempt))


def _last(memory: NodeMemory) -> tuple[int, int, list[str]]:
    last, attempt, *names = json.loads(memory.texts.get(KEPT, "[0, 0]"))
    return last, attempt, names


def _added(array: Array, entries: Entries) -> Array:
    """Return an array with the sent entries added."""
    after = array.reshape(-1).copy()
    where = slice(None) if entries.positions is None else entries.positions
    after[where] += entries.values.astype(after.dtype, copy=False)
    return after.reshape(array.shape)
