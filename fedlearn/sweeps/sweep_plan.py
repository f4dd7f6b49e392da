"""Read the plan of a sweep: a TOML file of base settings, of axes that vary, and of seeds.

```toml
title = "Accuracy by keep ratio"
seeds = [1, 2, 3]

[base]                        # as in a file for --config
clients = 100
data.dataset = "cifar10"

[grid]                        # an axis for each setting: the values that it takes
data.alpha = [0.1, 1.0]

[choices.dropping]            # an axis that varies several settings at once: a label, and what it stands for
none = {}
tenth = { compression.codec = "drop", compression.keep_ratio = 0.1 }

[quick]                       # with --quick, in place of the above
seeds = [1]
base.rounds.total = 3
only.dropping = ["tenth"]     # these labels of an axis; or [quick.choices.dropping], with labels of its own
```

A *point* is one combination of all axes; a *run* is a point with a seed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Self

import tomli_w

from fedlearn.compression import load_codec
from fedlearn.config import RunConfig, flat_from_assignments
from fedlearn.config.syntax import parsed
from fedlearn.core.errors import UsageError, said
from fedlearn.data.validation import SHARE
from fedlearn.models.loaded import can_validate
from fedlearn.models.presets import settings_from

VALIDATION = "data.validation_share"
TAKEN = ("run", "seed", "seeds", "round", "status", "reason")
"""Names of columns in the tables of a sweep; no axis may have them."""

Flat = Mapping[str, Any]  # dotted setting -> value
Axes = Mapping[str, Mapping[str, Flat]]  # axis -> label -> settings


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a sweep.

    Parameters
    ----------
    labels
        Axis -> label of the run.
    """

    labels: Mapping[str, str]
    seed: int
    config: RunConfig

    @property
    def name(self) -> str:
        """The name of the run's folder below runs/."""
        return name_of({**self.labels, "seed": str(self.seed)})


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a sweep: base settings, axes and seeds; `runs` yields its runs.

    With `validates`, runs have validation rows unless their settings say how many: a sweep chooses by them.
    """

    title: str
    seeds: tuple[int, ...]
    base: Flat
    axes: Axes
    validates: bool = False

    @classmethod
    def from_file(cls, path: Path, *, quick: bool = False) -> Self:
        """Return the plan in a TOML file; raise UsageError, in one line, if the plan is wrong."""
        try:
            tree = parsed(path.read_bytes())
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or error}: name the file of a plan") from None
        except ValueError as error:
            raise UsageError(f"{path}: {error}") from None
        try:
            plan = cls.from_tree(tree, quick=quick)
            list(plan.runs())
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from None
        return plan

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any], *, quick: bool = False) -> Self:
        """Return the plan of a parsed TOML file."""
        _check_keys(tree, ("title", "seeds", "base", "grid", "choices", "quick"))
        _check_keys(tree.get("quick", {}), ("seeds", "base", "only", "choices"), within="quick.")
        other: Mapping[str, Any] = tree.get("quick", {}) if quick else {}
        axes: dict[str, Mapping[str, Flat]] = {}
        for setting, values in flat_from(tree.get("grid", {})).items():
            if not isinstance(values, list):
                raise UsageError(f"grid.{setting} = {values!r}: give a list of values")
            axes[setting] = axis_of(setting, values)
        for axis, choices in (tree.get("choices", {}) | other.get("choices", {})).items():
            axes[axis] = {label: flat_from(settings) for label, settings in choices.items()}
        return cls(
            title=str(tree.get("title", "")),
            seeds=tuple(other.get("seeds", tree.get("seeds", [1]))),
            base=flat_from(tree.get("base", {})) | flat_from(other.get("base", {})),
            axes=axes,
        )._with_only(flat_from(other.get("only", {})))

    def _with_only(self, only: Mapping[str, Sequence[object]]) -> Self:
        """Return the plan in which some axes keep only some labels."""
        axes = dict(self.axes)
        for axis, labels in only.items():
            missing = [str(label) for label in labels if str(label) not in axes.get(axis, {})]
            if missing:
                raise UsageError(f"quick.only.{axis}: there is no {missing[0]!r}")
            axes[axis] = {str(label): axes[axis][str(label)] for label in labels}
        return replace(self, axes=axes)

    def with_other(self, *, base: Flat, seeds: Sequence[int] = ()) -> Self:
        """Return the plan with other base settings and, if any are given, other seeds."""
        for name in base:
            if name in self.varying or name in ("seed", "out"):
                axis = f" on its axis {self.varying[name]}" if name in self.varying else ""
                raise UsageError(f"{name}: the sweep sets it itself{axis}")
        return replace(self, base={**self.base, **base}, seeds=tuple(seeds) or self.seeds)

    @property
    def varying(self) -> dict[str, str]:
        """The settings that vary over the runs: setting -> its axis."""
        return {name: axis for axis, labels in self.axes.items() for flat in labels.values() for name in flat}

    def with_axes(self, axes: Axes) -> Self:
        """Return the plan with further axes, or with others in place of its own of these names."""
        return replace(self, axes={**self.axes, **axes})

    def chosen(self, choices: Sequence[str]) -> Callable[[Run], bool]:
        """Return a test of runs: on each axis named in `choices` (``AXIS=LABEL``) a run must have a named label."""
        labels: dict[str, list[str]] = {}
        for choice in choices:
            axis, _, label = choice.partition("=")
            if label not in self.axes.get(axis, {}):
                there = "; ".join(f"{axis}={label}" for axis, labels in self.axes.items() for label in labels)
                raise UsageError(f"--only {choice}: there is no such point; there are {there}")
            labels.setdefault(axis, []).append(label)
        return lambda run: all(run.labels[axis] in wanted for axis, wanted in labels.items())

    def to_toml(self) -> str:
        """Return the plan as a file that `from_file` reads back."""
        choices = {axis: {label: dict(flat) for label, flat in labels.items()} for axis, labels in self.axes.items()}
        return tomli_w.dumps(
            {"title": self.title, "seeds": list(self.seeds), "base": dict(self.base), "choices": choices}
        )

    def points(self) -> Iterator[dict[str, str]]:
        """Yield axis -> label for each point; the last axis varies fastest."""
        for labels in product(*self.axes.values()):
            yield dict(zip(self.axes, labels, strict=True))

    def runs(self) -> Iterator[Run]:
        """Yield all runs: all points with the first seed, then all with the second, and so on.

        Raises
        ------
        UsageError
            If a setting does not exist or is not allowed, or two runs have the same name.
        """
        self._check()
        for seed in self.seeds:
            for labels in self.points():
                flat = self.settings_of(labels)
                config = settings_from({**flat, "seed": seed})
                if self.validates and VALIDATION not in flat and can_validate(config):
                    config = settings_from({**flat, "seed": seed, VALIDATION: SHARE})
                load_codec(config.compression)  # refuse a wrong chain before hours of runs
                yield Run(labels, seed, config)

    def settings_of(self, labels: Mapping[str, str]) -> dict[str, Any]:
        """Return the settings that are given for a point: dotted name -> value."""
        flat = dict(self.base)
        for axis, label in labels.items():
            flat |= self.axes[axis][label]
        return flat

    def _check(self) -> None:
        for axis, labels in self.axes.items():
            if axis in TAKEN:
                raise UsageError(f"{axis!r} cannot be the name of an axis: the tables have a column of that name")
            if not labels:
                raise UsageError(f"{axis} has no value")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise UsageError(f"seeds = {list(self.seeds)}: give at least one, and none twice")
        names = [name_of(labels) for labels in self.points()]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f"two points would have the same folder, {twice}: give them other labels")


def axes_in(texts: Sequence[str]) -> Axes:
    """Return an axis for each ``KEY=VALUE,VALUE``.

    Values that hold a comma are given as a TOML list: ``compression.codec=["identity","drop:0.1,eden"]``.
    """
    axes: dict[str, Mapping[str, Flat]] = {}
    for given in texts:
        setting, equals, text = given.partition("=")
        setting, text = setting.strip(), text.strip()
        if not equals or not setting or not text:
            raise UsageError(
                f"--vary {said(given)}: write it as key=value,value, for example --vary training.lr=0.1,0.05"
            )
        if setting in axes:
            raise UsageError(f"--vary {said(given)}: {said(setting)} is varied twice")
        axes[setting] = axis_of(setting, _values_of(text))
    return axes


def axis_of(setting: str, values: Iterable[Any]) -> Mapping[str, Flat]:
    """Return the axis of a setting: label -> the setting with one of its values."""
    return {str(value): {setting: value} for value in values}


def name_of(labels: Mapping[str, str]) -> str:
    """Return a name of a point that every file system takes.

    >>> name_of({"codec": "drop:0.1/x", "seed": "2"})
    'codec=drop_0.1_x,seed=2'
    """
    return re.sub(r"[^A-Za-z0-9.=,+-]", "_", ",".join(f"{axis}={label}" for axis, label in labels.items()))


def flat_from(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table of tables as one table of dotted names.

    >>> flat_from({"clients": 3, "data": {"alpha": 0.1}})
    {'clients': 3, 'data.alpha': 0.1}
    """
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        inner = flat_from(value) if isinstance(value, dict) else None
        flat |= {f"{name}.{key}": entry for key, entry in inner.items()} if inner is not None else {name: value}
    return flat


def _values_of(text: str) -> list[Any]:
    """Return the values of an axis in the text of ``--vary``.

    >>> _values_of("1,0.5"), _values_of('["drop:0.1,eden", "sign"]')
    ([1, 0.5], ['drop:0.1,eden', 'sign'])
    """
    listed = flat_from_assignments([f"value={text}"])["value"]
    if isinstance(listed, list):
        return listed
    return [flat_from_assignments([f"value={each}"])["value"] for each in text.split(",")]


def _check_keys(tree: Mapping[str, Any], allowed: Sequence[str], *, within: str = "") -> None:
    unknown = [key for key in tree if key not in allowed]
    if unknown:
        raise UsageError(f"there is no {within}{unknown[0]}; there are {', '.join(allowed)}")
