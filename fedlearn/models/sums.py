"""Models of noisy sums: each node counts and adds noise, the server adds up, and the model follows from the sums.

A state holds the sums of all rounds so far, one round behind the other (``sums``), and the number of reports of each
round (``reports``). The next round's question and all predictions are post-processing of the state. A report has the
names of the state: the node's own sums, and 1 report. The length of a report follows from the declared schema alone.

*Whose noise protects* (``privacy.trust``). *local*: the sums of each node are private by themselves, with geometric
noise for the whole epsilon; the standard deviation of the noise of m nodes is sqrt(m) times that of one node.
*distributed*: each node adds a share of noise (`fedlearn.privacy.polya_share`), and the sum of all reports has the
noise of one node. Then only the sum is private, so the report of a single node must not be seen.

*Under secure sums* (`fedlearn.secure`) no report of a single node is seen, and distributed noise protects against the
server, too. Colluders know their own shares of the noise and can take them out of the sum: shares are calibrated to the
fewest reports less ``secure.colluders``. A node signs no set of survivors with fewer than ``fewest_reports`` nodes.

*Nodes that drop out* take their shares of the noise along. So shares are calibrated to the smallest number of reports
with which a round is committed (``rounds.minimum_ready`` and ``rounds.quorum``). With that number the sum has the
promised noise, with more reports it has more. With fewer reports the round is abandoned, and a node refuses a state to
which fewer nodes have reported.

*Privacy*: add or remove one record of one node. The record changes the sums of that node only, by at most the
sensitivity in the L1 norm. Rounds compose sequentially; the shares of epsilon in `SumsPlan` add up to 1. The proofs
stand beside the models, in `fedlearn.private_trees.sums` and `fedlearn.statistics`.

*What a node may send* (`SumsModel.reach`). A sum has no weights, so a false report does harm in proportion to its size.
The counts of n records are bounded: a record adds at most ``most_of_one`` to one number, and at most ``unit`` to all
numbers in the L1 norm. The noise is bounded except with a small probability (`fedlearn.privacy.tails`). A report beyond
both bounds is refused; the probability that any honest report of a run is refused is at most `RISK`. n is declared, as
``gate.max_examples``.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fedlearn.config import RunConfig
from fedlearn.core.errors import Refused
from fedlearn.core.metrics import PRIVATE_CLASSIFIER, Metrics
from fedlearn.core.state import Array, ArraySpec, Layout, State, UpdateKind, layout_of
from fedlearn.data.data_spec import Examples, TableSchema
from fedlearn.models.model import Evaluation, Finished
from fedlearn.privacy.honest_count import honest_shares
from fedlearn.privacy.released import Released
from fedlearn.privacy.tails import largest_noise, largest_norm
from fedlearn.secure.whole import WholeNumbers

LARGEST = 2**42  # largest number of a report: four million records in one cell, in units of 2^-20
MOST_REPORTS = 2**20
RISK = 5e-13  # probability that the noise of any honest report of a run makes the gate refuse it
CHECKS = 2  # of each report: its largest number, and its L1 norm
LEFT = (
    "round {number} has sums of {now} clients, round 1 of {first}: a client that leaves ends an exact fit, as both "
    "sums together would tell what it has added; begin again with the clients that are there"
)
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SumsPlan:
    """Division of a run's epsilon among rounds, and of its noise among reports; it follows from public settings.

    Parameters
    ----------
    epsilon
        Epsilon of all rounds together.
    rounds
        Number of rounds.
    shares
        Number of reports that divide the noise of one among them; 1: each report is private by itself.
    first
        Share of epsilon that the first round spends; the other rounds divide the rest evenly.
    nodes
        Number of nodes; each node reports at most once a round.

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
    def from_settings(cls, config: RunConfig, *, first: float) -> SumsPlan:
        """Return the plan of a run."""
        shares = honest_shares(config) if config.privacy.trust == "distributed" else 1
        return cls(config.privacy.epsilon, config.rounds.total, shares, first, config.clients)

    def share(self, round_number: int) -> float:
        """Return the share of epsilon that a round spends; rounds count from 1."""
        if round_number == 1 or self.first == 1.0:
            return self.first
        return (1 - self.first) / max(self.rounds - 1, 1)

    @property
    def risk(self) -> float:
        """Probability with which an honest report may fail one check: `RISK`, divided by the checks of all reports."""
        return RISK / (CHECKS * self.rounds * self.nodes)


