"""Outputs of a set, gathered batch by batch, within a bound of memory."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from fedlearn.core.errors import SettingError

MB = 1_000_000
MOST = "evaluation.scores_mb"


class Gathered:
    """The outputs of the batches of a set.

    Parameters
    ----------
    count
        Number of examples of the whole set.
    most_mb
        Value of ``evaluation.scores_mb``.
    """

    def __init__(self, count: int, most_mb: int) -> None:
        self.batches: list[Any] = []
        self._count = count
        self._most_mb = most_mb

    def add(self, outputs: Any, examples: int) -> None:
        """Keep the outputs of the next batch, on the CPU.

        Raises
        ------
        SettingError
            If outputs of this size take more than the bound for the whole set; the first batch says it.
        """
        if not self.batches:
            check_size(outputs, examples, self._count, self._most_mb)
        self.batches.append(_mapped(lambda each: each.detach().cpu(), outputs))


def check_size(outputs: Any, examples: int, count: int, most_mb: int) -> None:
    """Raise SettingError where outputs of `count` examples take more than `most_mb` MB, as those of `examples` say."""
    sizes: list[int] = []
    _mapped(lambda each: sizes.append(each.numel() * each.element_size()), outputs)
    needed = sum(sizes) / max(examples, 1) * count
    if needed > most_mb * MB:
        each = sum(sizes) // max(examples, 1)
        raise SettingError(
            MOST, most_mb,
            f"the outputs of {count} examples, {each} bytes each, take {needed / MB:.4g} MB, and evaluation.scores "
            "need them all at once: raise it, measure fewer examples, or leave the scores out",
        )  # fmt: skip


def joined(batches: Sequence[Any]) -> Any:
    """Return the outputs of several batches as those of one; tensors without a batch become a list.

    >>> joined([{"logits": torch.zeros(count, 3), "loss": None} for count in (2, 1)])["logits"].shape
    torch.Size([3, 3])
    """
    first = batches[0]
    if isinstance(first, Tensor):
        return torch.cat(list(batches)) if first.ndim else list(batches)
    if isinstance(first, Mapping):
        return {name: joined([each[name] for each in batches]) for name in first}
    if isinstance(first, tuple | list):
        return tuple(joined(each) for each in zip(*batches, strict=True))
    return first


def packed(batches: Iterable[Any]) -> bytes:
    """Return outputs as bytes: a server passes them on and imports nothing that they are made of."""
    return pickle.dumps(joined(list(batches)))


def unpacked(parts: Iterable[bytes]) -> Any:
    """Return the outputs of a whole set from the bytes of its parts, which this run's own workers have made."""
    return joined([pickle.loads(part) for part in parts])


def _mapped(function: Callable[[Tensor], Any], outputs: Any) -> Any:
    """Return outputs with a function applied to each tensor; mappings and tuples become plain ones."""
    if isinstance(outputs, Tensor):
        return function(outputs)
    if isinstance(outputs, Mapping):
        return {name: _mapped(function, each) for name, each in outputs.items()}
    if isinstance(outputs, tuple | list):
        return tuple(_mapped(function, each) for each in outputs)
    if hasattr(outputs, "logits"):
        return {"logits": _mapped(function, outputs.logits)}
    return outputs
