"""The objects that the phases of one run share, on the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from flwr.serverapp import Grid

from fedlearn.config import RunConfig, to_flower
from fedlearn.config.tables.round_settings import RoundSettings
from fedlearn.core.clock import Clock
from fedlearn.core.cohort import Member
from fedlearn.core.metric import Measured, of_validation
from fedlearn.core.state import State
from fedlearn.models.loaded import Traits, finished_in
from fedlearn.runs.checkpoint import RunStore
from fedlearn.runs.file_names import NODES
from fedlearn.runs.log import EventLog
from fedlearn.runs.machine_usage import RunTime
from fedlearn.runs.nodes_csv import NodeTable
from server.early_stopping import Stopping, stops_by
from server.exchange.exchange import Exchange
from server.exchange.frozen_arrays import Unsent
from server.exchange.late_reports import LateAnswers, LateReports
from server.exchange.node_directory import NodeDirectory
from server.exchange.notices import Notices
from server.feature import Added, Feature, begin, features_of
from server.selectors import Selector, load_selector
from server.strategy_rng import Draws
from strategies import RoundStrategy


class Late(NamedTuple):
    """Watches for what comes too late: reports after their deadline, answers after their selection window."""

    reports: LateReports
    answers: LateAnswers


class ServerRun:
    """One run, seen from the server; each phase is a function of it and of where the run stands.

    Parameters
    ----------
    exchange
        Reaches the nodes.
    store
        Holds the state, and takes each committed one.
    traits
        Of the model and its data; their metrics are what nodes and evaluation measure in this run.
    draws
        Lends random generators to the strategy; new ones, unless it was made with some.
    selector
        Draws cohorts; a new one, unless it has learned something before.
    notes
        What is likely not meant in the run, a line each; said in its results, too.
    features
        The features of the run, which have begun; those that the settings ask for, unless given.
    """

    def __init__(
        self,
        exchange: Exchange,
        strategy: RoundStrategy[Any],
        store: RunStore,
        config: RunConfig,
        *,
        events: EventLog,
        traits: Traits,
        draws: Draws | None = None,
        selector: Selector | None = None,
        notes: Sequence[str] = (),
        features: Sequence[Feature] | None = None,
    ) -> None:
        self.exchange = exchange
        self.strategy = strategy
        self.store = store
        self.config = config
        self.traits = traits
        self.notes = notes
        self.events = events
        self.draws = draws or Draws(config, is_virtual=exchange.is_virtual)
        self.selector = selector or load_selector(config)
        self.notices = Notices(exchange)
        self.late = Late(
            LateReports(exchange, events, self.notices, self.keep_paid), LateAnswers(exchange, events)
        )  # fmt: skip
        window = config.rounds.selection_window
        self.unsent = Unsent(exchange, traits.unsent, window=window)
        self.directory = NodeDirectory(
            exchange, events, self.unsent, clients=config.clients, window=window, absent=config.absent
        )
        self.typical = store.typical  # what reports are compared with
        self.features = _begun(config, strategy, store) if features is None else tuple(features)
        for each in self.features:
            each.run = self
        self.nodes = NodeTable(
            store.folder, self._node_columns(), committed=len(store.history.rounds), sound=store.sound_bytes(NODES)
        )
        self.stopping = Stopping(config, stops_by(config, store.metrics), store.history.rounds)
        self.time = RunTime(exchange.wall, store.seconds, store.cpu_seconds)

    @property
    def rounds(self) -> RoundSettings:
        """The settings of rounds."""
        return self.config.rounds

    @cached_property
    def flat(self) -> dict[str, bool | int | float | str]:
        """All settings as messages and plans bring them."""
        return to_flower(self.config)

    @cached_property
    def _added(self) -> list[Added]:
        return [each.metrics(self.traits.metrics) for each in self.features]

    def grid_of(self, cohort: Sequence[Member]) -> Grid:
        """Return the grid of a cohort alone, as a strategy sees it."""
        return self.exchange.cohort_grid([member.node_id for member in cohort])

    def keep_paid(self) -> None:
        """Store what the nodes of a private model keep, before anything that they have sent counts.

        Their ledgers are a part of it where the engine keeps them: what is written down of a report, in whatever
        attempt, was paid for after any crash. Other models' attempts are made again, from what was kept at a commit.
        """
        if self.traits.is_private and (changed := self.exchange.changed_node_states(settled=False)):
            self.store.keep_nodes(changed)

    def _node_columns(self) -> list[str]:
        return [*self.reported_by_nodes, *(name for added in self._added for name in added.nodes)]

    @property
    def reported_by_nodes(self) -> tuple[str, ...]:
        """The names of what a report may say that its node has measured."""
        names = (metric.name for metric in self.traits.metrics.reported)
        return (*names, *(name for added in self._added for name in added.reports))

    def as_columns(self, measured: Measured) -> Measured:
        """Return what was measured of a state by the names of the table: those of validation rows, where it is."""
        renamed = {metric.name: of_validation(metric).name for metric in self.store.metrics.tested}
        return {renamed.get(name, name): value for name, value in measured.items()}

    def finish(self, state: State) -> None:
        """Let the run end after this state, where the model says that no further round is needed, or possible."""
        if self.traits.finishes and not self.stopping.reason:
            (finished,) = self.exchange.compute(finished_in, state, [()])
            self.stopping.finish(finished)

    @property
    def is_paused(self) -> bool:
        """Whether the run ends before its last round by `stop.after`."""
        return self.stopping.is_paused and len(self.store.history.rounds) < self.rounds.total

    @property
    def clock(self) -> Clock:
        """The time by which the run goes."""
        return self.exchange.clock

    @property
    def wall(self) -> Clock:
        """Real time, by which is measured how long the program takes."""
        return self.exchange.wall

    @property
    def state(self) -> State:
        """The latest stored state."""
        return self.store.state

    @property
    def answers(self) -> Mapping[str, Any]:
        """The parcels that reports bring beside the state: name -> ParcelPlan."""
        of_features = {name: plan for added in self._added for name, plan in added.parcels.items()}
        return {**self.strategy.answers(self.state), **of_features}


def _begun(config: RunConfig, strategy: RoundStrategy[Any], store: RunStore) -> Sequence[Feature]:
    features = features_of(config, strategy)
    begin(features, store.state, store.memory)
    return features
