"""Secure sums: how a cohort's reports become their sum, of which the server sees nothing but that sum.

Between selection, where nodes send their keys, and the commit of the round are five exchanges: the nodes share their
secrets; they report under masks, in the same way and by the same deadline as without; the survivors sign whose reports
are summed; they reveal what takes the masks off that one sum. What the messages mean is in `fedlearn.secure`.

Until the unmasking an attempt may be abandoned, and made again with fresh keys. After it there is a sum, or the round
is skipped: a second sum of one round, over other nodes, would tell what one node has sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from fedlearn import wire
from fedlearn.aggregation import STATE
from fedlearn.core.cohort import At, Fate, Member
from fedlearn.core.errors import Refused, UsageError
from fedlearn.core.metric import Combine
from fedlearn.core.refusals import explained
from fedlearn.core.state import UpdateKind, layout_of
from fedlearn.models.loaded import whole_numbers_of
from fedlearn.secure import texts
from fedlearn.secure.groups import drop_seed
from fedlearn.secure.key_agreement import NODE_KEY
from fedlearn.secure.level import Level
from fedlearn.secure.masks import reduced, zeros
from fedlearn.secure.noisy import NoisyChanges
from fedlearn.secure.protocol_messages import (
    Advertised,
    Delivered,
    Masked,
    Shared,
    Signed,
    Survivors,
    Unlisted,
    Unmasked,
    Unmasking,
)
from fedlearn.secure.question import Question
from fedlearn.secure.server_protocol import Missing, SecureServer, check_advertised
from fedlearn.secure.summands import Summands, Total, fixed_point_of
from fedlearn.secure.whole import WholeNumbers
from server.attempt import NotCommitted, Reporting, Selection
from server.features.secure_sums.groups_of_cohort import groups_in, level_of, too_few_groups
from server.features.secure_sums.pending_unmasking import AskedSum, asked_sum, store_asked
from server.features.secure_sums.sums_of_attempt import (
    NO_GROUP,
    SumOfNodes,
    Whole,
    added_up,
    counts_of,
    masked_plan,
    with_absent,
)
from server.phases.configuration import configure
from server.phases.quorum import missing_quorum
from server.phases.reporting import collect_reports, tell
from server.run import ServerRun
from strategies.slices_of_run import slices_of

T = TypeVar("T")


def collect_sum(run: ServerRun, selection: Selection, at: At) -> Reporting | NotCommitted:
    """Return the reports of a cohort, of which no more is known than who has sent one, and the sum of their changes.

    An attempt in which too few nodes take part, before the sum is asked for, is not committed.
    """
    attempt = _Attempt(run, selection, at)
    why_not = attempt.why_not_begun()
    return attempt.ended(why_not) if why_not else attempt.sum()


def sum_asked_before(run: ServerRun, at: At) -> Reporting | None:
    """Return the reports, and the sum, of a round of which a killed server has asked nodes to unmask it; else None."""
    asked = asked_sum(run, at)
    return None if asked is None else _Attempt(run, Selection(0, tuple(asked.cohort)), At(*asked.at)).again(asked)


class _Attempt:
    """One attempt at the secure sum of a cohort, or of each of its groups.

    A group that too few nodes are left of is discarded whole, and the others go on without it.
    """

    def __init__(self, run: ServerRun, selection: Selection, at: At) -> None:
        self._run = run
        self._at = at
        self._question = Question(run.config.out, *at)
        self._cohort = {member.partition_id: member for member in selection.cohort}
        self._keys, self._anchors = selection.keys, selection.anchors
        self._metrics = [metric.name for metric in run.traits.metrics.reported if metric.combine is Combine.MEAN]
        has_whole = run.traits.update_kind is UpdateKind.SUMS or run.config.nodes_add_noise
        self._whole = whole_numbers_of(run.config, layout_of(run.state)) if has_whole else None
        self._bits = (self._whole or fixed_point_of(run.config)).modulus_bits
        self._is_masked = run.config.secure.sums == "masked"
        self._reporting: Reporting | None = None
        self._ungrouped: list[int] = []
        self._sums: list[SumOfNodes] = []
        self._refusal = ""  # why the first node that was asked for its part in the sum did not give it

    @property
    def _standing(self) -> list[SumOfNodes]:
        return [each for each in self._sums if not each.why_not]

    def why_not_begun(self) -> str:
        """Take in the keys of the cohort; return why too few nodes have sent keys, empty if the attempt can begin."""
        config = self._run.config
        advertised: list[Advertised] = []
        for partition_id, member in self._cohort.items():
            try:
                keys = texts.from_bytes(Advertised, self._keys.get(member.node_id, b""))
                if keys.node != partition_id:
                    raise Refused("wrong-node", f"it has sent keys of client {keys.node}")
                check_advertised(keys, self._question, advertised)
                advertised.append(keys)
            except Refused as refused:
                self._log(member, str(refused))
        if len(advertised) < max(config.fewest_reports, config.secure.group_size):
            return "too few clients have sent keys"
        by_node = {each.node: each for each in self._of_one_kind(advertised)}
        try:
            for index, group in enumerate(groups_in(config, list(by_node), self._at)):
                level = level_of(config, len(group)).level
                self._begin(index if config.secure.group_size else None, level, [by_node.pop(node) for node in group])
        except UsageError as error:  # of so few nodes: the settings were tried on whole cohorts before round 1
            return str(error)
        for node in by_node:
            self._log(self._cohort[node], NO_GROUP)
        self._ungrouped = [*by_node]
        if not self._sums:
            return "no group of clients with slices of one ratio can be formed"
        return too_few_groups(config, self._run.strategy, len(self._sums))

    def _of_one_kind(self, advertised: Sequence[Advertised]) -> list[Advertised]:
        """Return the keys that one roster can hold: those of node keys, where most nodes sign by such a key.

        Nodes that list their peers refuse a roster with any other key.
        """
        own = [each for each in advertised if len(each.verify) == NODE_KEY]
        if 2 * len(own) <= len(advertised):
            return list(advertised)
        for each in advertised:
            if each not in own:
                why = "no-node-key: most clients list their peers, and it signs by no key of its own (--peers)"
                self._leave_out(each.node, why)
        return own

    def _leave_out(self, node: int, why: str) -> None:
        """Take a node into no further attempt, and log it."""
        self._run.directory.leave_out(node, why)
        self._log(self._cohort[node], f"left out: {why}")

    def _begin(self, group: int | None, level: Level, members: Sequence[Advertised]) -> None:
        summands = self._summands([member.node for member in members])
        count = summands.count * self._is_masked
        server = SecureServer(self._question, level, members, count=count, bits=self._bits)
        self._sums.append(SumOfNodes(group, server, summands))

    def _summands(self, nodes: Sequence[int]) -> Summands | WholeNumbers | NoisyChanges:
        """Return what these nodes add up."""
        config, number = self._run.config, self._at.round_number
        seed = drop_seed(nodes, seed=config.seed, at=self._at)
        if self._whole is None and (slices := slices_of(config)) is not None:
            ratio = slices.ratio_of(nodes[0])
            places = {name: positions for name, (_, positions) in slices.positions(ratio, number).items()}
            return Summands(config, slices.layout(ratio, number), self._metrics, seed, places)
        return self._whole or Summands(config, layout_of(self._run.state), self._metrics, seed)

    def sum(self) -> Reporting | NotCommitted:
        """Go through the exchanges; return what came of them."""
        rosters = {node: [each.server.roster] for each in self._sums for node in each.nodes}
        unlisted: Counter[int] = Counter()
        for shared in self._asked(wire.SHARES, rosters, Shared, Unlisted):
            if isinstance(shared, Shared):
                self._taken(shared.node, SecureServer.shared, shared)
            else:
                unlisted.update({*shared.others} & self._cohort.keys())
        for node, count in unlisted.items():
            if 2 * count > len(self._cohort) - 1:
                self._leave_out(node, "unlisted-peer: most of the others do not list its key as that of a peer")
        delivered = {node: said for each in self._sums for node, said in each.step(each.server.deliver()).items()}
        if not self._standing:
            return self.ended(self._sums[0].why_not)
        reporting = self._reported(delivered)
        survivors = {n: said for each in self._standing for n, said in each.step(each.server.survivors()).items()}
        if missing := self._missing(reporting):  # after the unmasking it would be too late
            return self.ended(missing)
        if not self._standing:
            return self.ended(self._sums[0].why_not)
        for signed in self._asked(wire.SURVIVORS, {node: [said] for node, said in survivors.items()}, Signed):
            self._taken(signed.node, SecureServer.signed, signed)
        for each in self._standing:
            for node in each.server.unlike:
                each.why_not = "a client has signed another question than the others"
                self._leave_out(node, "another-question: it says that it was asked something else than most others")
        return self._unmasked(reporting, survivors)

    def _reported(self, delivered: Mapping[int, Delivered]) -> Reporting:
        """Have the nodes that have shared train, and return their masked reports, added up."""
        cohort = [self._cohort[node] for node in sorted(delivered)]
        metrics = "\n".join(self._metrics).encode()
        beside = {
            self._cohort[node].node_id: {Delivered.__name__: texts.to_bytes(said), wire.METRICS: metrics}
            for node, said in delivered.items()
        }
        configuration = configure(self._run, cohort, self._at, beside, anchors=self._anchors)
        plan = masked_plan(self._run, self._at, self._standing, cohort=configuration.members)
        reporting = collect_reports(self._run, configuration, self._at, plan)
        for member, report in zip(reporting.members, reporting.reports, strict=True):
            if report.fate is Fate.REPORTED:
                masked = Masked(self._question, member.partition_id, zeros(0, self._bits))
                self._taken(member.partition_id, SecureServer.masked, masked)
        if self._is_masked:
            for each in self._standing:
                each.server.add(each.total_in(reporting))
        self._reporting = with_absent(reporting, self._cohort.values(), self._ungrouped)
        return self._reporting

    def _unmasked(self, reporting: Reporting, survivors: Mapping[int, Survivors]) -> Reporting | NotCommitted:
        """Ask for the sums, and return them; from here on there is no other attempt at this round."""
        unmasking = {n: said for each in self._standing for n, said in each.step(each.server.unmasking()).items()}
        if not self._standing:
            return self.ended(self._sums[0].why_not)
        reporting = self._without_discarded(reporting)
        if missing := self._missing(reporting):
            return self.ended(missing)
        if not self._run.exchange.is_virtual:  # virtual nodes end with the server, and forget
            servers = [each.server for each in self._standing]
            store_asked(self._run, servers, self._cohort.values(), reporting, self._at)
        self._write_unmasking(reporting)  # once it is stored: a server killed before has asked nobody
        return self._revealed(reporting, survivors, unmasking)

    def _write_unmasking(self, reporting: Reporting) -> None:
        nodes, of_sums = reporting.count(Fate.REPORTED), counts_of(self._standing)
        self._run.events.write("unmasking", **self._at.where, nodes=nodes, **of_sums)

    def again(self, asked: AskedSum) -> Reporting:
        """Ask once more for the sums that a killed server has asked for."""
        servers = [SecureServer.from_bytes(each) for each in asked.sums]
        for server in servers:
            nodes = [member.node for member in server.roster.members]
            self._sums.append(SumOfNodes(None, server, self._summands(nodes)))
        reporting = asked.reporting
        survivors: dict[int, Survivors] = {}
        unmasking: dict[int, Unmasking] = {}
        for each in self._sums:
            said = each.step(each.server.unmasking())  # they were stored with it
            unmasking |= said
            survivors |= dict.fromkeys(said, each.server.agreed)
        self._write_unmasking(reporting)
        return self._revealed(reporting, survivors, unmasking)

    def _revealed(
        self, reporting: Reporting, survivors: Mapping[int, Survivors], unmasking: Mapping[int, Unmasking]
    ) -> Reporting:
        """Ask the survivors for their shares, and return the sums; the round is skipped where these are too few."""
        self._run.events.flush()
        asked = {node: [survivors[node], said] for node, said in unmasking.items()}
        for unmasked in self._asked(wire.UNMASKING, asked, Unmasked):
            self._taken(unmasked.node, SecureServer.unmasked, unmasked)
        found = [(each, total) for each in self._standing if (total := self._found(each, reporting)) is not None]
        if not found:
            return replace(reporting, skipped=next(each.why_not for each in self._sums if each.why_not))
        reporting = self._without_discarded(reporting)
        if missing := self._missing(reporting):
            return replace(reporting, skipped=missing)
        tell(self._run, reporting, {Fate.REPORTED: "summed"}, self._at)
        sums, means = added_up(self._run, found)
        groups = [each.reported for each, _ in found]
        return replace(reporting, sums={STATE: sums}, means=means, groups=groups, is_final=True)

    def _missing(self, reporting: Reporting) -> str:
        """Return why too few nodes, or groups, are left for the round to count; empty if they are enough."""
        few = too_few_groups(self._run.config, self._run.strategy, len(self._standing))
        return missing_quorum(self._run, reporting) or few

    def _found(self, each: SumOfNodes, reporting: Reporting) -> Total | Whole | None:
        """Return one sum without its masks; None where it cannot be found, and is discarded."""
        try:
            summed = each.server.summed()
            if isinstance(summed, Missing):
                each.why_not = f"the sum cannot be unmasked: {summed.reason}"
                return None
            total = summed.total if self._is_masked else reduced(each.total_in(reporting), self._bits)
            return each.decoded(total, len(summed.nodes))
        except Refused as refused:
            each.why_not = str(refused)
            return None

    def _without_discarded(self, reporting: Reporting) -> Reporting:
        """Return the reports with those as refused whose sum was discarded; log it, and notify their nodes, once."""
        why = {node: each.why_not for each in self._sums if each.why_not for node in each.nodes}
        reports, told = [], {}
        for member, report in zip(reporting.members, reporting.reports, strict=True):
            if report.fate is Fate.REPORTED and member.partition_id in why:
                report = report._replace(fate=Fate.REFUSED, reason=f"group-discarded: {why[member.partition_id]}")
                told[member.node_id] = "abandoned"
                self._log(member, report.reason)
            reports.append(report)
        if told:
            self._run.notices.send(told, self._at)
        return replace(reporting, reports=reports)

    def ended(self, reason: str) -> NotCommitted:
        """Abandon the attempt before anything is unmasked, and notify its nodes."""
        reason += f"; first reason: {explained(self._refusal)}" if self._refusal else ""
        self._run.events.write("abandoned", **self._at.where, reason=reason)
        members = self._cohort.values() if self._reporting is None else self._reporting.members
        self._run.notices.send({member.node_id: "abandoned" for member in members}, self._at)
        return NotCommitted(reason, self._reporting is not None and self._reporting.raised_alike)

    def _asked(self, kind: str, what: Mapping[int, list[Any]], *answers: type[Any]) -> Iterator[Any]:
        """Send each node its part of `what`, and yield the answers of some types, as they come."""
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
                    yield texts.from_any(answers, wire.read_secure(reply.content).get(wire.ANSWER, b""))
                except Refused as refused:
                    self._refusal = self._refusal or str(refused).removeprefix("failed: ")
                    self._log(member, str(refused))
            if not pending.open:
                break

    def _taken(self, node: int, take: Callable[[SecureServer, T], None], message: T) -> None:
        """Let the server take a message in, in the sum of its node; log what it refuses."""
        try:
            take(next(each.server for each in self._standing if node in each.nodes), message)
        except StopIteration:
            return
        except Refused as refused:
            member = self._cohort.get(node)
            if member is not None:
                self._log(member, str(refused))

    def _log(self, member: Member, reason: str) -> None:
        where = {"node": member.node_id, "partition": member.partition_id}
        self._run.events.write("sum-refused", **self._at.where, **where, reason=reason)
