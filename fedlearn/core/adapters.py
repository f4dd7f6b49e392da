"""The factors of low-rank adapters among named arrays.

An adapter adds s B A to a weight, with A of shape (r, in) and B of shape (out, r) (Hu et al. 2021, arXiv:2106.09685,
eq. 3). A pair is found by names: those of `peft` differ only in ``lora_A`` and ``lora_B``.
"""

from __future__ import annotations

from typing import NamedTuple

from fedlearn.core.errors import SettingError
from fedlearn.core.state import Layout

DOWN, UP = "lora_A", "lora_B"
"""What the names of A and of B have, in the names that `peft` gives."""


class Pair(NamedTuple):
    """The names of the factors A and B of one adapter, and its rank."""

    down: str
    up: str
    rank: int


def pairs_of(layout: Layout, down: str = DOWN, up: str = UP) -> list[Pair]:
    """Return the pairs of factors among named arrays, in their order.

    Parameters
    ----------
    down, up
        What the name of A has as one of its parts between dots, and the name of B in its place. `peft` writes
        ``lora_embedding_A`` for embeddings, which is found, too.

    Raises
    ------
    SettingError
        If the shapes are not (r, ...) and (out, r).

    Examples
    --------
    >>> from fedlearn.core.state import ArraySpec
    >>> shapes = {"q.lora_A.default.weight": (2, 5), "q.lora_B.default.weight": (6, 2), "head.weight": (2, 6)}
    >>> pairs_of({name: ArraySpec(shape, "float32") for name, shape in shapes.items()})[0]._asdict()
    {'down': 'q.lora_A.default.weight', 'up': 'q.lora_B.default.weight', 'rank': 2}
    """
    words = {down: up, down.replace("lora_", "lora_embedding_"): up.replace("lora_", "lora_embedding_")}
    found = []
    for name in layout:
        parts = name.split(".")
        other = ".".join(words.get(part, part) for part in parts)
        if other == name or other not in layout:
            continue
        rank, size = layout[name].shape[0], layout[other].size
        if layout[other].shape[0] * rank != size:
            shapes = f"{layout[name].shape} and {layout[other].shape}"
            why = f"the factors {name} and {other} have shapes {shapes}: write A as (rank, in) and B as (out, rank)"
            raise SettingError("model.name", name, why)
        found.append(Pair(name, other, rank))
    return found
