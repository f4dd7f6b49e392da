"""A seeded mutating fuzzer over whatever the server and the nodes hear and keep.

    python -m tests.adversary.fuzz                               # a few seconds
    python -m tests.adversary.fuzz --reports 1000000 --seed 7    # an hour or so
    python -m tests.adversary.fuzz --only "codec eden" --seed 7 --case 4711      # one attack again, with its traceback

Every attack is drawn from (seed, subject, case) alone. It is *found* to have got through if the code under attack
raises, accepts what is not finite, in range and in layout, or takes more than `LONGEST` seconds of the processor or
`MOST` bytes of memory. Exit code 1 if anything was found.
"""

from __future__ import annotations

import logging
import random
import time
import traceback
import tracemalloc
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated

import typer

from fedlearn import flower
from tests.adversary.subjects import Subject, Wrong, subjects

LONGEST = 2.0  # seconds of the processor for one attack; the slowest that was seen took a twentieth
MOST = 64 << 20  # bytes that one attack may allocate at the same time
SHOWN = 10  # findings


@dataclass
class Tally:
    """The results of the attacks on one subject.

    Parameters
    ----------
    found
        (case, what) of attacks that got through.
    """

    subject: Subject
    checked: int = 0
    accepted: int = 0
    exceptions: int = 0
    wrong: int = 0
    slowest: float = 0.0
    found: list[tuple[int, str]] = field(default_factory=list)

    def attack(self, seed: int, case: int) -> None:
        """Make one attack and note what came of it."""
        tracemalloc.reset_peak()
        before, begin = tracemalloc.get_traced_memory()[0], time.process_time()
        try:
            checked, accepted = self.subject.attack(_rng(seed, self.subject, case))
            self.checked, self.accepted = self.checked + checked, self.accepted + accepted
        except Wrong as wrong:
            self.checked, self.wrong = self.checked + 1, self.wrong + 1
            self.found.append((case, f"wrong: {wrong}"))
        except Exception as error:
            self.checked, self.exceptions = self.checked + 1, self.exceptions + 1
            self.found.append((case, f"exception: {error!r}"))
        seconds, grown = time.process_time() - begin, tracemalloc.get_traced_memory()[1] - before
        if seconds > LONGEST:
            seconds = min(seconds, self._again(seed, case))
        self.slowest = max(self.slowest, seconds)
        if seconds > LONGEST or grown > MOST:
            self.wrong += 1
            self.found.append((case, f"wrong: it took {seconds:.1f} s and {grown >> 20} MiB"))

    def _again(self, seed: int, case: int) -> float:
        """Return how long an attack takes a second time: the first may have waited for the machine."""
        begin = time.process_time()
        with suppress(Exception):
            self.subject.attack(_rng(seed, self.subject, case))
        return time.process_time() - begin


def _rng(seed: int, subject: Subject, case: int) -> random.Random:
    return random.Random(f"{seed}/{subject.name}/{case}")


def attacked(chosen: Sequence[Subject], *, reports: int, seed: int) -> list[Tally]:
    """Attack each subject with its share of the reports, the same case after case as with more of them."""
    return [_attacked(subject, reports=max(reports / len(chosen), 1), seed=seed) for subject in chosen]


def _attacked(subject: Subject, *, reports: float, seed: int) -> Tally:
    tally, case = Tally(subject), 0
    with suppress(Exception):
        subject.attack(random.Random(0))  # what is loaded, or compiled, at first use is nobody's attack
    tracemalloc.start()
    try:
        while tally.checked < reports:
            tally.attack(seed, case)
            case += 1
    finally:
        tracemalloc.stop()
    return tally


def _whole(tallies: Sequence[Tally]) -> Tally:
    whole = Tally(_All())
    for tally in tallies:
        whole.checked += tally.checked
        whole.accepted += tally.accepted
        whole.exceptions += tally.exceptions
        whole.wrong += tally.wrong
        whole.slowest = max(whole.slowest, tally.slowest)
    return whole


class _All:
    name = "all"

    def attack(self, rng: random.Random) -> tuple[int, int]:
        raise NotImplementedError


def _show(tally: Tally, seconds: float) -> None:
    counts = f"{tally.checked:>9} {tally.accepted:>9} {tally.exceptions:>10} {tally.wrong:>6}"
    print(f"{tally.subject.name:<52} {counts} {seconds:>8.1f} {1000 * tally.slowest:>8.1f}", flush=True)


def main(
    reports: Annotated[int, typer.Option(min=1, help="How many attacks, spread evenly over the subjects.")] = 3000,
    seed: Annotated[int, typer.Option(help="Of the attacks.")] = 1,
    only: Annotated[list[str] | None, typer.Option(help="Subjects with this in their name; can be repeated.")] = None,
    case: Annotated[int | None, typer.Option(help="Only this attack on each subject, with its traceback.")] = None,
) -> None:
    """Attack every part that reads messages of strangers; exit code 1 if anything was found."""
    chosen = [subject for subject in subjects() if only is None or any(word in subject.name for word in only)]
    if not chosen:
        raise SystemExit(f"no subject has any of {only} in its name")
    if case is not None:
        _again(chosen, seed, case)
        return
    heads = f"{'checked':>9} {'accepted':>9} {'exceptions':>10} {'wrong':>6} {'seconds':>8} {'worst ms':>8}"
    print(f"{'subject':<52} {heads}")
    tallies = []
    begin = time.monotonic()
    for subject in chosen:
        started = time.monotonic()
        tallies += attacked([subject], reports=reports // len(chosen) + 1, seed=seed)
        _show(tallies[-1], time.monotonic() - started)
    _show(_whole(tallies), time.monotonic() - begin)
    found = [(tally.subject, *each) for tally in tallies for each in tally.found]
    for subject, number, what in found[:SHOWN]:
        print(f"{what:.300}\n    python -m tests.adversary.fuzz --only {subject.name!r} --seed {seed} --case {number}")
    raise SystemExit(1 if found else 0)


def _again(chosen: Sequence[Subject], seed: int, case: int) -> None:
    for subject in chosen:
        with suppress(Exception):
            subject.attack(random.Random(0))
        try:
            print(subject.name, *subject.attack(_rng(seed, subject, case)))
        except Exception:
            traceback.print_exc()


if __name__ == "__main__":
    flower.enter_run()
    logging.disable()  # a node that fails says so with its traceback
    typer.run(main)
