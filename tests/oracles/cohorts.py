"""Made cohorts: random states, and reports with random masks and weights, in both shapes that tests need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fedlearn.aggregation import STATE, Fold, FoldingTree, FoldPlan, ParcelPlan, Verdict, blocks_of, merge
from fedlearn.config import RunConfig, to_flower
from fedlearn.core.cohort import At, Fate, NodeReport
from fedlearn.core.metric import TRAIN_LOSS, Metric
from fedlearn.core.state import Entries, Sends, State, UpdateKind, layout_of
from strategies.base import RoundStrategy, Turn

SHAPES = {"w": (3, 4), "b": (5,), "one": (1,), "scalar": (), "none": (0,)}
COUNTS = {"count": (2,), "steps": ()}  # integer buffers, as batch norm has


@dataclass(frozen=True)
class MadeReport:
    """One node's report: weight, and for each sent parameter its dense values and mask; None masks are dense."""

    weight: int
    values: Mapping[str, np.ndarray]
    sent: Mapping[str, np.ndarray]
    dense: Mapping[str, bool]

    def update(self) -> dict[str, Entries]:
        return {
            name: Entries(values.reshape(-1))
            if self.dense[name]
            else Entries(values.reshape(-1)[mask], np.flatnonzero(mask))
            for name, values in self.values.items()
            for mask in [self.sent[name].reshape(-1)]
        }


Cohort = Sequence[MadeReport | None]  # by position; None: failed, late or refused


def made_state(rng: np.random.Generator) -> dict[str, np.ndarray]:
    state = {name: rng.uniform(-4, 4, shape).astype(np.float32) for name, shape in SHAPES.items()}
    state["b"][0] = -0.0  # a value that arithmetic easily loses
    return state | {name: rng.integers(-50, 50, shape) for name, shape in COUNTS.items()}


def made_report(rng: np.random.Generator, state: State, density: float, *, spread: float = 0.0) -> MadeReport:
    """Return a report; with a `spread`, magnitudes go over that many powers of ten, and sums are never exact."""
    names = [name for name in state if rng.random() < 0.9]
    dense = {name: bool(rng.random() < 0.3) for name in names}
    values, sent = {}, {}
    for name in names:
        shape, dtype = state[name].shape, state[name].dtype
        floats = rng.uniform(-4, 4, shape) * 10.0 ** rng.uniform(-spread / 2, spread / 2, shape)
        drawn = rng.integers(-9, 9, shape) if dtype.kind == "i" else floats
        values[name] = np.asarray(drawn, dtype)
        sent[name] = np.ones(shape, bool) if dense[name] else np.asarray(rng.random(shape) < density)
    return MadeReport(int(rng.integers(1, 1000)), values, sent, dense)


def made_cohort(
    rng: np.random.Generator, state: State, *, size: int, density: float, spread: float = 0.0
) -> list[MadeReport | None]:
    return [made_report(rng, state, density, spread=spread) if rng.random() < 0.85 else None for _ in range(size)]


cohort_seeds = st.tuples(
    st.integers(0, 2**32 - 1),  # seed
    st.integers(1, 9),  # cohort
    st.sampled_from([0.0, 0.05, 0.5, 1.0]),  # density of the masks
)


def rows_of(cohort: Cohort, name: str, *, uniform: bool) -> list[tuple[float, np.ndarray, np.ndarray]]:
    """Return the reports on one parameter as the oracles take them."""
    return [
        (1 if uniform else report.weight, report.values[name], report.sent[name])
        for report in cohort
        if report is not None and name in report.values
    ]


FIRST = At(1, 1)


def plan_for(
    accumulator: str, state: State, *, uniform: bool = False, settings: Mapping[str, Any] | None = None,
    kind: UpdateKind = UpdateKind.DENSE, at: At = FIRST, measured: Sequence[Metric] = (TRAIN_LOSS,),
    **parcels: ParcelPlan,
) -> FoldPlan:  # fmt: skip
    whole = {STATE: ParcelPlan(layout_of(state), accumulator, uniform), **parcels}
    return FoldPlan(
        "server.gate.gate:ReportGate",
        at,
        whole,
        settings or to_flower(RunConfig()),
        kind,
        {each.name: each for each in measured},
    )


def after(
    strategy: RoundStrategy, state: State, total: Any, *, sends: Sends = Sends.WEIGHTS, round_number: int = 1
) -> State:
    """Return the state that a strategy makes of a total."""
    return strategy.next_state(Turn(state, total, sends, at=At(round_number, 1))).state


def verdict_of(report: MadeReport | None, position: int) -> Verdict | None:
    if report is None:
        return None
    return Verdict(NodeReport(position, Fate.REPORTED, report.weight), {STATE: report.update()})


def folded(
    plan: FoldPlan, cohort: Cohort, order: Sequence[int], *, by_block: Sequence[int] = (), by_part: Sequence[int] = ()
):
    """Return the tree's total when positions come in `order`.

    Blocks in `by_block` are added up by a worker; of those also in `by_part` each position by one.
    """
    fold = Fold(plan)
    tree = FoldingTree(fold, len(cohort))
    blocks = blocks_of(len(cohort))
    in_blocks = {position: block for block in by_block if block not in by_part for position in blocks[block]}
    alone = {position for block in by_block if block in by_part for position in blocks[block]}
    done = set()
    kept = fold.empty()  # a worker uses its accumulator for one block after another
    for position in order:
        block = in_blocks.get(position)
        if position in alone:
            verdict = verdict_of(cohort[position], position)
            kept = fold.of([] if verdict is None else [verdict], kept)
            merge(copy := fold.empty(), fold.from_arrays(fold.to_arrays(kept)))  # as it has to wait for its turn
            tree.place_part([position], copy)
        elif block is None:
            tree.place(position, verdict_of(cohort[position], position))
        elif block not in done:
            done.add(block)
            verdicts = [verdict_of(cohort[p], p) for p in blocks[block]]
            kept = fold.of([v for v in verdicts if v is not None], kept)
            arrays = fold.to_arrays(kept)
            read_only = {name: array.copy() for name, array in arrays.items()}
            for array in read_only.values():
                array.flags.writeable = False  # a worker's shared memory: ours to read
            tree.place_block(block, fold.from_arrays(read_only))
    return tree.close()[STATE]


def bytes_of(arrays: Mapping[str, np.ndarray]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arrays.items()}
