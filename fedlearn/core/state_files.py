"""Pack named arrays as a safetensors file, and unpack them.

A parameter that a module knows by several names is stored once; the head of the file holds its further names. Large
arrays that no round changes stand in a file of their own, whose digest (`digest_of`) is in the heads of the others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from fedlearn.core.state import Array, plain_names

TIED = "tied"  # the entry of the head that holds the further names
FROZEN = "frozen"  # the entry that holds the digest of arrays in another file, and the further names


def pack_state(arrays: Mapping[str, Array], tied: Mapping[str, str] | None = None, frozen: str = "") -> bytes:
    """Return named arrays as a safetensors file; the same arrays give the same bytes.

    Parameters
    ----------
    tied
        Further name of an array -> the name by which the array is stored. The head holds all of them as one text, since
        safetensors writes several texts in an order of chance.
    frozen
        The digest of arrays of the model that are in another file; empty where there are none.
    """
    named = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    if frozen:
        return save(named, {FROZEN: json.dumps({"digest": frozen, TIED: dict(tied or {})}, sort_keys=True)})
    return save(named, {TIED: json.dumps(dict(tied), sort_keys=True)} if tied else None)


def unpack_state(data: bytes) -> dict[str, Array]:
    """Return the arrays of a safetensors file, each under the name by which it is stored; errors are the format's."""
    arrays: dict[str, Array] = load(data)
    return arrays


def frozen_of(data: bytes) -> str:
    """Return the digest of the arrays that a file of a state leaves to another file; empty where it has all."""
    return str(json.loads(_head(data).get(FROZEN, "{}")).get("digest", ""))


def unpack_with_tied(data: bytes, frozen: Mapping[str, Array] | None = None) -> dict[str, Array]:
    """Return a model's arrays: those of a safetensors file and `frozen` ones, each under every name in the module."""
    arrays = {**(frozen or {}), **unpack_state(data)}
    head = _head(data)
    tied = json.loads(head[FROZEN])[TIED] if FROZEN in head else json.loads(head.get(TIED, "{}"))
    found = arrays | {name: arrays[stored] for name, stored in tied.items()}
    return dict(plain_names(found))


def _head(data: bytes) -> dict[str, Any]:
    head: dict[str, Any] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])  # 8 bytes say how long it is
    return dict(head.get("__metadata__", {}))
