"""Plants a mistake in a copy of the code, and counts how many fault schedules it takes to find it.

    python -m tests.faults.mutants                      # all of them
    python -m tests.faults.mutants --only quorum --story # those of some names, with the smallest schedule

Exit code 1 if one is not found within `--schedules`.
"""

# What stands in the code stands here in one piece:
# ruff: noqa: E501

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

ROOT = Path(__file__).parents[2]
COPIED = ("fedlearn", "server", "strategies")
FIND = """
from tests.faults.__main__ import tell
from tests.faults.checking import found_in
for seed, lines in found_in(0, {most}, most=1):
    print(seed, lines[0], flush=True)
    if {story}:
        tell(seed)
"""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake: a file, a text that stands in it once, and the text that replaces it."""

    name: str
    file: str
    text: str
    mistake: str


MUTANTS = (
    Mutant("quorum one lower", "server/phases/quorum.py", "if reported >= needed:", "if reported >= needed - 1:"),
    Mutant("quorum one higher", "server/phases/quorum.py", "if reported >= needed:", "if reported > needed:"),
    Mutant("quorum not asked", "server/committing.py", "reason = anew or missing_quorum(", "reason = anew and missing_quorum("),
    Mutant("second report counted", "server/phases/reporting.py", "            if again:\n", "            if again and False:\n"),
    Mutant("late report added", "server/phases/reporting.py", "until=exchange.clock.now() + deadline):",
           "until=exchange.clock.now() + 2 * deadline):"),
    Mutant("waits one look less", "server/exchange/exchange.py", "if now >= until:", "if now + 1.0 >= until:"),
    Mutant("memory not stored", "server/committing.py", "step.state, memory, record,", "step.state, {}, record,"),
    Mutant("typical not stored", "server/committing.py", "lately(), typical=run.typical,", "lately(),"),
    Mutant("never too far, later", "server/gate/gate.py", "if self._beside is not None and (why", "if False and (why"),
    Mutant("never too far, first", "server/committing.py", "found = too_far(reports, run.config.gate)", "found = {}"),
    Mutant("too far by position", "server/gate/limits.py", "for place, report in enumerate(reports)}",
           "for place, report in sorted({r.position: r for r in reports}.items())}"),
    Mutant("report of another round", "server/gate/gate.py", '("wrong-round", self._plan.at.round_number)',
           '("wrong-round", found.get("round_number"))'),
    Mutant("report of another attempt", "server/gate/gate.py", '("wrong-attempt", self._plan.at.attempt)',
           '("wrong-attempt", found.get("attempt"))'),
    Mutant("report of another place", "server/gate/gate.py", '("wrong-node", member.position)', '("wrong-node", found.get("position"))'),
    Mutant("report of another partition", "server/gate/gate.py", '("wrong-node", member.partition_id)',
           '("wrong-node", found.get("partition_id"))'),
    Mutant("seed chosen by the node", "server/gate/gate.py", '("wrong-seed", self._seed_of(member))',
           '("wrong-seed", found.get("seed"))'),
    Mutant("seal not broken", "server/gate/gate.py", "        wire.check_seal(content)\n", ""),
    Mutant("any number of examples", "server/gate/gate.py", "if not 1 <= num_examples <= self._most_examples:", "if False:"),
    Mutant("NaN let in", "server/gate/norms.py", "if not np.isfinite(entries.values[part]).all():", "if False:"),
    Mutant("any parcel", "server/gate/gate.py", "if came.keys() != self._parcels.keys():", "if False:"),
    Mutant("late ones not notified", "server/phases/reporting.py", 'TOLD = {Fate.LATE: "late", ', "TOLD = {"),
    Mutant("abandoned ones not notified", "server/committing.py", '    tell(run, reporting, {Fate.REPORTED: "abandoned"}, at)\n', ""),
    Mutant("rejected ones not notified", "server/phases/selection.py",
           '    run.notices.send({node.node_id: "rejected" for node in rejected}, at)\n', ""),
    Mutant("cancelled ones not notified", "server/phases/selection.py",
           '        run.notices.send({node.node_id: "cancelled" for node in ready}, at)\n', ""),
    Mutant("late report not counted", "server/exchange/late_reports.py", "        self._exchange.traffic.add_reports(sizes)\n", "        list(sizes)\n"),
    Mutant("late report counted twice", "server/exchange/late_reports.py", 'exchange.send([], [], book="")', "exchange.send([], [])"),
    Mutant("unsent counted", "server/phases/reporting.py", "exchange.traffic.down -= wire.bytes_of_all(", "_ = wire.bytes_of_all("),
    Mutant("bytes counted again", "server/exchange/exchange.py", "traffic, self.traffic = self.traffic, Traffic()",
           "traffic, self.traffic = self.traffic, self.traffic"),
    Mutant("second answer counts", "server/phases/selection.py", "            if again:\n", "            if False:\n"),
    Mutant("too few are enough", "server/phases/selection.py", "    if len(ready) < needed:\n", "    if not ready:\n"),
    Mutant("partition taken on trust", "server/exchange/node_directory.py", "virtual[partition_id] != node_id", "False"),
    Mutant("partition changed later", "server/exchange/node_directory.py", 'return "" if known == partition_id', 'return "" if True'),
    Mutant("file not synced", "fedlearn/runs/files.py", "            file.flush()\n            os.fsync(file.fileno())\n",
           "            file.flush()\n"),
    Mutant("rename not synced", "fedlearn/runs/files.py", "            sync_folder(parent)\n", "            pass\n"),
    Mutant("history not synced", "fedlearn/runs/files.py",
           "                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))\n            os.fsync(file.fileno())\n",
           "                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))\n"),
    Mutant("log not synced", "fedlearn/runs/appended.py", "            os.fsync(file.fileno())\n", "            pass\n"),
    Mutant("second late report not counted", "server/exchange/late_reports.py", "if each.reply.has_content()]", "if each.reply.has_content() and not each.again]"),
    Mutant("stale counts whole", "server/schedules/asynchronous/schedule.py", "factor=self.factor(staleness), offset", "factor=self.factor(0), offset"),
    Mutant("staleness one higher", "server/schedules/asynchronous/schedule.py", "staleness = at.round_number - flight.at.round_number\n",
           "staleness = at.round_number - flight.at.round_number + 1\n"),
    Mutant("too stale counts", "server/schedules/asynchronous/schedule.py", "return 0 < self.largest_staleness < at", "return 0 > self.largest_staleness > at"),
    Mutant("change of another state", "server/schedules/asynchronous/schedule.py", "offset = self.offset(gate.state_in(flight.sent, anchor=flight.anchor))",
           "offset = self.offset(run.state)"),
    Mutant("one more in flight", "server/schedules/asynchronous/schedule.py", "len(chosen) < self.in_flight:", "len(chosen) <= self.in_flight:"),
    Mutant("second report taken in", "server/schedules/asynchronous/schedule.py", "        if again:\n", "        if again and False:\n"),
    Mutant("buffer one short", "server/schedules/asynchronous/buffer.py", "len(self.staleness) >= self._size", "len(self.staleness) >= max(self._size - 1, 1)"),
    Mutant("in flight not stored", "server/schedules/asynchronous/schedule.py", "UnderWay(self._memory(), self.flights.versions)",
           "UnderWay({}, self.flights.versions)"),
    Mutant("their states not stored", "server/schedules/asynchronous/schedule.py", "UnderWay(self._memory(), self.flights.versions)", "UnderWay(self._memory())"),
    Mutant("their time begins anew", "server/schedules/asynchronous/in_flight.py", "begun = begun if is_timed else", "begun ="),
    Mutant("last reports not stored", "server/schedules/asynchronous/schedule.py", "{**self.flights.memory(), RECENTLY: self._recent.memory()}", "self.flights.memory()"),
    Mutant("end of the run not notified", "server/schedules/asynchronous/schedule.py", '        self._drop(self.flights.everyone, "the run is over", None)\n', ""),
    Mutant("waiting reports not counted", "server/schedules/asynchronous/schedule.py", "add_reports(verdict.report.bytes_up for verdict in came)", "add_reports([])"),
    Mutant("ledgers not stored", "server/run.py", "if self.traits.is_private and (changed", "if False and (changed"),
    Mutant("written down before it is paid", "server/phases/reporting.py", "        if came:\n            run.keep_paid()\n", ""),
    Mutant("ledgers not named", "fedlearn/runs/checkpoint.py", "            manifest = self._stored.manifest.with_memories(memories)\n", "            manifest = self._stored.manifest\n"),
    Mutant("too large let in", "server/gate/gate.py", "            self._check_size(reply.content)\n", ""),
    Mutant("too large not counted", "server/gate/gate.py",
           "            bytes_up = _bytes_of(reply.content)\n            self._check_size(reply.content)\n",
           "            self._check_size(reply.content)\n            bytes_up = _bytes_of(reply.content)\n"),
    Mutant("any kind of number", "fedlearn/compression/codec.py", "if array.dtype != expected", "if False"),
    Mutant("nearly all of the weight", "server/gate/limits.py", "if self.cohort >= FEWEST_SHARING and (share", "if False and (share"),
    Mutant("weight of what was not sent", "strategies/masked_mean.py", "np.add.at(weights, where, float(weight))", "weights += weight"),
    Mutant("step of what was not sent", "strategies/fedavg.py", "np.where(sent, array + step, array).astype", "(array + step).astype"),
    Mutant("old state removed first", "fedlearn/runs/checkpoint.py",
           ").with_memories(memories)\n", ").with_memories(memories)\n        clear(self.folder, manifest.files)\n"),
    Mutant("any measure averaged", "server/phases/evaluation_answers.py", "sound.items() if (why := _why_not(", "sound.items() if False and (why := _why_not("),
    Mutant("other things measured", "server/phases/evaluation_answers.py", "names != alike[0][0]", "False"),
    Mutant("late measure counts", "server/phases/evaluation_answers.py", "    until = run.clock.now() + deadline\n", "    until = run.clock.now() + 2 * deadline\n"),
    Mutant("second measure counts", "server/phases/evaluation_answers.py", "in pending.arrivals() if not again}", "in pending.arrivals()}"),
    Mutant("silent ones measure", "server/phases/evaluation.py", "if message.metadata.dst_node_id in answered]", "if True]"),
    Mutant("states to measure not counted", "server/phases/evaluation_answers.py", 'range(len(messages)), book="down")', 'range(len(messages)), book="protocol")'),
)  # fmt: skip


def found(mutant: Mutant, *, schedules: int, story: bool = False) -> str:
    """Return the first seed that finds a mistake and what it says; empty where none of so many does."""
    return printed_with(mutant, FIND.format(most=schedules, story=story), copied=COPIED)


def printed_with(mutant: Mutant, code: str, *, copied: Sequence[str]) -> str:
    """Return what code prints that imports copies of the folders named, in which the mistake stands."""
    with tempfile.TemporaryDirectory() as folder:
        for name in copied:
            shutil.copytree(ROOT / name, Path(folder, name), ignore=shutil.ignore_patterns("__pycache__"))
        path = Path(folder, mutant.file)
        text = path.read_text()
        if text.count(mutant.text) != 1:
            raise ValueError(f"{mutant.name}: {mutant.file} does not hold once: {mutant.text}")
        path.write_text(text.replace(mutant.text, mutant.mistake))
        places = [folder, str(ROOT)]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        ended = subprocess.run(
            [sys.executable, "-P", "-c", f"import sys; sys.path[:0] = {places!r}{code}"],
            capture_output=True, text=True, cwd=folder, env=environment,
        )  # fmt: skip
        if ended.returncode:
            raise RuntimeError(ended.stderr)
        return ended.stdout.strip()


def main(
    only: Annotated[list[str] | None, typer.Option(help="A part of the names of those wanted.")] = None,
    schedules: Annotated[int, typer.Option(min=1, help="Within how many each must be found.")] = 10_000,
    story: Annotated[bool, typer.Option("--story", help="Print the story of the smallest schedule, too.")] = False,
) -> None:
    """Plant mistakes, one at a time, and look how soon each is found."""
    missed = 0
    for mutant in MUTANTS:
        if only and not any(part in mutant.name for part in only):
            continue
        said = found(mutant, schedules=schedules, story=story)
        missed += not said
        print(f"{mutant.name:30} {said or 'NOT FOUND'}", flush=True)
    raise typer.Exit(1 if missed else 0)


if __name__ == "__main__":
    typer.run(main)
