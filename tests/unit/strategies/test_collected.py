from __future__ import annotations

import numpy as np

from fedlearn.core.state import Entries
from strategies.collected import Collected


def test_arrays_describe_every_update_and_are_copied_back():
    updates = Collected.empty({})
    updates.add([(7, {"a/b": Entries(np.arange(3.0)), "weight": Entries(np.ones(1), np.array([4]))})])
    updates.add([(2, {})])  # everything dropped
    arrays = {name: array.copy() for name, array in updates.to_arrays().items()}
    back = Collected.from_arrays({}, arrays)
    for array in arrays.values():
        array.fill(0)  # the memory is used again
    assert [weight for weight, _ in back.updates] == [7, 2]
    first, second = (update for _, update in back.updates)
    assert list(first) == ["a/b", "weight"]
    assert first["a/b"].values.tolist() == [0, 1, 2]
    assert first["a/b"].positions is None
    assert first["weight"].positions.tolist() == [4]
    assert second == {}
