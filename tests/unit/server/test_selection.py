"""Who is asked whether it is ready."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from server.phases.selection import _without


@given(nodes=st.sets(st.integers(2, 60)), asked=st.sets(st.integers(2, 60), min_size=1))
def test_nobody_is_asked_twice_however_nodes_are_kept(nodes, asked):
    in_order = sorted(nodes)
    left = [node for node in in_order if node not in asked]
    assert _without(in_order, asked) == left
    assert list(_without(np.array(in_order, np.int64), asked)) == left
