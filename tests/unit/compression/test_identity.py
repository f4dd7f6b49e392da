from __future__ import annotations

import numpy as np

from fedlearn.compression.identity import Identity
from fedlearn.core.state import layout_of


def test_payload_is_the_arrays_themselves_under_their_names():
    state = {"w": np.ones((2, 3), np.float32)}
    payload = Identity().encode(state, seed=1)
    assert payload["w"] is state["w"]
    assert Identity().decode(payload, layout=layout_of(state), seed=9)["w"].positions is None
