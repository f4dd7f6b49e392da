"""Secure sums: how a cohort's reports become their sum, of which the server sees nothing but that sum.

Between selection, where nodes send their keys, and the commit of the round are five exchanges: the nodes share their
secrets; they report under masks, in the same way and by the same deadline as without; the survivors sign whose reports
are summed; they reveal what takes the masks off that one sum. What the messages mean is in `fedlearn.secure`.

Until the unmasking an attempt may be abandoned, and made again with fresh keys. After it there is a sum, or the round
is skipped: a second sum of one round, over other nodes, would tell what one node has sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from fedlearn import wire
from fedlearn.folding import STATE, FoldPlan, ParcelPlan
from fedlearn.folding.modular import MASKED, ModularSum
from fedlearn.secure import texts
from fedlearn.secure.masks import reduced, zeros
from fedlearn.secure.messages import (
    Advertised,
    Delivered,
    Masked,
    Shared,
    Signed,
    Survivors,
    Unmasked,
    Unmasking,
)
from fedlearn.secure.question import Question
from fedlearn.secure.server import Missing, SecureServer, check_advertised
from fedlearn.secure.summands import Summands, Total
from fedlearn.words.cohort import At, Fate, Member, NodeReport
from fedlearn.words.errors import Refused, UsageError
from fedlearn.words.state import ArraySpec, layout_of
from server.attempt import NotCommitted, Reporting, Selection
from server.phases.asked import AskedSum, asked_sum, store_asked
from server.phases.configuration import configure
from server.phases.quorum import missing_quorum
from server.phases.reporting import collect_reports, fold_plan, tell
from server.run import ServerRun
from server.secure import level_of, summed_metrics
from strategies.masked_mean import MaskedSum

NOTHING: Mapping[int, bytes] = MappingProxyType({})
T = TypeVar("T")


def collect_sum(run: ServerRun, selection: Selection, at: At) -> Reporting | NotCommitted:
    """Return the reports of a cohort, of which no more is known than who has sent one, and the sum of their changes.

    An attempt in which too few nodes take part, before the sum is asked for, is not committed.
    """
    attempt = _Attempt(run, selection.cohort, at, keys=selection.keys)
    why_not = attempt.why_not_begun()
    return attempt.ended(why_not) if why_not else attempt.sum()


def sum_asked_before(run: ServerRun, at: At) -> Reporting | None:
    """Return the reports, and the sum, of a round of which a killed server has asked nodes to unmask it; else None."""
    asked = asked_sum(run, at)
    return None if asked is None else _Attempt(run, asked.cohort, At(*asked.at)).again(asked)


class _Attempt:
    """One attempt at a secure sum."""

    def __init__(
        self, run: ServerRun, cohort: Sequence[Member], at: At, *, keys: Mapping[int, bytes] = NOTHING
    ) -> None:
        self._run = run
        self._at = at
        self._question = Question(run.config.out, *at)
        self._cohort = {member.partition_id: member for member in cohort}
        self._keys = keys
        self._summands = Summands(run.config, layout_of(run.state), summed_metrics(run.model_metrics))
        self._is_masked = run.config.secure.sums == "masked"
        self._reporting: Reporting | None = None

    def why_not_begun(self) -> str:
        """Take in the keys of the cohort; return why too few nodes have sent keys, empty if the attempt can begin."""
        advertised: list[Advertised] = []
        for partition_id, member in self._cohort.items():
            try:
                keys = texts.from_bytes(Advertised, self._keys.get(member.node_id, b""))
                if keys.node != partition_id:
                    raise Refused("wrong-node", f"it has sent keys of node {keys.node}")
                check_advertised(keys, self._question, advertised)
                advertised.append(keys)
            except Refused as refused:
                self._log(member, str(refused))
        if len(advertised) < self._run.config.fewest_reports:
            return "too few nodes have sent keys"
        try:
            level = level_of(self._run.config, len(advertised)).level
        except UsageError as error:  # of so few nodes: the settings were tried on whole cohorts before round 1
            return str(error)
        count, bits = self._summands.count, self._summands.fixed.modulus_bits
        self._server = SecureServer(self._question, level, advertised, count=count * self._is_masked, bits=bits)
        return ""

    def sum(self) -> Reporting | NotCommitted:
        """Go through the exchanges; return what came of them."""
        roster = self._server.roster
        for shared in self._asked(wire.SHARES, {each.node: [roster] for each in roster.members}, Shared):
            self._taken(shared.node, self._server.shared, shared)
        delivered = self._server.deliver()
        if isinstance(delivered, Missing):
            return self.ended(delivered.reason)
        reporting = self._reported(delivered)
        survivors = self._server.survivors()
        if missing := missing_quorum(self._run, reporting):  # after the unmasking it would be too late
            return self.ended(missing)
        if isinstance(survivors, Missing):
            return self.ended(survivors.reason)
        for signed in self._asked(wire.SURVIVORS, {node: [said] for node, said in survivors.items()}, Signed):
            self._taken(signed.node, self._server.signed, signed)
        return self._unmasked(reporting, survivors)

    def _reported(self, delivered: Mapping[int, Delivered]) -> Reporting:
        """Have the nodes that have shared train, and return their masked reports, added up."""
        cohort = [self._cohort[node] for node in delivered]
        metrics = "\n".join(self._summands.metrics).encode()
        beside = {
            self._cohort[node].node_id: {Delivered.__name__: texts.to_bytes(said), wire.METRICS: metrics}
            for node, said in delivered.items()
        }
        configuration = configure(self._run, cohort, self._at, beside)
        plan = masked_plan(self._run, self._at, self._summands, cohort=len(cohort))
        reporting = collect_reports(self._run, configuration, self._at, plan)
        for member, report in zip(reporting.members, reporting.reports, strict=True):
            if report.fate is Fate.REPORTED:
                nothing = zeros(0, self._summands.fixed.modulus_bits)
                self._server.masked(Masked(self._question, member.partition_id, nothing))
        if self._is_masked:
            self._server.add(self._total(reporting))
        self._reporting = self._with_absent(reporting)
        return self._reporting

    def _unmasked(self, reporting: Reporting, survivors: Mapping[int, Survivors]) -> Reporting | NotCommitted:
        """Ask for the one sum, and return it; from here on there is no other attempt at this round."""
        unmasking = self._server.unmasking()
        if isinstance(unmasking, Missing):
            return self.ended(unmasking.reason)
        self._run.events.write("unmasking", **self._at.where, nodes=len(survivors))
        if not self._run.exchange.is_virtual:  # virtual nodes end with the server, and forget
            store_asked(self._run, self._server, self._cohort.values(), reporting, self._at)
        return self._revealed(reporting, survivors, unmasking)

    def again(self, asked: AskedSum) -> Reporting:
        """Ask once more for the sum that a killed server has asked for."""
        self._server = SecureServer.from_bytes(asked.sum)
        reporting = asked.reporting
        self._run.events.write("unmasking", **self._at.where, nodes=len(self._server.agreed.reported))
        unmasking = self._server.unmasking()
        assert not isinstance(unmasking, Missing)  # it was stored with it
        return self._revealed(reporting, dict.fromkeys(unmasking, self._server.agreed), unmasking)

    def _revealed(
        self, reporting: Reporting, survivors: Mapping[int, Survivors], unmasking: Mapping[int, Unmasking]
    ) -> Reporting:
        """Ask the survivors for their shares, and return the sum; the round is skipped where these are too few."""
        self._run.events.flush()
        asked = {node: [survivors[node], said] for node, said in unmasking.items()}
        for unmasked in self._asked(wire.UNMASKING, asked, Unmasked):
            self._taken(unmasked.node, self._server.unmasked, unmasked)
        try:
            summed = self._server.summed()
            if isinstance(summed, Missing):
                return replace(reporting, skipped=f"the sum cannot be unmasked: {summed.reason}")
            bits = self._summands.fixed.modulus_bits
            total = summed.total if self._is_masked else reduced(self._total(reporting), bits)
            found = self._summands.decoded(total, len(summed.nodes))
        except Refused as refused:
            return replace(reporting, skipped=str(refused))
        tell(self._run, reporting, {Fate.REPORTED: "summed"}, self._at)
        return replace(reporting, sums={STATE: self._accumulated(found, len(summed.nodes))}, means=found.metrics)

    def _accumulated(self, found: Total, nodes: int) -> MaskedSum:
        """Return the sum as a strategy takes it; parameters that are not summed keep their values."""
        weights = {name: np.array([float(found.weight)]) for name in found.changes}
        total = MaskedSum(layout_of(self._run.state), dict(found.changes), weights)
        total.reports = np.array([float(nodes), float(found.weight)])
        return total

    def ended(self, reason: str) -> NotCommitted:
        """Abandon the attempt before anything is unmasked, and notify its nodes."""
        self._run.events.write("abandoned", **self._at.where, reason=reason)
        members = self._cohort.values() if self._reporting is None else self._reporting.members
        self._run.notices.send({member.node_id: "abandoned" for member in members}, self._at)
        return NotCommitted(reason, self._reporting is not None and self._reporting.raised_alike)

    def _with_absent(self, reporting: Reporting) -> Reporting:
        """Return the reports with those nodes of the cohort as failed that have shared no secrets."""
        there = {member.partition_id for member in reporting.members}
        members, reports, seconds = [*reporting.members], [*reporting.reports], [*reporting.seconds]
        for partition_id, member in self._cohort.items():
            if partition_id not in there:
                members.append(member._replace(position=len(members)))
                reports.append(NodeReport(len(reports), Fate.FAILED, reason="it has not shared its secrets in time"))
                seconds.append(None)
        return replace(reporting, members=members, reports=reports, seconds=seconds)

    def _asked(self, kind: str, what: Mapping[int, list[Any]], answer: type[T]) -> Iterator[T]:
        """Send each node its part of `what`, and yield the answers that can be read, as they come."""
        run, patience = self._run, self._run.config.secure.patience
        said = {node: {type(each).__name__: texts.to_bytes(each) for each in parts} for node, parts in what.items()}
        members = [self._cohort[node] for node in said]
        messages = [
            wire.secure_query(member.node_id, kind, self._at, said[member.partition_id], ttl=patience)
            for member in members
        ]
        pending = run.exchange.send(messages, members)
        for _ in run.exchange.looks(until=run.clock.now() + patience):
            for member, reply, again in pending.arrivals():
                if again:
                    continue
                try:
                    if reply.has_error():
                        raise Refused("failed", reply.error.reason or "no reason given")
                    yield texts.from_bytes(answer, wire.read_secure(reply.content).get(wire.ANSWER, b""))
                except Refused as refused:
                    self._log(member, str(refused))
            if not pending.open:
                break

    def _taken(self, node: int, take: Callable[[T], None], message: T) -> None:
        """Let the server take a message in; log what it refuses."""
        try:
            take(message)
        except Refused as refused:
            member = self._cohort.get(node)
            if member is not None:
                self._log(member, str(refused))

    def _log(self, member: Member, reason: str) -> None:
        where = {"node": member.node_id, "partition": member.partition_id}
        self._run.events.write("sum-refused", **self._at.where, **where, reason=reason)

    def _total(self, reporting: Reporting) -> Any:
        total = reporting.sums[STATE]
        assert isinstance(total, ModularSum)
        return total.total


def masked_plan(run: ServerRun, at: At, summands: Summands, *, cohort: int) -> FoldPlan:
    """Return how masked reports are checked and added up."""
    dtype = str(zeros(0, summands.fixed.modulus_bits).dtype)
    masked = ParcelPlan(
        {MASKED: ArraySpec((summands.count,), dtype)}, "fedlearn.folding.modular:ModularSum", uniform=True
    )
    plan = fold_plan(run, at, cohort=cohort)
    return replace(plan, gate="server.masked_gate:MaskedGate", parcels={STATE: masked}, metrics={}, typical=None)
