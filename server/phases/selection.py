"""Selection: nodes say that they are ready within a window, and the server draws a cohort of them at random."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedlearn import wire
from fedlearn.aggregation.offers import NodeIds
from fedlearn.core.cohort import At, Member, ReadyNode, raised_alike
from fedlearn.core.errors import RunFailed
from fedlearn.core.refusals import explained, known
from fedlearn.core.seeding import rng_for
from fedlearn.flower import ErrorCode
from server.attempt import Selection
from server.exchange.exchange import Pending
from server.exchange.node_directory import without
from server.run import ServerRun


def select_cohort(run: ServerRun, at: At) -> Selection:
    """Ask nodes whether they are ready, draw the cohort of those that are, and reject the rest.

    If too few nodes are ready, the selection is cancelled, and the ready ones are notified.
    """
    needed = run.config.clients if run.selector.asks_all else run.config.fewest_ready
    wanted = run.config.largest_cohort
    window = _Window(run, at)
    ready = window.pass_by(wanted=wanted)
    if len(ready) < needed:
        late = run.late.answers.take_heard()
        were_ready = f"{len(ready)} {'client was' if len(ready) == 1 else 'clients were'} ready"
        why = f"{were_ready} within {run.rounds.selection_window:g} s, {needed} are needed{late}"
        run.events.write("too-few-ready", **at.where, ready=len(ready), needed=needed, reason=why)
        run.notices.send({node.node_id: "cancelled" for node in ready}, at)
        first = f"; first reason: {explained(window.why_not)}" if window.why_not else ""
        why_not = f"only {were_ready} in the selection window{first}"
        return Selection(len(ready), (), why_not, window.raised_alike)
    partitions = np.array([node.partition_id for node in ready])
    drawn = list(run.selector.draw(partitions, min(wanted, len(ready)), at))
    if len({*drawn}) != len(drawn) or not {*drawn} <= {*partitions.tolist()}:
        raise RunFailed(f"selector {type(run.selector).__name__} drew a client twice, or one that was not ready")
    chosen = [node for node in ready if node.partition_id in drawn]
    rejected = [node for node in ready if node.partition_id not in drawn]
    for node in rejected:
        run.events.write("rejected", **at.where, node=node.node_id, partition=node.partition_id)
    run.notices.send({node.node_id: "rejected" for node in rejected}, at)
    run.events.write("selected", **at.where, ready=len(ready), cohort=len(chosen), rejected=len(rejected))
    members = (Member(node.node_id, node.partition_id, position) for position, node in enumerate(chosen))
    why_not = (
        ""
        if chosen or run.selector.may_draw_none
        else f"the selector drew none of the {len(ready)} clients that were ready"
    )
    keys = {node.node_id: node.keys for node in chosen}
    anchors = {node.node_id: node.anchor for node in chosen}
    return Selection(len(ready), tuple(members), why_not, keys=keys, anchors=anchors)


class _Window:
    """One selection window: who was asked, who answered."""

    def __init__(self, run: ServerRun, at: At) -> None:
        self._run = run
        self._at = at
        self._asked: set[int] = set()
        self._pending: Pending[int] = run.exchange.send([], [])  # about node ids
        self._ready: dict[int, ReadyNode] = {}  # by partition id
        self._raised: list[str] = []
        self._why_not = ""

    @property
    def why_not(self) -> str:
        """The reason of the first node that was not ready, or else why too few were."""
        return self._why_not or next(iter(self._run.directory.unknown.values()), "") or self._of_devices()

    @property
    def raised_alike(self) -> bool:
        """Whether all that were asked have raised, and all the same."""
        return len(self._raised) == len(self._asked) and raised_alike(self._raised)

    def pass_by(self, *, wanted: int) -> list[ReadyNode]:
        """Return the ready nodes, sorted by partition id, when all have answered or the window has passed."""
        config, rounds, directory = self._run.config, self._run.rounds, self._run.directory
        invited = min(rounds.invited or math.ceil(self._run.selector.invites * wanted), config.clients)
        invited = config.clients if self._run.selector.asks_all else invited
        end = self._run.clock.now() + rounds.selection_window
        directory.forgive()
        for _ in self._run.exchange.looks(until=end):
            missing = invited - len(self._ready) - len(self._pending.open)
            if missing > 0 and self._run.clock.now() < end:  # no later answer counts
                self._ask(missing, until=end)
            self._hear()
            self._run.late.answers.hear()
            # Nodes that were not asked, or are not connected, yet.
            seen = len(self._asked) + len(directory.unknown)
            may_come = len(self._ready) < wanted and seen < config.clients - len(config.absent)
            if not (self._pending.open or may_come):
                break
        self._run.late.answers.expect(self._pending.open, directory.partition_of, self._at, end=end)
        return [self._ready[partition] for partition in sorted(self._ready)]

    def _of_devices(self) -> str:
        """Return how many nodes have devices that can be reached, if they have any."""
        timed = self._run.exchange.timed
        count = len(timed.reachable()) if timed else 0
        return f"{count} of {self._run.config.clients} devices can be reached at this hour" if timed else ""

    def _ask(self, count: int, *, until: float) -> None:
        """Ask at most `count` nodes that were not asked before."""
        ttl = until - self._run.clock.now()
        nodes = self._run.directory.nodes(ttl=ttl)
        candidates = without(nodes, self._asked) if self._asked else nodes
        if len(candidates):
            drawn = self._invited(candidates, min(count, len(candidates)))
            self._send([int(candidates[place]) for place in sorted(drawn.tolist())], ttl=ttl)

    def _invited(self, candidates: NodeIds, count: int) -> NDArray[np.int64]:
        """Return the places of the candidates that are asked."""
        if self._run.selector.invites_as_drawn:
            partitions = self._run.directory.partitions_of(candidates)
            return np.flatnonzero(np.isin(partitions, self._run.selector.draw(partitions, count, self._at)))
        purpose = f"invite/{len(self._asked)}"
        rng = rng_for(self._run.config.seed, purpose=purpose, **self._at._asdict())
        return rng.choice(len(candidates), count, replace=False)

    def _send(self, node_ids: Sequence[int], *, ttl: float) -> None:
        self._asked.update(node_ids)
        self._pending.join(self._run.unsent.ask(node_ids, self._at, ttl=ttl))

    def _hear(self) -> None:
        for node_id, reply, again in self._pending.arrivals():
            if again:
                continue  # the first answer stands
            if sent := self._run.unsent.sent_after(node_id, reply, self._at, ttl=self._run.rounds.selection_window):
                self._pending.join(sent)
                continue
            partition_id, why_not = wire.read_ready_answer(reply)
            if reply.has_error() and reply.error.code == ErrorCode.CLIENT_APP_RAISED_EXCEPTION:
                self._raised.append(why_not)
            if not (reply.has_error() or self._run.exchange.is_virtual):
                why_not = known(why_not)
            why_not = why_not or self._run.directory.learn(node_id, partition_id)
            if not why_not and partition_id in self._ready:
                why_not = f"partition {partition_id} is already held by client {self._ready[partition_id].node_id}"
            if why_not:
                self._why_not = self._why_not or why_not
                self._log("not-ready", node_id, partition_id, reason=why_not)
            else:
                self._ready[partition_id] = ReadyNode(
                    node_id, partition_id, wire.read_keys(reply), wire.read_anchor(reply)
                )
                self._log("ready", node_id, partition_id)

    def _log(self, event: str, node_id: int, partition_id: int, **detail: str) -> None:
        self._run.events.write(event, **self._at.where, node=node_id, partition=partition_id, **detail)
