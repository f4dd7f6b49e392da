"""A table in print, to be laid beside ours.

[[published]]
source = "NIID-Bench"                        # the head of its column
about = "Li et al. 2022; mean of 3 seeds"    # where it stands, and what its numbers are
[published.cells."Dirichlet 0.5"]
fedavg = 0.682                               # or [mean, deviation]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from fedlearn.report.numbers import MeanSd


@dataclass(frozen=True, slots=True)
class Published:
    """The numbers of one source: cell -> algorithm -> mean and deviation, the latter None where it is not printed."""

    source: str
    about: str
    cells: Mapping[str, Mapping[str, MeanSd]]

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> Self:
        """Return the numbers of a parsed table of a grid's file."""
        cells = {cell: {name: _read(value) for name, value in row.items()} for cell, row in tree["cells"].items()}
        return cls(str(tree["source"]), str(tree["about"]), cells)

    def of(self, cell: str, algorithm: str) -> MeanSd | None:
        """Return what is printed for an algorithm in a cell; None where nothing is."""
        return self.cells.get(cell, {}).get(algorithm)


def _read(value: Any) -> MeanSd:
    return MeanSd(*value) if isinstance(value, list) else MeanSd(value, None)
