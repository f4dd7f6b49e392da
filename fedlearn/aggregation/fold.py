"""The fold: a fold plan carried out in one process, and its sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fedlearn.aggregation.fold_plan import Accumulator, FoldPlan, FoldStep, Gate, ParcelPlan, Verdict
from fedlearn.aggregation.steps import load_step
from fedlearn.core.state import Array, Update
from fedlearn.plugins.registry import load_reference

Sums = dict[str, Accumulator]
"""Parcel -> its accumulator."""


class Fold:
    """Adds up the verdicts of one attempt, as its plan says."""

    def __init__(self, plan: FoldPlan) -> None:
        self.plan = plan
        self.gate: Gate = load_reference(plan.gate)(plan)
        self._parcels = {name: ParcelFold(parcel) for name, parcel in plan.parcels.items()}

    def empty(self) -> Sums:
        """Return empty sums."""
        return {name: parcel.empty() for name, parcel in self._parcels.items()}

    def of(self, verdicts: Iterable[Verdict], sums: Sums | None = None) -> Sums:
        """Return the sums of one block, whose verdicts are given in the order of positions.

        A worker passes the sums of the block before, whose memory is then used again.
        """
        accepted = [verdict for verdict in verdicts if verdict.parcels]
        sums = sums or self.empty()
        for name, parcel in self._parcels.items():
            sums[name].clear()
            sums[name].add([parcel.part(v.report.num_examples, v.parcels[name]) for v in accepted])
        return sums

    def parts(self, verdict: Verdict) -> dict[str, tuple[float, Update]]:
        """Return the summands of one accepted report: parcel -> (weight, update), after the fold steps."""
        examples = verdict.report.num_examples
        return {name: parcel.part(examples, verdict.parcels[name]) for name, parcel in self._parcels.items()}

    def to_arrays(self, sums: Sums) -> dict[str, Array]:
        """Return sums as named arrays, to be sent between processes of one engine."""
        return {f"{name}|{key}": array for name, each in sums.items() for key, array in each.to_arrays().items()}

    def from_arrays(self, arrays: Mapping[str, Array]) -> Sums:
        """Return the sums that `to_arrays` described; the sums may share the arrays' memory."""
        by_parcel: dict[str, dict[str, Array]] = {name: {} for name in self._parcels}
        for place, array in arrays.items():
            name, _, key = place.partition("|")
            by_parcel[name][key] = array
        return {
            name: parcel.kind.from_arrays(parcel.plan.layout, by_parcel[name]) for name, parcel in self._parcels.items()
        }


def merge(sums: Sums, later: Sums) -> None:
    """Add `later` to `sums`, in place; both are of one plan, and the nodes of `later` follow the nodes of `sums`."""
    for name, each in sums.items():
        each.merge(later[name])


class ParcelFold:
    """Adds up one parcel of every report, as its plan says."""

    def __init__(self, plan: ParcelPlan) -> None:
        self.plan = plan
        self.kind: type[Accumulator] = load_reference(plan.accumulator)
        self._steps: list[FoldStep] = [load_step(spec) for spec in plan.steps]

    def empty(self) -> Accumulator:
        """Return the empty accumulator."""
        return self.kind.empty(self.plan.layout)

    def part(self, num_examples: int, update: Update) -> tuple[float, Update]:
        """Return the summand of one node: its weight and its parcel, after the fold steps."""
        weight: float = 1 if self.plan.uniform else num_examples
        for step in self._steps:
            weight, update = step(weight, update)
        return weight, update
