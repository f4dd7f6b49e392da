"""Sums of noisy counts as models: one model that follows from what all nodes have counted, added up.

A state holds the sums of all rounds so far, one behind the other (``sums``), and for each round how many reports are in
it (``reports``). All else is post-processing of these: which sums the next round asks for, and what is predicted. So a
report is of the state's names: the node's own sums, and 1 report. What a round asks for is as long as the declaration
says, whatever was counted.

*Whose noise protects* (``privacy.trust``). *local*: each node's sums are private by themselves, with geometric noise
for the whole epsilon; the noise of m nodes adds up to a deviation of sqrt(m) times that of one. *distributed*: each
adds a share (`fedlearn.privacy.polya_share`), and the sum of all has the noise of one; private is the sum alone, so
nobody may see what one node sends.

*Nodes that drop out* take their shares along. So shares are calibrated to the fewest reports of which a round is
committed (``rounds.minimum_ready`` and ``rounds.quorum``): with so many the sum has the noise that was promised, with
more it has more. With fewer the round is abandoned, and a node refuses a state to which fewer have reported.

*Privacy*: add or remove one record of one node. It changes the sums of that node only, by at most the sensitivity in
the L1 norm. Rounds compose one after the other; the plan's shares of epsilon add up to 1. The proofs are those of
`fedlearn.private_trees.sums`.

*What a node may send* (`SumsModel.reach`). A sum has no weights, so a lie counts for as much as it is large. What n
records count is known: a record adds at most ``most_of_one`` to one number, and ``unit`` to all in the L1 norm. What
noise adds is known but for a small probability (`fedlearn.privacy.tails`). A report beyond both, of which an honest one
in all reports of a run is with probability `RISK` at most, is refused. n is declared, as ``gate.max_examples``.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedlearn.config import RunConfig
from fedlearn.data.base import DataSpec, Examples, TableSchema
from fedlearn.models.base import Evaluation
from fedlearn.models.measuring import of_classes, of_numbers
from fedlearn.plugging.options import options_for
from fedlearn.privacy.tails import largest_noise, largest_norm
from fedlearn.private_trees.sums.bayes import counts_of, starts_of, tables_of
from fedlearn.private_trees.sums.boosted import WIDTH
from fedlearn.private_trees.sums.cyclic import FIRST_SHARE, CyclicBoosting, CyclicModel, Released
from fedlearn.private_trees.sums.losses import UNIT, LogCosh, Logistic
from fedlearn.private_trees.sums.rounds import is_little
from fedlearn.private_trees.sums.views import Views
from fedlearn.words.cohort import fewest_reports
from fedlearn.words.errors import Refused, SettingError
from fedlearn.words.metrics import PRIVATE_CLASSIFIER, PRIVATE_REGRESSOR, Metrics
from fedlearn.words.state import Array, ArraySpec, Layout, State, UpdateKind, layout_of

LARGEST = 2**42  # of one number in a report: four million records in one cell, in units of 2^-20
MOST_REPORTS = 2**20
RISK = 5e-13  # that any honest report of a run is refused for what its noise has drawn
CHECKS = 2  # of each report: its largest number, and all together
PAIRS_FOR_CLASSES, PAIRS_FOR_NUMBERS = 0, 3
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SumsPlan:
    """What follows from a run's settings, and is public.

    Parameters
    ----------
    epsilon
        Of all rounds together.
    rounds
        Number of rounds.
    shares
        Of how many reports' noise the sum has that of one; 1: each report is private by itself.
    first
        Share of epsilon that the first round spends; the others divide the rest.
    nodes
        How many there are: each reports at most once a round.

    Examples
    --------
    >>> plan = SumsPlan(1.0, rounds=5, shares=1, first=0.2)
    >>> [plan.share(number) for number in (1, 2, 5)]
    [0.2, 0.2, 0.2]
    """

    epsilon: float
    rounds: int
    shares: int
    first: float = 1.0
    nodes: int = 1

    @classmethod
    def of(cls, config: RunConfig, *, first: float) -> SumsPlan:
        """Return the plan of a run."""
        fewest = fewest_reports(
            quorum=config.rounds.quorum, minimum_ready=config.rounds.minimum_ready, goal=config.goal_count
        )
        shares = fewest if config.privacy.trust == "distributed" else 1
        return cls(config.privacy.epsilon, config.rounds.total, shares, first, config.clients)

    def share(self, round_number: int) -> float:
        """Return which share of epsilon a round spends; rounds count from 1."""
        if round_number == 1 or self.first == 1.0:
            return self.first
        return (1 - self.first) / max(self.rounds - 1, 1)

    @property
    def risk(self) -> float:
        """How likely an honest report may fail one of its checks: all of a run's together, one with `RISK`."""
        return RISK / (CHECKS * self.rounds * self.nodes)


