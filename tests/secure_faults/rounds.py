"""Whole runs under fault schedules: the real server and the real clients' handlers, in one process.

Of each run are drawn: its nodes, groups and codec; for each answer whether it is lost, doubled or comes after others;
for each node and attempt an answer from which on it has vanished; and the messages before which the server's process is
killed, after which it is resumed. Nodes keep their memories for themselves, as on a network.
"""

from __future__ import annotations

import json
import logging
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import client.secure_sums.secure_node
from fedlearn import flower, wire
from fedlearn.config import to_flower
from fedlearn.core.cohort import At
from fedlearn.core.errors import RunFailed
from fedlearn.engine.apps import load_server_app
from fedlearn.engine.node_calls import error_reply
from fedlearn.engine.prepare import prepared
from fedlearn.flower import ErrorCode
from server.features.secure_sums.sums_of_attempt import SumOfNodes
from tests.end_to_end.vanishing import KINDS, Killed, Remote, settings_of

MOST_KILLS, ROUNDS = 2, 2
LOST, DOUBLED, VANISHES = 0.03, 0.05, 0.08  # probabilities: of an answer, of an answer, of a node in an attempt


class Faulty(Remote):
    """Nodes and a network that do what a schedule says.

    Parameters
    ----------
    draws
        The schedule.
    kill_in
        Before so many messages the server is killed; 0 for never.
    """

    def __init__(self, config: Any, draws: random.Random, *, kept: Any, kill_in: int) -> None:
        super().__init__(config, kept=kept)
        self._draws = draws
        self._kill_in = kill_in
        self._last: dict[tuple[object, ...], str] = {}

    def answer(self, messages: Any, *, seconds: Any) -> Iterator[Any]:
        """Yield answers late, twice, or not at all; nodes act on all they hear."""
        held = []
        for message in messages:
            self._kill_in -= 1
            if self._kill_in == 0:
                raise Killed
            kind = next((name for name, each in KINDS.items() if each == message.metadata.message_type), "")
            for reply in super().answer([message], seconds=seconds):
                if not kind:
                    yield reply
                elif self._is_gone(message, kind):
                    yield error_reply(message, ErrorCode.UNKNOWN, "the node has vanished")
                elif self._draws.random() < 0.3:
                    held.append(reply)
                else:
                    yield from [reply] * (2 if self._draws.random() < DOUBLED else 1)
        self._draws.shuffle(held)
        yield from held

    def _is_gone(self, message: Any, kind: str) -> bool:
        """Return whether an answer is lost, or its node has vanished by it in this attempt."""
        at = wire.read_instruction(message.content).at if kind == "report" else wire.read_at(message.content)
        key = (*at, message.metadata.dst_node_id)
        if key not in self._last:
            kinds = list(KINDS)
            self._last[key] = self._draws.choice(kinds) if self._draws.random() < VANISHES else ""
        last = self._last[key]
        vanished = bool(last) and list(KINDS).index(kind) >= list(KINDS).index(last)
        return vanished or self._draws.random() < LOST


class Summed(NamedTuple):
    """A sum that the server has found: of whom, what, and modulo how many bits."""

    at: At
    who: tuple[int, ...]
    total: Any
    bits: int