class SumsModel(ABC):
    """Base class of the models of noisy sums.

    Parameters
    ----------
    schema
        Declared columns and target of the table.
    """

    update_kind = UpdateKind.SUMS
    learner = "sums"
    metrics: Metrics = PRIVATE_CLASSIFIER
    first_share = 1.0  # share of epsilon that the first round spends

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self.plan = SumsPlan.from_settings(RunConfig(), first=self.first_share)

    def planned(self, config: RunConfig) -> Self:
        """Return the model of a run with these settings."""
        planned = copy.copy(self)
        planned.plan = SumsPlan.from_settings(config, first=self.first_share)
        return planned

    def initial_state(self, *, seed: int) -> State:
        """Return the state before round 1, which holds no sums; the seed makes no difference."""
        return {"sums": np.zeros(0, np.int64), "reports": np.zeros(0, np.int64)}

    @abstractmethod
    def length(self, round_number: int) -> int:
        """Return the number of sums in a report of this round."""

    @abstractmethod
    def unit(self, round_number: int) -> int:
        """Return the most that a record adds to the sums of this round, in the L1 norm."""

    def most_of_one(self, round_number: int) -> int:
        """Return the most that a record adds to a single sum of this round, up or down."""
        return self.unit(round_number)

    @abstractmethod
    def evaluate(self, state: State, examples: Examples) -> Evaluation:
        """Return the metrics of `state` on `examples`."""

    @abstractmethod
    def asked(self, state: State, examples: Examples) -> IntArray:
        """Return the sums that the next round asks for, of these examples and without noise; (length,)."""

    def sensitivity(self, state: State) -> int:
        """Return the most that a record adds to the sums of the next round, in the L1 norm."""
        return self.unit(len(state["reports"]) + 1)

    def released(self, state: State) -> list[Released]:
        """Return the sums of each round so far, with the variance of their noise."""
        reports = state["reports"].tolist()
        ends = np.cumsum([self.length(number) for number in range(1, len(reports) + 1)]).astype(np.int64)
        parts = np.split(state["sums"], ends[:-1]) if reports else []
        return [
            Released(part, count * self._variance(number) / self.plan.shares)
            for number, (part, count) in enumerate(zip(parts, reports, strict=True), start=1)
        ]

    def check_state(self, state: State) -> None:
        """Raise `Refused` for a state that no honest server sends."""
        check_layout(layout_of(state), self._layout_after(np.size(state.get("reports", ()))))
        counts = state["reports"]
        if len(counts) and not (self.plan.shares <= counts.min() and counts.max() <= MOST_REPORTS):
            raise Refused("wrong-count", f"from {counts.min()} to {counts.max()} reports in a round")
        check_size(state["sums"], LARGEST * MOST_REPORTS)

    def reach(self, round_number: int, *, max_examples: int) -> tuple[int, int]:
        """Return bounds on the largest number of a report and on its L1 norm, for a node with `max_examples` examples.

        The probability that honest noise exceeds a bound in any report of a run is at most `RISK`.
        """
        numbers, risk, scale = self.length(round_number), self.plan.risk, self._scale(round_number)
        one = max_examples * self.most_of_one(round_number) + largest_noise(scale, numbers=numbers, risk=risk)
        norm = max_examples * self.unit(round_number) + largest_norm(scale, numbers=numbers, risk=risk)
        return int(min(one, LARGEST)), int(min(norm, LARGEST * numbers))

    def check_sums(self, arrays: State, *, before: Layout, max_examples: int) -> None:
        """Raise `Refused` for a report that no honest node sends."""
        number = before["reports"].size + 1
        wanted = {"sums": ArraySpec((self.length(number),), "int64"), "reports": ArraySpec((1,), "int64")}
        check_layout(layout_of(arrays), wanted)
        if arrays["reports"][0] != 1:
            raise Refused("wrong-count", f"one report counts as {arrays['reports'][0]}")
        one, norm = self.reach(number, max_examples=max_examples)
        check_size(arrays["sums"], one)
        if (found := int(np.abs(arrays["sums"]).sum())) > norm:
            raise Refused("norm-too-large", f"L1 norm {found}, {max_examples} examples and noise come to {norm}")

    def whole_numbers(self, before: Layout, *, max_examples: int, nodes: int) -> WholeNumbers:
        """Return how the sums of a report go into a secure sum: as they are, within the bound of the gate."""
        number = before["reports"].size + 1
        one, _ = self.reach(number, max_examples=max_examples)
        return WholeNumbers(self.length(number), one, nodes)

    def _layout_after(self, rounds: int) -> dict[str, ArraySpec]:
        total = sum(self.length(number) for number in range(1, rounds + 1))
        return {"sums": ArraySpec((total,), "int64"), "reports": ArraySpec((rounds,), "int64")}

    def _variance(self, round_number: int) -> float:
        """Return the variance of the geometric noise of a round."""
        scale = self._scale(round_number)
        with np.errstate(over="ignore"):
            return float(0.5 / np.sinh(0.5 / scale) ** 2)

    def _scale(self, round_number: int) -> float:
        """Return the scale of a round's noise: sensitivity / epsilon."""
        return self.unit(round_number) / (self.plan.share(round_number) * self.plan.epsilon)