class SumsModel(ABC):
    """What all models of sums have in common.

    Parameters
    ----------
    schema
        What is declared about the table.
    """

    update_kind = UpdateKind.SUMS
    learner = "sums"
    metrics: Metrics = PRIVATE_CLASSIFIER
    first_share = 1.0  # of epsilon, that the first round spends

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self.views = Views.declare(
            len(schema.features),
            bounds=dict(enumerate(schema.bounds.values())),
            categories={len(schema.bounds) + i: len(words) for i, words in enumerate(schema.categories.values())},
            one_each=True,
        )
        self.plan = SumsPlan.of(RunConfig(), first=self.first_share)

    def planned(self, config: RunConfig) -> Self:
        """Return the model of a run with these settings."""
        made = copy.copy(self)
        made.plan = SumsPlan.of(config, first=self.first_share)
        return made

    def initial_state(self, *, seed: int) -> State:
        """Return the state to which nobody has reported, whatever the seed."""
        return {"sums": np.zeros(0, np.int64), "reports": np.zeros(0, np.int64)}

    @abstractmethod
    def length(self, round_number: int) -> int:
        """Return how many numbers a report of this round holds."""

    @abstractmethod
    def unit(self, round_number: int) -> int:
        """Return what a record adds to the sums of this round at most, in the L1 norm."""

    def most_of_one(self, round_number: int) -> int:
        """Return what a record adds to one of the sums of this round at most, up or down."""
        return self.unit(round_number)

    @abstractmethod
    def evaluate(self, state: State, examples: Examples) -> Evaluation:
        """Return how well `state` does on `examples`."""

    @abstractmethod
    def asked(self, state: State, examples: Examples) -> IntArray:
        """Return what the next round asks of a node, (length,), without noise."""

    def sensitivity(self, state: State) -> int:
        """Return what a record adds at most to what is asked next."""
        return self.unit(len(state["reports"]) + 1)

    def released(self, state: State) -> list[Released]:
        """Return what each round has brought."""
        reports = state["reports"].tolist()
        ends = np.cumsum([self.length(number) for number in range(1, len(reports) + 1)]).astype(np.int64)
        parts = np.split(state["sums"], ends[:-1]) if reports else []
        return [
            Released(part, count * self._variance(number) / self.plan.shares)
            for number, (part, count) in enumerate(zip(parts, reports, strict=True), start=1)
        ]

    def check_state(self, state: State) -> None:
        """Refuse a state that no honest server sends."""
        _check_layout(layout_of(state), self._layout_after(np.size(state.get("reports", ()))))
        counts = state["reports"]
        if len(counts) and not (self.plan.shares <= counts.min() and counts.max() <= MOST_REPORTS):
            raise Refused("wrong-count", f"from {counts.min()} to {counts.max()} reports in a round")
        _check_size(state["sums"], LARGEST * MOST_REPORTS)

    def reach(self, round_number: int, *, max_examples: int) -> tuple[int, int]:
        """Return how large a number of a report can be, and the L1 norm of all, of a node with so many examples.

        Honest noise goes further in one of the reports of a run with probability `RISK`.
        """
        numbers, risk, scale = self.length(round_number), self.plan.risk, self._scale(round_number)
        one = max_examples * self.most_of_one(round_number) + largest_noise(scale, numbers=numbers, risk=risk)
        norm = max_examples * self.unit(round_number) + largest_norm(scale, numbers=numbers, risk=risk)
        return int(min(one, LARGEST)), int(min(norm, LARGEST * numbers))

    def check_sums(self, arrays: State, *, before: Layout, max_examples: int) -> None:
        """Refuse a report that no honest node sends."""
        number = before["reports"].size + 1
        wanted = {"sums": ArraySpec((self.length(number),), "int64"), "reports": ArraySpec((1,), "int64")}
        _check_layout(layout_of(arrays), wanted)
        if arrays["reports"][0] != 1:
            raise Refused("wrong-count", f"one report counts as {arrays['reports'][0]}")
        one, norm = self.reach(number, max_examples=max_examples)
        _check_size(arrays["sums"], one)
        if (found := int(np.abs(arrays["sums"]).sum())) > norm:
            raise Refused("norm-too-large", f"L1 norm {found}, {max_examples} examples and noise come to {norm}")

    def _layout_after(self, rounds: int) -> dict[str, ArraySpec]:
        total = sum(self.length(number) for number in range(1, rounds + 1))
        return {"sums": ArraySpec((total,), "int64"), "reports": ArraySpec((rounds,), "int64")}

    def _variance(self, round_number: int) -> float:
        """Return the variance of the noise that a round's epsilon makes."""
        scale = self._scale(round_number)
        with np.errstate(over="ignore"):
            return float(0.5 / np.sinh(0.5 / scale) ** 2)

    def _scale(self, round_number: int) -> float:
        """Return the scale of that noise: sensitivity / epsilon."""
        return self.unit(round_number) / (self.plan.share(round_number) * self.plan.epsilon)