class Seen:
    """What has happened in a run: what nodes have put in, what was made of it, and who has helped with which sum."""

    def __init__(self) -> None:
        self.vectors: dict[tuple[int, int, int], Any] = {}  # (round, attempt, partition) -> what the node adds to a sum
        self.sums: list[Summed] = []
        self.broken: list[str] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Write down what nodes and server do within the block."""
        fixed_point, decoded = client.secure_sums.secure_node._fixed_point, SumOfNodes.decoded

        def of_node(request: Any, *arguments: Any) -> Any:
            vector, bits = fixed_point(request, *arguments)
            key = (*request.instruction.at, request.partition_id)
            if key in self.vectors and not np.array_equal(self.vectors[key], vector):
                self.broken.append(f"node {key[2]} puts other numbers into attempt {key[:2]} than before")
            self.vectors[key] = vector.copy()
            return vector, bits

        def of_server(each: SumOfNodes, total: Any, nodes: int) -> Any:
            roster, agreed = each.server.roster, each.server.agreed
            who = tuple(roster.members[position].node for position in agreed.reported)
            at = At(roster.question.round_number, roster.question.attempt)
            self.sums.append(Summed(at, who, total.copy(), each.summands.modulus_bits))
            return decoded(each, total, nodes)

        with (
            patch.object(client.secure_sums.secure_node, "_fixed_point", of_node),
            patch.object(SumOfNodes, "decoded", of_server),
        ):
            yield

    def check(self, heard: Any, committed: Mapping[int, int]) -> list[str]:
        """Return what does not hold.

        Parameters
        ----------
        heard
            All answers that came: (round, attempt, kind, partition, message).
        committed
            Round -> how many reports count in it.
        """
        lines = list(self.broken)
        sets: dict[tuple[int, int], set[object]] = defaultdict(set)
        helped: dict[tuple[int, int], set[int]] = defaultdict(set)
        for at, who, total, bits in self.sums:
            clear = sum(self.vectors[(*at, node)].astype(np.uint64) for node in who) % (1 << bits)
            if not np.array_equal(clear, total):
                lines.append(f"round {at.round_number}: the sum of {who} is not that in the clear")
            for node in who:
                sets[at.round_number, node].add((at, who))
        for round_number, attempt, kind, partition, _ in heard:
            if kind == "unmasking":
                helped[round_number, partition].add(attempt)
        lines += [
            f"round {at}: node {node} is in {len(all_)} sums" for (at, node), all_ in sets.items() if len(all_) > 1
        ]
        lines += [f"round {at}: node {node} unmasks twice" for (at, node), all_ in helped.items() if len(all_) > 1]
        for round_number, reported in committed.items():
            inside = sum(at == round_number for at, _ in sets)
            if reported not in (0, inside):  # 0: the round was skipped
                lines.append(f"round {round_number}: {reported} reports count, and {inside} are in its sums")
        return lines


def broken_in(seed: int, folder: Path) -> tuple[list[str], dict[str, int]]:
    """Run the schedule of a seed; return in lines what it breaks, and what has happened how often."""
    draws = random.Random(seed)
    clients = draws.choice([5, 6, 8, 12])
    grouped = clients >= 8 and draws.random() < 0.5
    further: dict[str, Any] = {
        "clients": clients,
        "seed": seed + 1,
        "secure": {"dropouts": 0.1, "group_size": 4 * grouped},
        "rounds": {"total": ROUNDS, "cohort": clients, "quorum": 0.5, "minimum_ready": 0.8, "max_attempts": 20},
    }
    if grouped and draws.random() < 0.7:
        further["compression"] = {"codec": "drop", "keep_ratio": 0.3}
    flower.enter_run()
    config = prepared(settings_of(folder / "run", **further))
    seen, kept, heard = Seen(), {}, []
    kills = [draws.randint(1, 12 * clients) for _ in range(draws.randint(0, MOST_KILLS))]
    with seen.watching():
        for kill_in in [*kills, 0]:
            grid, is_killed = Faulty(config, draws, kept=kept, kill_in=kill_in), False
            try:
                with suppress(RunFailed):
                    load_server_app()(grid, flower.server_context(to_flower(config)))
            except Killed:
                is_killed = True
            kept = grid.kept
            heard += grid.heard
            if not is_killed:
                break
    events = [json.loads(line) for line in (folder / "run" / "events.jsonl").read_text().splitlines()]
    lines = seen.check(heard, {e["round"]: e["reported"] for e in events if e["event"] == "committed"})
    summary = json.loads((folder / "run" / "summary.json").read_text())
    if summary["status"] != "completed" and "attempts" not in summary["reason"]:
        lines.append(f"the run has ended otherwise: {summary['reason']}")
    counts = {"sums": len(seen.sums), "skipped": sum(e["event"] == "skipped" for e in events), "kills": len(kills)}
    counts["attempts made again"] = sum(e["event"] == "abandoned" for e in events)
    counts["discarded"] = sum("group-discarded" in str(e.get("reason")) for e in events if e["event"] == "sum-refused")
    return lines, counts


def found_in_runs(first: int, last: int) -> tuple[Counter[str], list[tuple[int, list[str]]]]:
    """Run the schedules from `first` to before `last`; return what has happened, and (seed, what it breaks)."""
    counts: Counter[str] = Counter()
    found = []
    for seed in range(first, last):
        with TemporaryDirectory() as folder, redirect_stdout(StringIO()), _quietly():
            lines, some = broken_in(seed, Path(folder))
        counts.update(some)
        found += [(seed, lines)] if lines else []
    return counts, found


@contextmanager
def _quietly() -> Iterator[None]:
    """Log nothing within the block."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