class ExactSums(ABC):
    """What models of exact sums have in common: whole numbers, added up by the same nodes in all rounds.

    Parameters
    ----------
    cap
        The most that a record adds to a single sum.
    """

    learner = "exact-sums"
    cap: int

    @abstractmethod
    def length_after(self, before: Layout) -> int:
        """Return the number of sums in a report on a state of this layout."""

    def left(self, state: State) -> Finished:
        """Return that a node has left, which ends a fit; nothing otherwise."""
        reports = state["reports"]
        if not len(reports) or reports[-1] == reports[0]:
            return Finished()
        said = LEFT.format(number=len(reports), now=reports[-1], first=reports[0])
        return Finished(said, is_failure=True)

    def check_sums(self, arrays: State, *, before: Layout, max_examples: int) -> None:
        """Raise `Refused` for a report that no honest node sends."""
        wanted = {"sums": ArraySpec((self.length_after(before),), "int64"), "reports": ArraySpec((1,), "int64")}
        check_layout(layout_of(arrays), wanted)
        if arrays["reports"][0] != 1:
            raise Refused("wrong-count", f"one report counts as {arrays['reports'][0]}")
        check_size(arrays["sums"], max_examples * self.cap)

    def whole_numbers(self, before: Layout, *, max_examples: int, nodes: int) -> WholeNumbers:
        """Return how the sums of a report go into a secure sum: as they are."""
        return WholeNumbers(self.length_after(before), max_examples * self.cap, nodes)


def check_layout(found: Layout, wanted: Layout) -> None:
    """Raise `Refused` if names, dtypes or shapes differ from the wanted layout."""
    if found.keys() != wanted.keys():
        raise Refused("wrong-names", f"came {sorted(found)}, expected {sorted(wanted)}")
    for name, spec in wanted.items():
        if found[name].dtype != spec.dtype:
            raise Refused("wrong-dtype", f"{name} has dtype {found[name].dtype}, expected {spec.dtype}")
        if found[name].shape != spec.shape:
            raise Refused("wrong-shape", f"{name} has shape {found[name].shape}, expected {spec.shape}")


def check_size(sums: Array, largest: int) -> None:
    """Raise `Refused` where a sum is larger in size than it can be."""
    if len(sums) and max(-int(sums.min()), int(sums.max())) > largest:
        raise Refused("too-large", f"a sum is beyond {largest}")
