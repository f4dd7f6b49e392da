"""Invariants of asynchronous runs, beside those of every run. Each function yields what was broken.

There a report may be of an earlier round than the one that it is counted in, and a node may work on while attempts are
abandoned and states committed. So nothing goes by the attempt here: a report is known by that of its instruction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from fedlearn.core.cohort import needed_of
from server.schedules.asynchronous.staleness import Staleness
from tests.faults.network import Asked
from tests.faults.recomputed import differences_of, next_state
from tests.faults.schedules import BEYOND, DEADLINE, WINDOW
from tests.faults.world import ENDINGS, Ended, Seen

Key = tuple[int, int, int]  # round and attempt of the instruction, partition
MIXING = 0.6


def a_state_is_that_of_what_counts(ended: Ended) -> Iterator[str]:
    """A committed state is a function of the state before and of the reports that count, each by its staleness."""
    beyond = {(f.round_number, f.attempt, f.partition) for f in ended.schedule.faults if f.what in BEYOND}
    for seen in ended.attempts:
        for event in seen.of("committed"):
            counted = seen.of("reported")
            if beyond.isdisjoint(map(_key, counted)):
                rows = [_row(ended, seen, each, event["round"]) for each in counted]
                expected = next_state(ended, seen, rows)
                yield from differences_of(event["round"], seen.state_after, expected)


def _row(ended: Ended, seen: Seen, event: dict[str, Any], round_number: int) -> tuple[dict[str, Any], int]:
    """Return the change that a report stands for, and its examples."""
    options, trained = ended.schedule.options, ended.network.trained[_key(event)]
    staleness = Staleness(options["staleness"], grace=options["grace"])(round_number - event["round"])
    if ended.schedule.settings["rounds"]["schedule"] == "buffered":
        change = {name: staleness * array.astype(np.float64) for name, array in trained.change.items()}
    else:
        before = seen.state_before
        change = {name: MIXING * staleness * (array.astype(np.float64) - before[name])
                  for name, array in trained.made.items()}  # fmt: skip
    return change, trained.examples


def no_report_counts_twice(ended: Ended) -> Iterator[str]:
    """A report is in one committed state at most, and in none after it was refused or given up."""
    ends: Counter[Key] = Counter()
    for seen in ended.attempts:
        if seen.of("committed") or not ended.schedule.kills:  # what a kill has ended comes again
            ends.update(_key(event) for event in _endings(seen))
    yield from (f"{key}: {times} endings of one report" for key, times in ends.items() if times > 1)


def none_counts_that_is_too_stale(ended: Ended) -> Iterator[str]:
    """A report that counts is no staler than the largest staleness; the log says how stale it is."""
    most = ended.schedule.options["largest_staleness"]
    for seen in ended.attempts:
        number = seen.events[0]["round"]
        for event in seen.of("reported"):
            staleness = number - event["round"]
            if event["staleness"] != staleness:
                yield f"{_key(event)} is taken in in round {number}, and said to be {event['staleness']} rounds old"
            if 0 < most < staleness:
                yield f"{_key(event)} counts in round {number}, {most} rounds later at most it may"


def no_more_are_at_work_than_are_wanted(ended: Ended) -> Iterator[str]:
    """At any time at most the declared number is in flight, and as many as were sent the state and have not ended.

    A buffer that is not full is committed where nobody is in flight any more.
    """
    wanted, size = ended.schedule.options["in_flight"], _buffer_size(ended)
    session, at_work = -1, 0
    for seen in ended.attempts:
        for event in seen.events:
            if event["event"] == "collecting":
                if seen.session == session and event["in_flight"] != at_work:
                    yield f"{event['in_flight']} are in flight, {at_work} were sent the state and have not ended"
                session, at_work = seen.session, event["in_flight"]
            elif event["event"] == "configured":
                at_work += event["cohort"]
            elif event["event"] in ENDINGS and not _is_second(event):
                at_work -= 1
            elif event["event"] == "committed" and event["reported"] < size and at_work:
                yield f"round {event['round']} is committed with {event['reported']} of {size}, {at_work} are at work"
            if seen.session == session and at_work > wanted:
                yield f"{at_work} are in flight, {wanted} are wanted"
                return


def every_report_ends_as_it_must(ended: Ended) -> Iterator[str]:
    """Each node that was sent the state gets exactly one ending, that which its first answer and its time make."""
    if ended.schedule.kills:
        return
    ends: dict[Key, list[tuple[Seen, dict[str, Any]]]] = {}
    for seen in ended.attempts:
        for event in _endings(seen):
            ends.setdefault(_key(event), []).append((seen, event))
    for asked in ended.network.asked:
        mine = ends.get((*asked.at, asked.partition), [])
        if len(mine) != 1:
            yield f"{asked.at}, partition {asked.partition}: {len(mine)} endings of its report"
            continue
        (seen, event), allowed = mine[0], _allowed(ended, asked)
        if (why := _given_up(ended, seen, event)) is None and event["event"] not in allowed:
            yield f"{asked.at}, partition {asked.partition}: {event['event']}, not {' or '.join(sorted(allowed))}"
        elif why:
            yield f"{asked.at}, partition {asked.partition}: {why}"


def _allowed(ended: Ended, asked: Asked) -> set[str]:
    """Return the possible outcomes of a report; the server does not look while it pauses, or while nodes measure.

    Where the clock jumps while states are sent out, some nodes get theirs when their time is over.
    """
    first = min(asked.arrivals, key=lambda arrival: arrival.due, default=None)
    if first is None:
        return {"late"}
    fate = {"reported", "refused"} if first.goes_beyond and first.fate == "reported" else {first.fate}
    jumps = [f for f in ended.schedule.faults if f.what == "jump"]
    if first.due <= asked.sent + DEADLINE:
        return {"late", *fate} if any((f.round_number, f.attempt) == asked.at for f in jumps) else fate
    pauses = any(seen.of("backing-off", "evaluating") for seen in ended.attempts)
    return {"late", *fate} if jumps or pauses else {"late"}


def _given_up(ended: Ended, seen: Seen, event: dict[str, Any]) -> str | None:
    """Return why a report should not have been given up; empty if it should, None if it was not."""
    reason = str(event.get("reason", ""))
    if event["event"] in ("late", "refused") and reason.startswith("stale"):
        age, most = seen.events[0]["round"] - event["round"], ended.schedule.options["largest_staleness"]
        return "" if 0 < most < age else f"it is called stale after {age} rounds, allowed are {most}"
    if reason == "the run is over":
        return "" if seen is ended.attempts[-1] else "the run is not over"
    return None


def everybody_with_story(ended: Ended) -> Iterator[str]:
    """Late, refused and abandoned nodes are notified, the latter unless they are at work again; other nodes are not."""
    if ended.schedule.kills:
        return
    told = Counter(ended.network.told)
    ended_in = {_key(event): place for place, seen in enumerate(ended.attempts) for event in _endings(seen)}
    for place, seen in enumerate(ended.attempts):
        sent = [(*asked.at, asked.partition) for asked in ended.network.asked[: seen.asked]]
        at_work = {key[2] for key in sent if ended_in.get(key, place) > place}
        for event in _endings(seen):
            if event["partition"] in ended.schedule.moving or event.get("reason") == "the client is not connected":
                continue
            words = {word: n for word in ("late", "refused", "abandoned") if (n := told[*_key(event), word])}
            expected: list[dict[str, int]] = {
                "reported": [{}] if seen.of("committed") or event["partition"] in at_work else [{"abandoned": 1}],
                "refused": [{"refused": 1}], "late": [{"late": 1}, {"late": 2}], "failed": [{}],
            }[event["event"]]  # fmt: skip
            if words not in expected:
                yield f"{_key(event)}: {event['event']}, told {words}, expected {expected}"


def a_quorum_of_the_buffer_is_committed(ended: Ended) -> Iterator[str]:
    """A commit has a quorum of the buffer and no more than the buffer; with a quorum no attempt is abandoned."""
    size = _buffer_size(ended)
    needed = needed_of(ended.schedule.settings["rounds"]["quorum"], size)
    for seen in ended.attempts:
        reported = len(seen.of("reported"))
        if seen.of("committed") and not needed <= reported <= size:
            yield f"committed with {reported} reports of {size}, {needed} are needed"
        for event in seen.of("abandoned"):
            if reported >= needed and "judged by what was typical" not in event["reason"]:
                yield f"abandoned with {reported} reports of {size}, {needed} are needed: {event['reason']}"


def it_waits_for_nobody_for_ever(ended: Ended) -> Iterator[str]:
    """An attempt takes no longer than all nodes one after the other, each up to its deadline."""
    sessions = 1 + len(ended.schedule.kills)
    jumps = sessions * sum(fault.amount for fault in ended.schedule.faults if fault.what == "jump")
    an_attempt = (ended.schedule.clients + 1) * DEADLINE + WINDOW + 60.0
    longest = sessions * WINDOW + len(ended.attempts) * an_attempt
    rounds = ended.schedule.settings["rounds"]
    if len(ended.attempts) > (rounds["max_attempts"] + 1) * rounds["total"] * sessions:
        yield f"{len(ended.attempts)} attempts"
    if ended.seconds > longest + jumps:
        yield f"it took {ended.seconds:.0f} s, {longest + jumps:.0f} s at most can be"


def _buffer_size(ended: Ended) -> int:
    return int(ended.schedule.options.get("buffer_size", 1))


def _key(event: dict[str, Any]) -> Key:
    return event["round"], event["attempt"], event["partition"]


def _is_second(event: dict[str, Any]) -> bool:
    return str(event.get("reason", "")).startswith("duplicate")


def _endings(seen: Seen) -> list[dict[str, Any]]:
    return [event for event in seen.of(*ENDINGS) if not _is_second(event)]


CHECKS = (
    a_state_is_that_of_what_counts, no_report_counts_twice, none_counts_that_is_too_stale,
    no_more_are_at_work_than_are_wanted, every_report_ends_as_it_must, everybody_with_story,
    a_quorum_of_the_buffer_is_committed, it_waits_for_nobody_for_ever,
)  # fmt: skip
