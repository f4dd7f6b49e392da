"""The objects that the phases of one run share, on the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

from flwr.serverapp import Grid

from fedlearn.config import RunConfig, to_flower
from fedlearn.config.tables.rounds import RoundSettings
from fedlearn.core.clock import Clock
from fedlearn.core.cohort import Member
from fedlearn.core.errors import RunFailed
from fedlearn.core.metric import Measured, of_validation
from fedlearn.core.metrics import Metrics
from fedlearn.core.state import State, UpdateKind
from fedlearn.models.base import Finished
from fedlearn.models.loaded import finished_in
from fedlearn.runs.checkpoint import RunStore
from fedlearn.runs.log import EventLog
from fedlearn.runs.names import NODES
from fedlearn.runs.nodes import NodeTable
from fedlearn.runs.usage import ProcessorTime
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


class ServerRun:
    """One run, seen from the server; each phase is a function of it and of where the run stands.

    Parameters
    ----------
    exchange
        Reaches the nodes.
    store
        Holds the state, and takes each committed one.
    kind
        What an update of the model means.
    draws
        Lends random generators to the strategy; new ones, unless it was made with some.
    model_metrics
        What its nodes and its evaluation measure; unless given, all that the store's table has.
    selector
        Draws cohorts; a new one, unless it has learned something before.
    is_private
        Whether nodes pay for what they report; as the metrics say, unless given.
    test_is_public
        Whether everybody may know the rows on which the state is measured.
    unsent
        The arrays of the model that no training message brings.
    auxiliary
        Names of the arrays that follow from the others, and are computed anew from each new state.
    notes
        What is likely not meant in the run, a line each; said in its results, too.
    has_own_rate
        Whether the module configures its optimizer, so that no setting says the learning rate.
    features
        The features of the run, which have begun; those that the settings ask for, unless given.
    finishes
        Whether the model says by its state when the run is at its end.
    """

    def __init__(
        self,
        exchange: Exchange,
        strategy: RoundStrategy[Any],
        store: RunStore,
        config: RunConfig,
        *,
        events: EventLog,
        kind: UpdateKind = UpdateKind.DENSE,
        draws: Draws | None = None,
        model_metrics: Metrics | None = None,
        selector: Selector | None = None,
        is_private: bool | None = None,
        test_is_public: bool = False,
        unsent: State = MappingProxyType({}),
        auxiliary: Sequence[str] = (),
        notes: Sequence[str] = (),
        has_own_rate: bool = False,
        features: Sequence[Feature] | None = None,
        finishes: bool = False,
    ) -> None:
        self.exchange = exchange
        self.strategy = strategy
        self.store = store
        self.config = config
        self.auxiliary = auxiliary
        self.notes = notes
        self.has_own_rate = has_own_rate
        self.finishes = finishes
        self._finished = Finished()
        self.events = events
        self.kind = kind
        self.draws = draws or Draws(config, is_virtual=exchange.is_virtual)
        self.selector = selector or load_selector(config)
        self.notices = Notices(exchange)
        self.late = LateReports(exchange, events, self.notices, self.keep_paid)
        window = config.rounds.selection_window
        self.late_answers = LateAnswers(exchange, events)
        self.unsent = Unsent(exchange, unsent, window=window)
        self.directory = NodeDirectory(exchange, events, self.unsent, clients=config.clients, window=window)
        self.typical = store.typical  # what reports are compared with
        self.model_metrics = model_metrics or store.metrics
        self.is_private = self.model_metrics.privacy_loss is not None if is_private is None else is_private
        self.test_is_public = test_is_public
        self.features = _begun(config, strategy, store) if features is None else tuple(features)
        for each in self.features:
            each.run = self
        self.nodes = NodeTable(
            store.folder, self._node_columns(), committed=len(store.history.rounds), sound=store.sound_bytes(NODES)
        )
        self.tested: Mapping[str, object] = {}  # of the test rows that are measured once (`server.phases.tested`)
        self.stopping = Stopping(config, stops_by(config, store.metrics), store.history.rounds)
        self._began = exchange.wall.now()
        self.processor = ProcessorTime(store.cpu_seconds)
        self._earlier_seconds = store.seconds

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
        return [each.metrics(self.model_metrics) for each in self.features]

    def grid_of(self, cohort: Sequence[Member]) -> Grid:
        """Return the grid of a cohort alone, as a strategy sees it."""
        return self.exchange.cohort_grid([member.node_id for member in cohort])

    def keep_paid(self) -> None:
        """Store what the nodes of a private model keep, before anything that they have sent counts.

        Their ledgers are a part of it where the engine keeps them: what is written down of a report, in whatever
        attempt, was paid for after any crash. Other models' attempts are made again, from what was kept at a commit.
        """
        if self.is_private and (changed := self.exchange.changed_node_states(settled=False)):
            self.store.keep_nodes(changed)

    def _node_columns(self) -> list[str]:
        return [*self.reported_by_nodes, *(name for added in self._added for name in added.nodes)]

    @property
    def reported_by_nodes(self) -> tuple[str, ...]:
        """The names of what a report may say that its node has measured."""
        names = (metric.name for metric in self.model_metrics.reported)
        return (*names, *(name for added in self._added for name in added.reports))

    def as_columns(self, measured: Measured) -> Measured:
        """Return what was measured of a state by the names of the table: those of validation rows, where it is."""
        renamed = {metric.name: of_validation(metric).name for metric in self.store.metrics.tested}
        return {renamed.get(name, name): value for name, value in measured.items()}

    def finish(self, state: State) -> None:
        """Let the run end after this state, where the model says that no further round is needed, or possible."""
        if self.finishes and not self.stopping.reason:
            (self._finished,) = self.exchange.compute(finished_in, state, [()])
            self.stopping.reason = self._finished.why

    def check_result(self) -> None:
        """Raise `RunFailed` after the last round, where the model has no result, with its reason."""
        if self._finished.is_failure:
            raise RunFailed(self._finished.why)
        if self.finishes and not self.stopping.reason:
            raise RunFailed(f"rounds.total = {self.rounds.total} rounds were too few for a result: ask for more")

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
    def seconds(self) -> float:
        """How long the run has taken, over all its sessions; in real time."""
        return self._earlier_seconds + self.wall.now() - self._began

    @property
    def answers(self) -> Mapping[str, Any]:
        """The parcels that reports bring beside the state: name -> ParcelPlan."""
        of_features = {name: plan for added in self._added for name, plan in added.parcels.items()}
        return {**self.strategy.answers(self.state), **of_features}


def _begun(config: RunConfig, strategy: RoundStrategy[Any], store: RunStore) -> Sequence[Feature]:
    features = features_of(config, strategy)
    begin(features, store.state, store.memory)
    return features