def _check_layout(found: Layout, wanted: Layout) -> None:
    if found.keys() != wanted.keys():
        raise Refused("wrong-names", f"came {sorted(found)}, expected {sorted(wanted)}")
    for name, spec in wanted.items():
        if found[name].dtype != spec.dtype:
            raise Refused("wrong-dtype", f"{name} has dtype {found[name].dtype}, expected {spec.dtype}")
        if found[name].shape != spec.shape:
            raise Refused("wrong-shape", f"{name} has shape {found[name].shape}, expected {spec.shape}")


def _check_size(sums: Array, largest: int) -> None:
    if len(sums) and max(-int(sums.min()), int(sums.max())) > largest:
        raise Refused("too-large", f"a sum is beyond {largest}")


class NaiveBayes(SumsModel):
    """Naive Bayes on the counts of all nodes, in one round (`fedlearn.private_trees.sums.bayes`)."""

    def __init__(self, schema: TableSchema) -> None:
        super().__init__(schema)
        self.classes = len(schema.classes)
        self.start = 0  # how often a record is counted in its class alone, before all columns

    def planned(self, config: RunConfig) -> Self:
        """Return the model of a run with these settings: where noise is wide, half of epsilon is for the classes."""
        made = super().planned(config)
        local = config.privacy.trust == "local"
        declared, preset = config.gate.max_examples, RunConfig().gate.max_examples
        records = declared * config.clients if declared != preset else None
        is_wide = is_little(config.privacy.epsilon, config.clients if local else 1, records)
        made.start = max(len(self.views.sizes), 1) if is_wide else 0
        return made

    def length(self, round_number: int) -> int:
        """Return the number of counts: of each class, where that is asked for, and in each bin of each column."""
        return (int(starts_of(self.views)[-1]) + bool(self.start)) * self.classes

    def unit(self, round_number: int) -> int:
        """Return the number of columns: a record is counted once in each, and as often as `start` says before them."""
        return max(len(self.views.sizes), 1) + self.start

    def most_of_one(self, round_number: int) -> int:
        """Return what a record adds to one number: 1 in a cell, more in its class."""
        return max(self.start, 1)

    def asked(self, state: State, examples: Examples) -> IntArray:
        """Return the counts, flat."""
        codes = self.views.encode(examples.inputs)
        counts = counts_of(codes, examples.targets, self.views, self.classes)
        if self.start:
            first = self.start * np.bincount(examples.targets.astype(np.int64), minlength=self.classes)
            counts = np.concatenate([first[None, :], counts])
        return counts.ravel()

    def evaluate(self, state: State, examples: Examples) -> Evaluation:
        """Return cross-entropy and accuracy; of several rounds the first counts."""
        return of_classes(self.shares(state, examples.inputs), examples)

    def shares(self, state: State, features: Array) -> NDArray[np.float64]:
        """Return (rows, classes) probabilities."""
        if not len(state["reports"]):
            return np.full((len(features), self.classes), 1 / self.classes)
        first = self.released(state)[0]
        counts, start = first.sums.reshape(-1, self.classes), None
        if self.start:
            start, counts = counts[0] / self.start, counts[1:]
        tables = tables_of(counts, self.views, first.variance, start)
        score = tables.score(self.views.encode(features))
        odds = np.exp(score - score.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))


