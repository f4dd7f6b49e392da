"""Data sets of examples of several sizes, such as pictures as they were taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from fedlearn.data.dataset import Dataset
from fedlearn.data.filling import padded
from fedlearn.data.reading import one_line_errors
from fedlearn.data.sources.array_source import from_arrays
from fedlearn.data.sources.declared import TEST_SHARE


@one_line_errors
def from_mixed(
    X: Sequence[ArrayLike],
    y: ArrayLike,
    X_test: Sequence[ArrayLike] = (),
    y_test: ArrayLike | None = None,
    *,
    groups: ArrayLike | None = None,
    groups_test: ArrayLike | None = None,
    name: str = "mixed",
    classes: int | Sequence[str] | None = None,
    test_share: float = TEST_SHARE,
) -> Dataset:
    """Return a data set of examples of several sizes; a run names ``data.collate``, or a transform that sizes them.

    Each example takes the memory of the largest.

    Parameters
    ----------
    X, X_test
        Pictures (height, width) or (height, width, channels) of bytes; series (length,) or (length, channels) of
        floats. Tensors of pictures have their channels first.
    y, y_test, groups, groups_test, name, classes, test_share
        As in `from_arrays`.

    Raises
    ------
    UsageError
        If an example has another kind of numbers or number of channels than the first.
    """
    every = padded([*X, *X_test])
    held_out: dict[str, Any] = {}
    if len(X_test):
        held_out = {"X_test": every[len(X) :], "y_test": y_test, "groups_test": groups_test}
    found = from_arrays(
        every[: len(X)], y, **held_out, groups=groups, name=name, classes=classes, test_share=test_share,
        channels="last" if every.ndim == 4 else None,
    )  # fmt: skip
    return replace(found, mixed=True, counted=(*found.counted, "sizes"))
