"""Group runs: which settings tell them apart, and which runs differ by their seed alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

from fedlearn.config.baselines import CENTRAL, FOLLOWS, LOCAL, NONE, replaced_by
from fedlearn.config.marks import ReadIf
from fedlearn.config.names import marks, setting_names
from fedlearn.core.metric import Metric
from fedlearn.core.metrics import Metrics
from fedlearn.report.number_rows import finite
from fedlearn.report.numbers import SMALLER, MeanSd
from fedlearn.report.stored import StoredRun
from fedlearn.report.varied import varied_by
from fedlearn.report.words import short_names

PHASES = ("selection", "training", "evaluation")
NO_DIFFERENCE = (
    "out",
    "data.dir",
    "data.notice",
    "rounds.keep_every",
    "engine.",
)  # settings of where and how a run was executed

LONGEST_LABEL = 60  # letters of a point's name; a longer one gives way to the name of its first run

Measure = Callable[[StoredRun], float | None]


@dataclass(frozen=True, slots=True)
class Point:
    """The runs of one choice of settings, alike but for their seeds.

    Parameters
    ----------
    label
        The settings that tell the point from the others, in words.
    slot
        The number of the point, from 0: its color in every figure.
    """

    label: str
    slot: int
    runs: tuple[StoredRun, ...]

    @property
    def counted(self) -> tuple[StoredRun, ...]:
        """The runs that means are taken over: the completed ones, or all as long as none has completed."""
        return tuple(run for run in self.runs if run.status == "completed") or self.runs

    def values(self, measure: Measure) -> list[float]:
        """Return the measure of each run that counts, without runs for which it is None."""
        return [value for run in self.counted if (value := measure(run)) is not None]

    def spread(self, measure: Measure) -> MeanSd | None:
        """Return the mean and deviation of a measure over the runs; None if no run has it."""
        values = self.values(measure)
        return MeanSd.of(values) if values else None


def differing(runs: Sequence[StoredRun]) -> list[str]:
    """Return the names of the settings that are not the same in all runs: first what a sweep varies; the seed last."""
    names = dict.fromkeys(chain.from_iterable(run.settings for run in runs))
    alike = all(run.settings.get("training.baseline", NONE) == NONE for run in runs)
    several = [
        name
        for name in names
        if not name.startswith(NO_DIFFERENCE) and _differs(name, runs if alike else _that_choose(name, runs))
    ]
    place = {name: place for place, name in enumerate(varied_in(runs))}
    return sorted(several, key=lambda name: (name == "seed", place.get(name, len(place))))


def varied_in(runs: Sequence[StoredRun]) -> tuple[str, ...]:
    """Return the settings that the sweeps of some runs vary, in the order of their axes."""
    return tuple(dict.fromkeys(chain.from_iterable(varied_by(run.folder) for run in runs)))


def _differs(name: str, runs: Sequence[StoredRun]) -> bool:
    """Return whether a setting is not the same in all runs; values that are one object are written once."""
    values = [run.settings.get(name) for run in runs]
    one_of_each = dict(zip(map(id, values), values, strict=True)).values()
    return len({*map(repr, one_of_each)}) > 1


def _that_choose(name: str, runs: Sequence[StoredRun]) -> list[StoredRun]:
    """Return the runs in which a setting was chosen; in a baseline of a federation some follow from being one."""
    return [run for run in runs if name not in _following(str(run.settings.get("training.baseline", NONE)))]


@cache
def _following(baseline: str) -> frozenset[str]:
    return frozenset(replaced_by(baseline) | FOLLOWS) if baseline in (CENTRAL, LOCAL) else frozenset()


def points_of(runs: Sequence[StoredRun]) -> list[Point]:
    """Return the runs grouped by all that tells them apart but the seed, in the order they were given."""
    names = [name for name in differing(runs) if name != "seed"]
    groups: dict[str, list[StoredRun]] = {}
    for run in runs:
        key = repr([run.settings.get(name) for name in names])
        groups.setdefault(key if run.settings else run.name, []).append(run)
    repeated = any(len({repr(run.settings.get("seed")) for run in group}) < len(group) for group in groups.values())
    if repeated:  # runs of the same settings and seed are shown one by one
        return [Point(run.label, slot, (run,)) for slot, run in enumerate(runs)]
    varied = set(varied_in(runs))
    telling = _telling(list(groups.values()), names, first=[name for name in names if name in varied])
    return [Point(_label(group, telling), slot, tuple(group)) for slot, group in enumerate(groups.values())]


def _telling(groups: Sequence[Sequence[StoredRun]], names: Sequence[str], *, first: Sequence[str] = ()) -> list[str]:
    """Return few settings that tell every group of several runs from all other groups, in the order of `names`.

    Those of `first` are taken, unless they are needed by none, before any other is looked at.
    """
    chosen = _telling(groups, first) if first else []
    while names and (alike := _alike(groups, chosen)):
        best = min(names, key=lambda name: _alike(groups, [*chosen, name]))
        if _alike(groups, [*chosen, best]) == alike:
            break
        chosen.append(best)
    return [name for name in names if name in chosen]


def _alike(groups: Sequence[Sequence[StoredRun]], names: Sequence[str]) -> int:
    """Return how many pairs of a group of several runs and another group have the same values of some settings."""
    keys = [repr([group[0].settings.get(name) for name in names]) for group in groups]
    count = Counter(keys)
    return sum(count[key] - 1 for key, group in zip(keys, groups, strict=True) if len(group) > 1)


def _label(group: Sequence[StoredRun], telling: Sequence[str]) -> str:
    """Return the name of a point: the name of a single run, else the settings that tell the point apart."""
    if len(group) == 1:
        return group[0].label
    (run, *more) = group
    short = short_names(telling)
    values = [(short[name], value) for name in telling if (value := value_of(run, name)) is not None]
    label = ", ".join(f"{name}={shown(value)}" for name, value in values)
    if not label:
        return f"{run.label} and {len(more)} more" if telling else "all runs"
    return label if len(label) <= LONGEST_LABEL else f"{run.label} and {len(more)} more"


def value_of(run: StoredRun, name: str) -> Any:
    """Return a setting of a run; None where another setting keeps the run from reading it, as alpha of iid."""
    readers = marks(name, ReadIf) if name in _known() else []  # a folder of an earlier version may have others
    get = run.settings.get
    return get(name) if all(r.or_foreign or get(r.setting) in r.values for r in readers) else None


@cache
def _known() -> frozenset[str]:
    return frozenset(setting_names())


def shown(value: Any) -> str:
    """Return a setting's value for people.

    >>> shown(True), shown(""), shown(None), shown(0.1)
    ('true', '(empty)', '-', '0.1')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    return "(empty)" if value == "" else str(value)


