"""A grid: cells (ways to deal data to nodes), algorithms, and the values that each algorithm is tuned over.

title = "Personal models"
seeds = [1, 2, 3]
score = "accuracy_nodes_equal"     # the column by which algorithms are ranked, at the last evaluation; more is better
target = 0.8                       # of the score: rounds and bytes until it is reached
differs = ["Other images."]        # why numbers in print are others
[base]                             # settings of all runs
[cells."Dirichlet 0.1"]            # settings of a cell; algorithms.fedprox.training.lr: of an algorithm there alone
[algorithms.fedavg]                # settings of an algorithm
[tuning]                           # values that each algorithm is tried with, the same for all
training.lr = [0.02, 0.1]
[[published]]                      # a table in print (`published.py`)
[quick]                            # with --quick, in place of the above
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Self

from experiments.algorithms.published import Published
from fedlearn.core.errors import UsageError
from fedlearn.core.spread import ON_NODES
from fedlearn.models.presets import settings_from
from fedlearn.sweeps.sweep_plan import Flat, Plan, Run, flat_from

CELL, ALGORITHM, SEED, VALUES = "cell", "algorithm", "seed", "tuned"  # what pieces are named by; axes of sweeps
OF_ALGORITHMS = "algorithms."  # before the settings of an algorithm in a cell
VALIDATION = 0.2  # share of each node's examples by which algorithms are tuned
KEYS = ("title", "seeds", "score", "target", "differs", "base", "cells", "algorithms", "tuning", "published", "quick")


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
    published: tuple[Published, ...] = ()
    differs: tuple[str, ...] = ()

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
            () if quick else tuple(map(Published.from_tree, tree.get("published", ()))),
            tuple(tree.get("differs", ())),
        )  # fmt: skip

    def of_cell(self, cell: str) -> tuple[Flat, Mapping[str, Flat]]:
        """Return the settings of all runs of a cell, and those of each algorithm there."""
        given = self.cells[cell]
        own = {
            name: {k.removeprefix(f"{OF_ALGORITHMS}{name}."): v for k, v in given.items() if _is_of(name, k)}
            for name in self.algorithms
        }
        common = {name: value for name, value in given.items() if not name.startswith(OF_ALGORITHMS)}
        return {**self.base, **common}, {name: {**flat, **own[name]} for name, flat in self.algorithms.items()}

    def piece(self, choices: Sequence[str]) -> Callable[[str, Run], bool]:
        """Return whether a run of a cell belongs to a piece of the grid, each choice given as ``WHAT=LABEL``.

        Raises
        ------
        UsageError
            If the grid has no such cell, algorithm or seed.
        """
        there = {CELL: list(self.cells), ALGORITHM: list(self.algorithms), SEED: [str(seed) for seed in self.seeds]}
        wanted: dict[str, list[str]] = {}
        for choice in choices:
            what, _, label = choice.partition("=")
            if label not in there.get(what, ()):
                known = "; ".join(f"{name} = {', '.join(labels)}" for name, labels in there.items())
                raise UsageError(f"--only {choice}: there is no such piece; there are {known}")
            wanted.setdefault(what, []).append(label)

        def is_wanted(cell: str, run: Run) -> bool:
            labels = {CELL: cell, ALGORITHM: run.labels[ALGORITHM], SEED: str(run.seed)}
            is_tuning = VALUES in run.labels  # of every seed
            return all(labels[what] in names or (is_tuning and what == SEED) for what, names in wanted.items())

        return is_wanted

    def values(self) -> dict[str, Flat]:
        """Return label -> settings of each combination of tuned values.

        >>> Grid("", (1,), "", 0, {}, {}, {}, {"training.lr": [0.1, 0.2]}).values()
        {'lr=0.1': {'training.lr': 0.1}, 'lr=0.2': {'training.lr': 0.2}}
        """
        combined = [dict(zip(self.tuning, each, strict=True)) for each in product(*self.tuning.values())]
        return {",".join(f"{name.rpartition('.')[2]}={v}" for name, v in flat.items()): flat for flat in combined}

    def plan(self, cell: str, tuned: Mapping[str, Flat]) -> Plan:
        """Return the runs of a cell that are reported: each tuned algorithm with its values and each seed."""
        base, algorithms = self.of_cell(cell)
        axis = {name: {**flat, **tuned[name]} for name, flat in algorithms.items() if name in tuned}
        return Plan(f"{self.title}: {cell}", self.seeds, base, {ALGORITHM: axis})

    def tuning_plan(self, cell: str) -> Plan:
        """Return the runs by which the algorithms of a cell are tuned: on examples that no reported run tests on."""
        base, algorithms = self.of_cell(cell)
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
        axes = {ALGORITHM: algorithms, VALUES: self.values()}
        return Plan(f"{self.title}: {cell}, tuning", self.seeds[:1], {**base, **held}, axes)

    def with_algorithms(self, more: Mapping[str, Flat]) -> Self:
        """Return the grid with further algorithms."""
        return replace(self, algorithms={**self.algorithms, **more})

    @property
    def score_title(self) -> str:
        """The score in words."""
        return self.score.replace("_nodes_equal", ", mean of clients").replace("_", " ")

    @property
    def judged_by(self) -> str:
        """The column by which algorithms are tuned: what nodes measure on their validation examples."""
        return self.score if ON_NODES in self.score else f"{self.score}{ON_NODES}"


def _is_of(algorithm: str, setting: str) -> bool:
    return setting.startswith(f"{OF_ALGORITHMS}{algorithm}.")
