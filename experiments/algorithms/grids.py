"""A grid: cells (ways to deal data to nodes), algorithms, and the values that each algorithm is tuned over.

title = "Personal models"
seeds = [1, 2, 3]
score = "accuracy_nodes_equal"     # the column by which algorithms are ranked, at the last evaluation; more is better
target = 0.8                       # of the score: rounds and bytes until it is reached

[base]                             # settings of all runs
[cells."Dirichlet 0.1"]            # settings of a cell
[algorithms.fedavg]                # settings of an algorithm
[tuning]                           # values that each algorithm is tried with, the same for all
training.lr = [0.02, 0.1]
[quick]                            # with --quick, in place of the above
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Self

from fedlearn.models.presets import settings_from
from fedlearn.sweeps.plan import Flat, Plan, flat_from
from fedlearn.words.errors import UsageError
from fedlearn.words.spread import ON_NODES

ALGORITHM, VALUES = "algorithm", "tuned"  # the axes of a cell's sweeps
VALIDATION = 0.2  # share of each node's examples by which algorithms are tuned
KEYS = ("title", "seeds", "score", "target", "base", "cells", "algorithms", "tuning", "quick")


@dataclass(frozen=True, slots=True)
class Grid:
    """One table, before it is run."""

    title: str
    seeds: tuple[int, ...]
    score: str
    target: float
    base: Flat
    cells: Mapping[str, Flat]
    algorithms: Mapping[str, Flat]
    tuning: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @classmethod
    def from_file(cls, path: Path, *, quick: bool = False) -> Self:
        """Return the grid of a TOML file; raise UsageError where the file cannot be read, or has other keys."""
        try:
            tree = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"{path}: {error}") from None
        if unknown := [key for key in tree if key not in KEYS]:
            raise UsageError(f"{path}: there is no {unknown[0]}; there are {', '.join(KEYS)}")
        other = tree.get("quick", {}) if quick else {}
        return cls(
            str(tree["title"]), tuple(other.get("seeds", tree["seeds"])), str(tree["score"]), float(tree["target"]),
            flat_from(tree["base"]) | flat_from(other.get("base", {})),
            {label: flat_from(cell) for label, cell in {**tree["cells"], **other.get("cells", {})}.items()},
            {label: flat_from(settings) for label, settings in tree["algorithms"].items()},
            flat_from(other.get("tuning", tree.get("tuning", {}))),
        )  # fmt: skip

    def chosen(self, cells: Sequence[str], algorithms: Sequence[str]) -> Self:
        """Return the grid of some cells and algorithms; all where none is named."""
        for kind, names, there in (("cell", cells, self.cells), ("algorithm", algorithms, self.algorithms)):
            if unknown := [name for name in names if name not in there]:
                raise UsageError(f"--{kind} {unknown[0]}: there are {', '.join(there)}")
        return replace(
            self,
            cells={label: cell for label, cell in self.cells.items() if label in cells or not cells},
            algorithms={name: flat for name, flat in self.algorithms.items() if name in algorithms or not algorithms},
        )

    def values(self) -> dict[str, Flat]:
        """Return label -> settings of each combination of tuned values.

        >>> Grid("", (1,), "", 0, {}, {}, {}, {"training.lr": [0.1, 0.2]}).values()
        {'lr=0.1': {'training.lr': 0.1}, 'lr=0.2': {'training.lr': 0.2}}
        """
        combined = [dict(zip(self.tuning, each, strict=True)) for each in product(*self.tuning.values())]
        return {",".join(f"{name.rpartition('.')[2]}={v}" for name, v in flat.items()): flat for flat in combined}

    def plan(self, cell: str, tuned: Mapping[str, Flat]) -> Plan:
        """Return the runs of a cell that are reported: each algorithm with its tuned values and each seed."""
        axis = {name: {**flat, **tuned.get(name, {})} for name, flat in self.algorithms.items()}
        return Plan(f"{self.title}: {cell}", self.seeds, {**self.base, **self.cells[cell]}, {ALGORITHM: axis})

    def tuning_plan(self, cell: str) -> Plan:
        """Return the runs by which the algorithms of a cell are tuned: on examples that no reported run tests on."""
        base = {**self.base, **self.cells[cell]}
        config = settings_from({**base, "seed": self.seeds[0]})
        names = ("partition", "partition_options", "alpha", "classes_per_node", "shards_per_node", "node_test_share")
        held = {
            "data.partition": "experiments.algorithms.dealing:untested",
            "data.partition_options": {
                "as_settings": {name: getattr(config.data, name) for name in names}, "seeds": list(self.seeds),
            },
            "data.node_test_share": VALIDATION,
            "evaluation.where": "none", "evaluation.nodes": config.clients, "evaluation.beside": "",
            "evaluation.every": config.rounds.total,
        }  # fmt: skip
        if config.data.partition == "natural":  # whose test examples are apart
            held = {name: value for name, value in held.items() if not name.startswith("data.partition")}
        axes = {ALGORITHM: self.algorithms, VALUES: self.values()}
        return Plan(f"{self.title}: {cell}, tuning", self.seeds[:1], {**base, **held}, axes)

    @property
    def judged_by(self) -> str:
        """The column by which algorithms are tuned: what nodes measure on their validation examples."""
        return self.score if ON_NODES in self.score else f"{self.score}{ON_NODES}"
