"""Selection: nodes say that they are ready within a window, and the server draws a cohort of them at random."""

from __future__ import annotations

import math
from dataclasses import dataclass

from flwr.app import Message
from flwr.serverapp import Grid

from fedlearn import wire
from fedlearn.clock import Clock
from fedlearn.cohort import ReadyNode, needed_of
from fedlearn.config import RunConfig
from fedlearn.folding import Member
from fedlearn.runs.log import EventLog
from fedlearn.seeding import rng_for
from server.node_directory import Roll
from server.notices import Notices
from server.polling import pause

OVER_INVITE = 1.3  # nodes asked for each one wanted, as in FedScale's over-selection


@dataclass(frozen=True, slots=True)
class Selection:
    """What came of one selection window.

    Parameters
    ----------
    ready
        How many nodes said in time that they are ready.
    cohort
        The chosen nodes, sorted by partition id; empty where too few were ready.
    bytes_sent
        Size of queries, answers and rejections.
    why_not
        What the first node that was not ready said.
    """

    ready: int
    cohort: tuple[Member, ...]
    bytes_sent: int
    why_not: str = ""


def select_cohort(
    grid: Grid,
    config: RunConfig,
    *,
    round_number: int,
    attempt: int,
    clock: Clock,
    events: EventLog,
    notices: Notices,
    roll: Roll,
) -> Selection:
    """Ask nodes whether they are ready, draw the cohort of those that are, and reject the rest."""
    goal = config.goal_count
    needed = needed_of(config.rounds.minimum_ready, goal)
    window = _Window(grid, config, roll, round_number=round_number, attempt=attempt, clock=clock, events=events)
    ready = window.run(goal=goal)
    if len(ready) < needed:
        why = f"{len(ready)} nodes were ready within {config.rounds.selection_window:g} s, {needed} are needed"
        events.write("too-few-ready", round=round_number, attempt=attempt, ready=len(ready), needed=needed, reason=why)
        return Selection(len(ready), (), window.bytes_sent, window.why_not)
    rng = rng_for(config.seed, purpose="cohort", round_number=round_number, attempt=attempt)
    drawn = set(rng.choice(len(ready), min(goal, len(ready)), replace=False).tolist())
    chosen = [node for place, node in enumerate(ready) if place in drawn]
    cohort = tuple(Member(n.node_id, n.partition_id, position) for position, n in enumerate(chosen))
    rejected = [node for place, node in enumerate(ready) if place not in drawn]
    for node in rejected:
        events.write("rejected", round=round_number, attempt=attempt, node=node.node_id, partition=node.partition_id)
    notices.send({node.node_id: "rejected" for node in rejected}, round_number=round_number, attempt=attempt)
    events.write(
        "selected", round=round_number, attempt=attempt, ready=len(ready), cohort=len(cohort),
        rejected=len(rejected),
    )  # fmt: skip
    return Selection(len(ready), cohort, window.bytes_sent)


class _Window:
    """One selection window: who was asked, who answered."""

    def __init__(
        self, grid: Grid, config: RunConfig, roll: Roll, *, round_number: int, attempt: int, clock: Clock,
        events: EventLog,
    ) -> None:  # fmt: skip
        self._grid = grid
        self._config = config
        self._roll = roll
        self._round = {"round_number": round_number, "attempt": attempt}
        self._clock = clock
        self._events = events
        self._asked: set[int] = set()
        self._open: dict[str, int] = {}  # message id -> node id
        self._ready: dict[int, ReadyNode] = {}  # by partition id
        self.bytes_sent = 0
        self.why_not = ""

    def run(self, *, goal: int) -> list[ReadyNode]:
        """Return the ready nodes, sorted by partition id, when all have answered or the window has passed."""
        rounds = self._config.rounds
        invited = min(rounds.invited or math.ceil(OVER_INVITE * goal), self._config.clients)
        begin = self._clock.now()
        end = begin + rounds.selection_window
        self._roll.forgive()
        while True:
            if len(self._ready) + len(self._open) < invited:
                self._ask(invited - len(self._ready) - len(self._open), until=end)
            self._hear()
            # Nodes that were not asked, or are not connected, yet.
            seen = len(self._asked) + len(self._roll.unknown)
            may_come = len(self._ready) < goal and seen < self._config.clients
            now = self._clock.now()
            if not (self._open or may_come) or now >= end:
                self.why_not = self.why_not or next(iter(self._roll.unknown.values()), "")
                self.bytes_sent += self._roll.take_bytes()
                return [self._ready[partition] for partition in sorted(self._ready)]
            self._clock.sleep(pause(waited=now - begin, left=end - now))

    def _ask(self, count: int, *, until: float) -> None:
        """Ask at most `count` nodes that were not asked before."""
        nodes = self._roll.nodes(ttl=until - self._clock.now())
        candidates = [node for node in nodes if node not in self._asked] if self._asked else nodes
        if candidates:
            rng = rng_for(self._config.seed, purpose=f"invite/{len(self._asked)}", **self._round)
            drawn = rng.choice(len(candidates), min(count, len(candidates)), replace=False)
            self._push([candidates[place] for place in sorted(drawn.tolist())], ttl=until - self._clock.now())

    def _push(self, node_ids: list[int], *, ttl: float) -> None:
        queries = [wire.ready_query(node_id, **self._round, ttl=max(ttl, 1.0)) for node_id in node_ids]
        self.bytes_sent += wire.bytes_of_all(queries)
        self._asked.update(node_ids)
        ids = self._grid.push_messages(queries)
        self._open |= {message_id: node for message_id, node in zip(ids, node_ids, strict=True) if message_id}

    def _hear(self) -> None:
        for reply in self._grid.pull_messages(list(self._open)) if self._open else ():
            node_id = self._open.pop(reply.metadata.reply_to_message_id, None)
            if node_id is None:
                continue  # a second answer: the first one stands
            partition_id, why_not = self._answer_of(reply)
            where = {"round": self._round["round_number"], "attempt": self._round["attempt"], "node": node_id}
            if not why_not and partition_id in self._ready:
                why_not = f"partition {partition_id} is already held by node {self._ready[partition_id].node_id}"
            if why_not:
                self.why_not = self.why_not or why_not
                self._events.write("not-ready", **where, partition=partition_id, reason=why_not)
            else:
                self._roll.learn(node_id, partition_id)
                self._ready[partition_id] = ReadyNode(node_id, partition_id)
                self._events.write("ready", **where, partition=partition_id)

    def _answer_of(self, reply: Message) -> tuple[int, str]:
        if reply.has_error():
            return -1, reply.error.reason or "no reason given"
        self.bytes_sent += wire.bytes_of(reply.content)
        return wire.read_ready_answer(reply)
