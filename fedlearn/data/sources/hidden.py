"""Tokens that a tokenizer's attention mask hides.

A token t that the mask hides is kept as -1 - t, so that one array holds tokens and mask: rows are split, drawn and
compared with both. A module that takes an ``attention_mask`` gets the mask (`fedlearn.models.torch.inputs`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.data.data_spec import IGNORED
from fedlearn.data.sources.as_arrays import Wrong, array_of

TOKENS, MASK, LABELS = "input_ids", "attention_mask", "labels"  # as tokenizers and `transformers` call them
SHIFTED = (
    "labels repeat input_ids, as language models of transformers take them, which shift them: here the target of a "
    "place is the next token, and the data are shifted"
)


def with_hidden(tokens: Any, mask: Any, name: str, wrong: Wrong) -> NDArray[np.int64]:
    """Return tokens (n, L), with -1 - t for each token t where the mask is 0.

    >>> with_hidden([[5, 2, 2]], [[1, 1, 0]], "X", ValueError).tolist()
    [[5, 2, -3]]

    Raises
    ------
    UsageError
        If the mask has another shape, or holds anything but 0 and 1.
    """
    shown, found = array_of(mask, f"mask of {name}", wrong), array_of(tokens, name, wrong)
    if shown.shape != found.shape or found.dtype.kind not in "iu":
        is_of = f"has shape {shown.shape}, and {name} is {found.dtype} of shape {found.shape}"
        raise wrong(f"mask of {name} {is_of}: a mask is for tokens, (n, length), and has their shape")
    if not np.isin(shown, (0, 1)).all():
        raise wrong(f"mask of {name} holds {shown.min()} to {shown.max()}: it has 1 where a token counts, else 0")
    if (found < 0).any():
        raise wrong(f"{name} holds {found.min()}: a token is from 0")
    return np.where(shown.astype(bool), found, -1 - found.astype(np.int64))


def all_shown(tokens: NDArray[Any]) -> NDArray[Any]:
    """Return the tokens themselves, hidden ones too."""
    return np.where(tokens < 0, -1 - tokens, tokens)


def with_next(arrays: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return keywords of `from_arrays` in which labels that repeat the tokens are the next tokens; and what is said.

    >>> with_next({"X": [[5, 7, 8]], "y": [[-100, 7, 8]]})[0]["y"].tolist()
    [[7, 8, -100]]
    """
    tokens, labels = all_shown(np.asarray(arrays["X"])), np.asarray(arrays["y"])
    are_alike = labels.shape == tokens.shape and tokens.ndim == 2 and labels.dtype.kind in "iu"
    if not are_alike or not ((labels == tokens) | (labels == IGNORED)).all():
        return dict(arrays), ()
    given = {name: np.asarray(arrays[name]) for name in ("y", "y_test") if arrays.get(name) is not None}
    next_tokens = {y: np.pad(each[:, 1:], ((0, 0), (0, 1)), constant_values=IGNORED) for y, each in given.items()}
    return {**arrays, **next_tokens}, (SHIFTED,)


def has_mask(given: Any) -> bool:
    """Return whether inputs are what a tokenizer returns: tokens with their mask, by name."""
    return hasattr(given, "keys") and {TOKENS, MASK} <= set(given.keys())
