"""Rounds that a caller makes step by step: the phases of a synchronous schedule, each when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedlearn.aggregation import STATE
from fedlearn.aggregation.fold import Fold
from fedlearn.aggregation.fold_plan import FoldPlan, Verdict
from fedlearn.core.cohort import At, Fate, Member
from fedlearn.core.errors import SettingError, UsageError
from fedlearn.core.metric import Measured
from fedlearn.core.state import Array, Entries, Layout, State, layout_of
from server.attempt import Collected, Configuration, Reporting, Selection
from server.committing import committed_or_not
from server.feature import collected
from server.phases.configuration import configure
from server.phases.evaluation import evaluate
from server.phases.reporting import TOLD, Intake, fold_plan, tell
from server.phases.selection import select_cohort
from server.run import ServerRun

SETTINGS = {"secure.sums": "off", "devices.name": "", "rounds.schedule": "synchronous", "training.baseline": "none"}
"""What rounds by hand cannot have otherwise: what a single client sends is shown."""


@dataclass(frozen=True, slots=True)
class ClientUpdate:
    """What the server gets from one client.

    Parameters
    ----------
    client : int
        The number of the client.
    examples : int
        Its number of examples, which is its weight.
    metrics : dict
        What it measured, as ``{"train_loss": 1.7}``.
    arrays : dict
        What it sends, by the names of the parameters: its weights, or their change (``compression.send = "update"``).
        Entries that it did not send are masked; a parameter of which it sent nothing is absent.
    bytes : int
        The size of its report.
    why_not : str
        Why the server does not count it; empty where it does.
    """

    client: int
    examples: int
    metrics: dict[str, float]
    arrays: dict[str, Array]
    bytes: int
    why_not: str
    at: At = field(repr=False)
    verdict: Verdict = field(repr=False, compare=False)


class RoundsByHand:
    """The steps of one round after another; a step that is asked for again in its round is not made again.

    Parameters
    ----------
    run
        What is run.
    """

    def __init__(self, run: ServerRun) -> None:
        for name, only in SETTINGS.items():
            table, _, key = name.rpartition(".")
            if (value := getattr(getattr(run.config, table), key)) != only:
                raise SettingError(name, value, f"rounds by hand have {only!r}: leave it out, or take fedlearn.run")
        self.server = run
        self.at = At(len(run.store.history.rounds) + 1, 1)
        self._last: Reporting | None = None
        run.directory.fill()
        self._begin()

    def _begin(self) -> None:
        """Forget the steps of an attempt."""
        self._selection: Selection | None = None
        self._configuration: Configuration | None = None
        self._updates: dict[int, ClientUpdate] = {}

    def select(self) -> Selection:
        """Return the cohort of the round that is under way."""
        if self._selection is None:
            if self.at.round_number > self.server.rounds.total:
                raise UsageError(f"all rounds are made: rounds = {self.server.rounds.total} is their number")
            self.server.notices.clear()
            self.server.events.write("round-started", **self.at.where)
            selection = select_cohort(self.server, self.at)
            if selection.why_not:
                raise UsageError(selection.why_not)
            self._selection = selection
        return self._selection

    def train(self, clients: Sequence[int]) -> list[ClientUpdate]:
        """Return what members of the cohort make of the state; each is trained once in a round."""
        selection = self.select()
        members = {member.partition_id: member for member in selection.cohort}
        if strangers := sorted({*clients} - {*members}):
            raise UsageError(f"client {strangers[0]}: it is not in the cohort of this round, {sorted(members)}")
        configuration = self._configured(selection)
        for client in clients:
            if client not in self._updates:
                self._updates[client] = self._trained(configuration, client)
        return [self._updates[client] for client in clients]

    def _configured(self, selection: Selection) -> Configuration:
        """Return the messages to the cohort, which the strategy writes once in an attempt."""
        if self._configuration is None:
            self._configuration = configure(self.server, selection.cohort, self.at, anchors=selection.anchors)
            self._plan = fold_plan(self.server, self.at, cohort=len(self._configuration.members))
        return self._configuration

    def _trained(self, configuration: Configuration, client: int) -> ClientUpdate:
        both = zip(configuration.messages, configuration.members, strict=True)
        found = [(message, member) for message, member in both if member.partition_id == client]
        if not found:
            raise UsageError(f"client {client}: the strategy sends it nothing in this round")
        message, member = found[0]
        sent = message.content.copy()
        pending = self.server.exchange.send([message], [member], book="")
        ((_, reply, _),) = pending.arrivals()
        verdict = Fold(self._plan).gate.check(reply, member, sent)
        return self._shown(member, verdict)

    def _shown(self, member: Member, verdict: Verdict) -> ClientUpdate:
        report, layout = verdict.report, layout_of(self.server.state)
        arrays = {name: _array(each, layout, name) for name, each in verdict.parcels.get(STATE, {}).items()}
        why_not = "" if report.fate is Fate.REPORTED else report.reason or str(report.fate)
        examples, metrics = report.num_examples, dict(report.metrics)
        return ClientUpdate(member.partition_id, examples, metrics, arrays, report.bytes_up, why_not, self.at, verdict)

    def aggregate(self, updates: Sequence[ClientUpdate]) -> State:
        """Return the new state, which the strategy makes of updates of this round; it is stored, and the round ends."""
        if stale := next((update for update in updates if update.at != self.at), None):
            of = f"round {stale.at.round_number}, attempt {stale.at.attempt}"
            now = f"round {self.at.round_number}, attempt {self.at.attempt}"
            raise UsageError(f"client {stale.client}: an update of {of}; {now} is under way: train it in that")
        if not updates:
            raise UsageError("there are no updates: train clients of the cohort first")
        selection = self.select()
        verdicts = {update.client: update.verdict for update in updates}
        reporting = self._reporting(self._configured(selection), verdicts)
        collected = Collected(selection.ready, reporting, 0.0, 0.0)
        failed = committed_or_not(self.server, collected, self.at)
        self._begin()
        if failed is not None:
            self.at = self.at._replace(attempt=self.at.attempt + 1)
            raise UsageError(f"the round is not committed: {failed.reason}; select and train anew")
        self.at, self._last = At(self.at.round_number + 1, 1), reporting
        return self.server.state

    def _reporting(self, configuration: Configuration, verdicts: dict[int, Verdict]) -> Reporting:
        """Return the reports of the round, added up; a client whose update is left out is late."""
        server, at = self.server, self.at

        def collect(plan: FoldPlan, at: At) -> Reporting:
            intake = Intake(configuration.members, Fold(plan), server)
            server.keep_paid()
            for member in configuration.members:
                if (verdict := verdicts.get(member.partition_id)) is not None:
                    intake.write(verdict.report)
                    intake.tree.place(member.position, verdict)
            return intake.closed()

        reporting = collected(server.features, self._plan, at, collect)
        server.exchange.traffic.add_reports(report.bytes_up for report in reporting.reports)
        tell(server, reporting, TOLD, at)
        return reporting

    def evaluate(self, state: State) -> Measured:
        """Return the scores of a state, measured as the rounds of the run are."""
        server = self.server
        where = server.config.evaluation.where
        if where == "none" or (where == "nodes" and self._last is None):
            raise SettingError("evaluation.where", where, "no state can be measured here: take 'server'")
        names = [metric.name for metric in server.traits.metrics.evaluated]
        last = self._last or Reporting((), (), {})
        booked = server.exchange.take_traffic()  # what rounds count is theirs alone
        try:
            return evaluate(server, state, last, names, round_number=self.at.round_number - 1).columns
        finally:
            server.exchange.traffic = booked


def _array(entries: Entries, layout: Layout, name: str) -> Any:
    """Return the sent entries of a parameter in its shape, with those that were not sent masked."""
    values, positions = entries.values, entries.positions
    spec = layout.get(name)
    if spec is None or (positions is None and values.size != spec.size):
        return values  # of trees, whose number grows
    if positions is None:
        return values.reshape(spec.shape)
    whole = np.ma.MaskedArray(np.zeros(spec.size, values.dtype), mask=True)
    whole[positions] = values
    return whole.reshape(spec.shape)