class Boosting(SumsModel):
    """Boosting of columns in turn on the sums of all nodes (`fedlearn.private_trees.sums.cyclic`).

    Parameters
    ----------
    schema
        Has classes, or bounds of its target.
    pairs
        How many pairs of columns have a turn; None: 3 if the target is a number.
    """

    first_share = FIRST_SHARE

    def __init__(self, schema: TableSchema, *, pairs: Annotated[int, Field(ge=0)] | None = None) -> None:
        super().__init__(schema)
        self.classes = len(schema.classes)
        loss = Logistic(self.classes) if self.classes else LogCosh(WIDTH)
        if pairs is None:
            pairs = PAIRS_FOR_CLASSES if self.classes else PAIRS_FOR_NUMBERS
        self.turns = CyclicBoosting(self.views, loss, pairs)
        self._last: tuple[State, CyclicModel | None] | None = None
        self.metrics = PRIVATE_CLASSIFIER if self.classes else PRIVATE_REGRESSOR

    def planned(self, config: RunConfig) -> Self:
        """Return the model of a run with these settings."""
        made = super().planned(config)
        if config.rounds.total == 1:  # the start is all that one round can bring, and gets all of epsilon
            made.plan, made.turns = replace(made.plan, first=1.0), replace(self.turns, alone=True)
        made._last = None  # what followed from it under another plan
        return made

    def length(self, round_number: int) -> int:
        """Return the number of sums: of the first round over all columns, then over the largest partition."""
        return self.turns.length(round_number)

    def unit(self, round_number: int) -> int:
        """Return what a record adds at most, in units of 2^-20."""
        return self.turns.sensitivity(round_number)

    def most_of_one(self, round_number: int) -> int:
        """Return the weight of a record: it lies in one cell of each column, with a row of that norm."""
        return UNIT

    def asked(self, state: State, examples: Examples) -> IntArray:
        """Return the sums, flat; zeros behind those that the partition has."""
        return self.turns.asked_by(self._model_of(state), examples.inputs, self._target(examples))

    def evaluate(self, state: State, examples: Examples) -> Evaluation:
        """Return cross-entropy and accuracy of classes, the absolute error of numbers."""
        score = self.score(state, examples.inputs)
        if isinstance(self.turns.loss, Logistic):
            return of_classes(self.turns.loss.shares(score), examples)
        low, high = self._bounds
        return of_numbers(low + np.clip(score[:, 0], 0, 1) * (high - low), examples, self._bounds)

    def score(self, state: State, features: Array) -> NDArray[np.float64]:
        """Return (rows, outputs) scores; before anything was released those of what nobody has to learn."""
        model = self._model_of(state)
        if model is None:
            return np.full((len(features), self.turns.loss.outputs), 0.0 if self.classes else 0.5)
        return model.score(self.views.encode(features))

    def _model_of(self, state: State) -> CyclicModel | None:
        """Return what follows from a state, None before the first round; kept for whoever comes with the same one."""
        if self._last is None or self._last[0] is not state:
            self._last = state, self.turns.model(self.released(state)) if len(state["reports"]) else None
        return self._last[1]

    @property
    def _bounds(self) -> tuple[float, float]:
        assert self.schema.target_bounds is not None
        return self.schema.target_bounds

    def _target(self, examples: Examples) -> NDArray[np.float64]:
        targets = examples.targets.astype(np.float64)
        if self.classes:
            return targets
        low, high = self._bounds
        return (np.clip(targets, low, high) - low) / (high - low)


def dp_boosting(spec: DataSpec, options: Mapping[str, Any]) -> Boosting:
    """Return boosting on the sums of all nodes."""
    given = options_for(Boosting, options, setting="model.options", reserved=("schema",))
    return Boosting(table_of("dp-boosting", spec), **given)


def dp_naive_bayes(spec: DataSpec, options: Mapping[str, Any]) -> NaiveBayes:
    """Return naive Bayes on the counts of all nodes."""
    options_for(NaiveBayes, options, setting="model.options", reserved=("schema",))
    table = table_of("dp-naive-bayes", spec)
    if not spec.classes:
        target = f"{table.target!r} of {spec.name!r}"
        raise SettingError(
            "model.name",
            "dp-naive-bayes",
            f"the target {target} does not fit; it predicts classes: adult, or a .toml file",
        )
    return NaiveBayes(table)


def table_of(name: str, spec: DataSpec) -> TableSchema:
    """Return the schema of the data set, if it is a table."""
    if spec.table is None:
        raise SettingError("model.name", name, f"it learns from tables, and {spec.name!r} holds images")
    return spec.table
