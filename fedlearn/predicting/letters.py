"""Texts for a model of letters: each letter is the class that it names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedlearn.core.errors import UsageError, quoted
from fedlearn.data.data_spec import DataSpec

OTHER = "\ufffd"  # the letter that stands for any other, where a data set has one


def are_texts(rows: Any, spec: DataSpec) -> bool:
    """Return whether rows are texts, and the model one of tokens."""
    return bool(spec.vocabulary) and isinstance(rows, list | tuple | np.ndarray) and _all_texts(rows)


def _all_texts(rows: Sequence[Any] | NDArray[Any]) -> bool:
    return len(rows) > 0 and all(isinstance(row, str) for row in rows)


def tokens_of(spec: DataSpec, texts: Sequence[str]) -> NDArray[np.int32]:
    """Return the tokens of texts, (n, length).

    Raises
    ------
    UsageError
        If the run's tokens are not letters, a text has another length, or a letter is unknown.
    """
    known = {letter: place for place, letter in enumerate(spec.class_names)}
    if not known or any(len(letter) != 1 for letter in known) or len(known) != spec.vocabulary:
        raise UsageError("the rows are texts, and the run has learned from tokens of your own: give integers")
    return np.array([_tokens(text, row, spec, known) for row, text in enumerate(texts)], np.int32)


def _tokens(text: str, row: int, spec: DataSpec, known: dict[str, int]) -> list[int]:
    if len(text) != spec.shape[0]:
        raise UsageError(f"the rows, row {row}: {len(text)} letters: the model takes texts of {spec.shape[0]}")
    other = known.get(OTHER)
    tokens = [known.get(letter, other) for letter in text]
    if None in tokens:
        raise UsageError(f"the rows, row {row}: the letter {quoted(text[tokens.index(None)])} was not in training")
    return tokens  # type: ignore[return-value]
