"""A parcel that travels like the state brings the entries that are sent of it, and no other."""

import numpy as np
import pytest

from fedlearn.compression.alike import alike, decode_alike, encode_alike
from fedlearn.core.errors import Refused
from fedlearn.core.state import Entries, layout_of

PARCEL = {"w": np.arange(4.0).reshape(2, 2), "b": np.array([9.0])}
SENT = {"w": Entries(np.zeros(2), np.array([1, 3])), "count": Entries(np.zeros(1))}
LAYOUT = layout_of(PARCEL)


def test_what_is_not_sent_of_the_state_is_null():
    update = decode_alike(encode_alike(PARCEL, SENT), layout=LAYOUT, sent=SENT)
    assert list(update) == ["w"]
    assert update["w"].values.tolist() == [1.0, 3.0]
    assert update["w"].positions.tolist() == [1, 3]


def test_of_a_dense_state_the_parcel_is_dense():
    entries = alike(PARCEL, {"w": Entries(np.zeros(4))})["w"]
    assert entries.positions is None
    assert entries.values.tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({}, "wrong-names"),
        ({"w": np.zeros(2), "b": np.zeros(1)}, "wrong-names"),
        ({"w": np.zeros(4)}, "wrong-length"),
        ({"w": np.zeros((2, 1))}, "wrong-length"),
        ({"w": np.zeros(2, np.float32)}, "wrong-dtype"),
    ],
)
def test_a_payload_that_no_node_makes_is_refused(payload, reason):
    with pytest.raises(Refused, match=reason):
        decode_alike(payload, layout=LAYOUT, sent=SENT)
