"""Pack named arrays as a safetensors file, and unpack them.

A parameter that a module knows by several names is stored once; the head of the file holds its further names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from fedlearn.core.state import Array, plain_names

TIED = "tied"  # the entry of the head that holds the further names


def pack_state(arrays: Mapping[str, Array], tied: Mapping[str, str] | None = None) -> bytes:
    """Return named arrays as a safetensors file; the same arrays give the same bytes.

    Parameters
    ----------
    tied
        Further name of an array -> the name by which the array is stored. The head holds all of them as one text, since
        safetensors writes several texts in an order of chance.
    """
    named = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    return save(named, {TIED: json.dumps(dict(tied), sort_keys=True)} if tied else None)


def unpack_state(data: bytes) -> dict[str, Array]:
    """Return the arrays of a safetensors file, each under the name by which it is stored; errors are the format's."""
    arrays: dict[str, Array] = load(data)
    return arrays


def unpack_with_tied(data: bytes) -> dict[str, Array]:
    """Return the arrays of a safetensors file under all of their names, as a torch module knows them."""
    arrays = unpack_state(data)
    head: dict[str, Any] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])  # 8 bytes say how long it is
    tied = json.loads(head.get("__metadata__", {}).get(TIED, "{}"))
    found = arrays | {name: arrays[stored] for name, stored in tied.items()}
    return dict(plain_names(found))
