"""Parcels that travel like the state: of each parameter those entries that are sent of the state, as they are.

The positions are those of the decoded state, so no mask and no index is sent. Values are not rounded, whatever the
codec of the state is: what nodes and server each add up of such a parcel is the same.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fedlearn.compression.codec import Payload, check_dtype, check_names
from fedlearn.core.errors import Refused
from fedlearn.core.state import Entries, Layout, State, Update

LIKE_STATE: Final = "like-state"  # in place of the codec of a parcel


def alike(arrays: State, sent: Update) -> dict[str, Entries]:
    """Return those entries of arrays that are sent of the state.

    >>> alike({"w": np.array([1.0, 2.0])}, {"w": Entries(np.array([7.0]), np.array([1]))})["w"].values
    array([2.])
    """
    flat = {name: np.ascontiguousarray(arrays[name]).reshape(-1) for name in sent if name in arrays}
    return {
        name: Entries(each if (where := sent[name].positions) is None else each[where], where)
        for name, each in flat.items()
    }


def encode_alike(arrays: State, sent: Update) -> Payload:
    """Return the payload of a parcel: the values alone."""
    return {name: entries.values for name, entries in alike(arrays, sent).items()}


def decode_alike(payload: Payload, *, layout: Layout, sent: Update) -> Update:
    """Return the update in a payload, at the positions that were sent of the state.

    Raises
    ------
    Refused
        If the payload has other names, lengths or dtypes.
    """
    check_names(payload, expected={name: None for name in sent if name in layout})
    for name, array in payload.items():
        check_dtype(name, array, expected=layout[name].dtype)
        if array.shape != sent[name].values.shape:
            wanted = f"expected {sent[name].values.shape}, as of the state"
            raise Refused("wrong-length", f"{name} has shape {array.shape}, {wanted}")
    return {name: Entries(array, sent[name].positions) for name, array in payload.items()}
