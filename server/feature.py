"""A feature of a run: what it does at the named moments of a round, of which the round itself knows nothing else.

A run has the features that its settings ask for, in the order of `fedlearn.plugins.tables.FEATURES`, and behind them
those of ``rounds.features``. The core of the server calls the moments below; it imports no feature.

| moment | when it is |
|---|---|
| `rules` (`check`), `metrics` | before round 1, when the settings are checked and the columns of the tables are known |
| `begin`, `notices` | before round 1, with the first state or the last stored one |
| `instruct` | when the messages to a cohort are written, before they are sent |
| `answered` | when an asynchronous schedule takes in what a node has answered |
| `collect` | around selection, configuration and reporting: one feature may take their place |
| `reports` | around the collection of reports |
| `turn` | when reports have been added up, before the strategy makes the next state of them |
| `measured` | around the measurements of a new state |
| `memory` | when a round is stored |
| `summary` | when the run ends, however it does |

In a moment *around* something the first feature is the innermost: it acts before the others, or in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np
from flwr.app import ArrayRecord, Message
from numpy.typing import NDArray

from fedlearn import flower, wire
from fedlearn.aggregation import FoldPlan, ParcelPlan
from fedlearn.config import RunConfig
from fedlearn.core.cohort import At, Member
from fedlearn.core.metric import Measured, Metric
from fedlearn.core.metrics import Metrics
from fedlearn.core.state import Array, State
from fedlearn.plugins import tables
from fedlearn.plugins.listed import listed
from fedlearn.plugins.registry import load_reference
from server.attempt import Collected, NotCommitted, Reporting
from server.rules import Asked, Rule, check_rules
from strategies.base import RoundStrategy, Turn

SETTING = "rounds.features"


class Added(NamedTuple):
    """What a feature adds to the tables of a run, and to reports.

    Parameters
    ----------
    rounds
        Columns of the table of rounds.
    nodes
        Names of what single nodes measure of a new state.
    reports
        Names of what a report may say that its node has measured.
    parcels
        The parcels that reports bring beside the state, by name.

    Examples
    --------
    >>> from fedlearn.core.metric import Metric
    >>> [metric.name for metric in Added(rounds=[Metric("spread")]).rounds]
    ['spread']
    """

    rounds: Sequence[Metric] = ()
    nodes: Sequence[str] = ()
    reports: Sequence[str] = ()
    parcels: Mapping[str, ParcelPlan] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class NewState:
    """A state that is to be measured.

    Parameters
    ----------
    at
        Of which round and attempt it is; the attempt is 0 after the last round.
    reporting
        The reports that it was made of; None after the last round.
    once
        Whether it is measured on the test rows that no round measures, after the last round.

    Examples
    --------
    >>> from fedlearn.core.cohort import At
    >>> NewState({}, At(1, 1)).once
    False
    """

    state: State
    at: At
    reporting: Reporting | None = None
    once: bool = False


@dataclass(frozen=True, slots=True)
class Measures:
    """What was measured of a state.

    Parameters
    ----------
    columns
        For the table of rounds.
    nodes
        Partition -> what its node has measured, for the table of nodes.
    confusion
        Which classes were taken for which, shape (K, K); None of what tells no classes apart.

    Examples
    --------
    >>> Measures({"spread": 0.2}, nodes={3: {"accuracy": 0.5}}).nodes[3]["accuracy"]
    0.5
    """

    columns: Measured = field(default_factory=dict)
    nodes: Mapping[int, Mapping[str, float | int | None]] = field(default_factory=dict)
    confusion: NDArray[np.int64] | None = None


@dataclass(slots=True)
class Instructions:
    """The messages to nodes that are to train, before they are sent.

    Parameters
    ----------
    messages
        Each of its own content; records in it are shared, and replaced rather than changed.
    members
        To whom they go, in their order.
    state
        The state that all bring, as it is packed.
    anchors
        Node id -> the name of the anchor that the node says it keeps; None where nodes were not asked.
    again
        Whether they were sent, and counted, before the run was stopped.
    anchor
        The state that the decoded one is a correction to, if a feature sends it so, as nodes have it.
    """

    messages: Sequence[Message]
    members: Sequence[Member]
    state: ArrayRecord
    at: At
    anchors: Mapping[int, str] | None = None
    again: bool = False
    anchor: State | None = None

    def send(self, parcel: str, arrays: State) -> None:
        """Put arrays into all messages; a learner finds them in ``task.parcels`` by the name of the parcel."""
        record = wire.pack_arrays(arrays)
        for message in self.messages:
            flower.filled(message.content, {parcel: record})


Measure = Callable[[NewState], Measures]
Collect = Callable[[FoldPlan, At], Reporting]
Attempt = Callable[[At], Collected | NotCommitted]


class Feature:
    """One feature of one run. Each moment does nothing unless overridden.

    Keyword parameters of its constructor are its options in ``rounds.features``.

    Attributes
    ----------
    config, strategy
        Of the run; known from the first moment on.
    run : server.run.ServerRun
        The run; known when it has begun.

    Examples
    --------
    >>> class Watched(Feature):
    ...     def __init__(self, *, every: int = 1) -> None:
    ...         self.every = every
    >>> Watched(every=2).every
    2
    """

    rules: ClassVar[Sequence[Rule]] = ()
    stores: ClassVar[str] = ""  #: what the names of its arrays in a checkpoint begin with
    on_nodes: ClassVar[str] = ""  #: its part at a node, "module:Class" (`client.node_feature.NodeFeature`)
    config: RunConfig
    strategy: RoundStrategy[Any]
    run: Any  # this file lies below the run

    @classmethod
    def is_asked(cls, config: RunConfig, strategy: RoundStrategy[Any]) -> bool:
        """Return whether a run with these settings has the feature; one of ``rounds.features`` is always asked for."""
        return True

    def check(self, asked: Asked) -> None:
        """Raise SettingError for settings that do not go with the feature: the first of its rules that they break."""
        check_rules(self.rules, asked)

    def metrics(self, of_model: Metrics) -> Added:
        """Return what the feature adds to the tables of the run."""
        return Added()

    def begin(self, state: State, memory: Mapping[str, Array]) -> None:
        """Begin with the first state, or go on from a stored one; raise SettingError where that cannot be.

        Parameters
        ----------
        memory
            The arrays of the checkpoint, those of others among them; empty at first.
        """

    def notices(self) -> Sequence[str]:
        """Return lines for the results of the run."""
        return ()

    def instruct(self, instructions: Instructions) -> None:
        """Put further records into the messages to nodes that are to train."""

    def answered(self, member: Member, at: At, reply: Message) -> None:
        """Take note of what a node has answered to an instruction, where a schedule waits for no cohort."""

    def collect(self, at: At, collect: Attempt) -> Collected | NotCommitted:
        """Return what an attempt at a round has collected, or why nothing can be committed.

        Parameters
        ----------
        collect
            Selects a cohort, configures it and collects its reports, as without this feature.
        """
        return collect(at)

    def reports(self, plan: FoldPlan, at: At, collect: Collect) -> Reporting:
        """Return the reports of an attempt, added up as `plan` says.

        Parameters
        ----------
        collect
            Collects them as the plan that it is given says.
        """
        return collect(plan, at)

    def turn(self, turn: Turn[Any]) -> Turn[Any]:
        """Return what the strategy makes the next state of."""
        return turn

    def measured(self, new: NewState, measure: Measure) -> Measures:
        """Return what is measured of a state.

        Parameters
        ----------
        measure
            Measures it as a run without this feature would.
        """
        return measure(new)

    def memory(self, versions: Collection[int]) -> Mapping[str, Array]:
        """Return the arrays that a resume needs; their names begin with `stores`.

        Parameters
        ----------
        versions
            The rounds whose states nodes still work on, where a schedule waits for no cohort.
        """
        return {}

    def summary(self) -> Mapping[str, object]:
        """Return what summary.json says of the feature."""
        return {}


def features_of(config: RunConfig, strategy: RoundStrategy[Any]) -> tuple[Feature, ...]:
    """Return the features that the settings ask for, in their order: ours, and those of ``rounds.features``."""
    ours = (load_reference(name) for name in tables.FEATURES.values())
    asked = [each() for each in ours if each.is_asked(config, strategy)]
    found = (*asked, *(make() for make in listed(SETTING, config.rounds.features, of=Feature)))
    for each in found:
        each.config, each.strategy = config, strategy
    return found


def begin(features: Sequence[Feature], state: State, memory: Mapping[str, Array]) -> None:
    """Let each feature begin with a state, and with the arrays of the checkpoint, if there is one."""
    for each in features:
        each.begin(state, memory)


def rest_of(features: Sequence[Feature], memory: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays of a checkpoint that are none of these features'."""
    prefixes = tuple(each.stores for each in features if each.stores)
    return {name: array for name, array in memory.items() if not name.startswith(prefixes or ("\0",))}


def collected(features: Sequence[Feature], plan: FoldPlan, at: At, collect: Collect) -> Reporting:
    """Return the reports of an attempt, with what each feature makes of their collection."""
    for each in features:
        collect = partial(each.reports, collect=collect)
    return collect(plan, at)


def measured(features: Sequence[Feature], new: NewState, measure: Measure) -> Measures:
    """Return what is measured of a state, with what each feature adds."""
    for each in features:
        measure = partial(each.measured, measure=measure)
    return measure(new)