def metrics_of(runs: Sequence[StoredRun]) -> Metrics:
    """Return the metrics of all runs, without those that no run has measured."""
    return Metrics.of_all(run.metrics for run in runs)


def counts_in(runs: Sequence[StoredRun]) -> str:
    """Return in words what the privacy loss of runs counts in; empty if no run has one."""
    return " | ".join(dict.fromkeys(words for run in runs for words in run.metrics.counts_in.values()))


def best(run: StoredRun, metric: Metric) -> tuple[float, int] | None:
    """Return the best value of a metric and its round."""
    top: tuple[float, int] | None = None
    for row, value in zip(run.rounds, run.column(metric.name), strict=True):
        if value is not None and (top is None or metric.is_better(value, top[0])):
            top = value, int(row.get("round_number") or 0)
    return top


def best_value(run: StoredRun, metric: Metric) -> float | None:
    """Return the best value of a metric, None if it was never measured."""
    top = best(run, metric)
    return top[0] if top else None


def seconds_of(run: StoredRun) -> float:
    """Return how long the phases of the committed attempts took, in seconds; pauses do not count."""
    return sum(run.total(f"{phase}_seconds") for phase in PHASES)


def is_compressed(run: StoredRun) -> bool:
    """Return whether a run's reports are smaller than plain ones, or its codec is to make them so."""
    ratio = compression_ratio(run)
    return ratio is not None and (ratio >= SMALLER or run.settings.get("compression.codec") != "identity")


def compression_ratio(run: StoredRun) -> float | None:
    """Return bytes of plain reports over bytes that came; None for ensembles, baselines, before the first report."""
    if run.sent("bytes_up") is None:
        return None
    plain = finite(run.log.view.about.get("plain_bytes"))
    if not plain:
        return finite(run.summary.get("compression_ratio"))
    return plain * run.total("uploads") / run.total("bytes_up") if run.total("bytes_up") else None
