"""What must hold of every run, whatever goes wrong. Each function yields the lines that say what did not.

Of rounds that wait for nobody, `asynchronous.py` says what must hold in place of `SYNCHRONOUS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from fedlearn.core.cohort import needed_of
from fedlearn.core.state import State
from fedlearn.runs.checkpoint import RunStore
from tests.faults import asynchronous
from tests.faults.network import Asked, means_of
from tests.faults.recomputed import differences_of, next_state
from tests.faults.schedules import BEYOND, DEADLINE, GUEST, RAISING, SILENT, UNREADY, WINDOW, Phase
from tests.faults.world import ENDINGS, Ended, Seen

FEWEST = {"far": 3, "weighty": 5}  # sound reports without which nobody can say that one goes too far
MOST_FILES = {"events.jsonl", "checkpoint.json", "metrics.csv", "model.safetensors", "best.safetensors", "nodes.csv"}


def broken(ended: Ended) -> list[str]:
    """Return the invariants that a run breaks; empty if all hold."""
    others = asynchronous.CHECKS if ended.schedule.is_asynchronous else SYNCHRONOUS
    return [line for check in (*ALWAYS, *others) for line in check(ended)]


def one_commit_a_round(ended: Ended) -> Iterator[str]:
    """Rounds are committed one after the other, each once; what is stored says the same."""
    committed = [event["round"] for seen in ended.attempts for event in seen.of("committed")]
    stored = [each.round_number for each in ended.store.history.rounds]
    expected = list(range(1, len(stored) + 1))
    if stored != expected:
        yield f"stored are rounds {stored}"
    # A commit whose event a kill has kept from the log is stored all the same; one that was lost with it comes again.
    if not ended.schedule.kills and committed != expected:
        yield f"committed are rounds {committed}, stored {stored}"
    if not ended.failed and len(stored) != ended.schedule.settings["rounds"]["total"]:
        yield f"the run is complete with rounds {stored}"


def the_state_is_that_of_the_reports(ended: Ended) -> Iterator[str]:
    """A committed state is a function of the state before and the committed reports alone."""
    for seen in ended.attempts:
        for event in seen.of("committed"):
            counted = {(e["attempt"], e["partition"]) for e in seen.of("reported")}
            beyond = {(f.attempt, f.partition) for f in ended.schedule.faults
                      if f.what in BEYOND and f.round_number == event["round"]}  # fmt: skip
            if not beyond.isdisjoint(counted):
                continue  # let in where there is nothing to compare it with
            trained = [ended.network.trained[event["round"], attempt, partition] for attempt, partition in counted]
            expected = next_state(ended, seen, [(each.change, each.examples) for each in trained])
            yield from differences_of(event["round"], seen.state_after, expected)


def what_counts_came_in_time(ended: Ended) -> Iterator[str]:
    """Counted is every report that is sound and the first of its node to come in time, and no other."""
    for seen in ended.attempts:
        if not seen.is_whole:
            continue
        for asked in _asked(ended, seen):
            fates, allowed = _fates(seen, asked.at.attempt, asked.partition), _allowed(ended, asked)
            if len(fates) != 1:
                yield f"{asked.at}, partition {asked.partition}: {len(fates)} endings of its report"
            elif fates[0] not in allowed:
                yield f"{asked.at}, partition {asked.partition}: {fates[0]}, not {' or '.join(sorted(allowed))}"


def _fates(seen: Seen, attempt: int, partition: int) -> list[str]:
    """Return how the reports of a node have ended: one, but for those that came after its first."""
    mine = [e for e in seen.of(*ENDINGS) if (e["attempt"], e["partition"]) == (attempt, partition)]
    return [str(e["event"]) for e in mine if not str(e.get("reason", "")).startswith("duplicate")]


def _allowed(ended: Ended, asked: Asked) -> set[str]:
    """Return how a report may end: a clock that jumps while it is asked for lets the server look later."""
    ends = looked = asked.sent + DEADLINE
    if any(f.what == "jump" and f.phase is Phase.TRAIN and (f.round_number, f.attempt) == asked.at
           for f in ended.schedule.faults):  # fmt: skip
        looked = ended.looks[asked.at]
    first = min(asked.arrivals, key=lambda arrival: arrival.due, default=None)
    if first is None or first.due > max(ends, looked):
        return {"late"}
    fate = {"reported", "refused"} if first.goes_beyond and first.fate == "reported" else {first.fate}
    if any(fault.what == "thief" for fault in ended.schedule.faults):
        fate = {*fate, "refused"}  # what the first says that it holds, it holds, where nobody knows better
    return fate if first.due <= ends else fate | {"late"}


def what_goes_too_far_does_not_count(ended: Ended) -> Iterator[str]:
    """A change a thousand times as long as the others', or one of nearly all the weight, is in no committed state.

    That is where there are enough to tell.
    Enough in its own cohort: the gate compares nobody in one of fewer, be it joined with another afterwards. Once half
    of what was measured in an attempt has gone as far, nobody can say any more which of the two kinds is usual.
    """
    beyond = {(f.round_number, f.attempt, f.partition): f.what for f in ended.schedule.faults if f.what in BEYOND}
    for seen in ended.attempts:
        measured = [_where(e) for e in seen.of("reported", "refused") if _is_measured(e)]
        if measured and 2 * sum(key in beyond for key in measured) >= len(measured):
            return
        for event in seen.of("committed"):
            counted = [_where(e) for e in seen.of("reported")]
            liars = [key for key in counted if key in beyond]
            cohorts = {(e["round"], e["attempt"]): e["cohort"] for e in seen.of("selected")}
            if len(liars) == 1 and min(cohorts[liars[0][:2]], len(counted) - 1) >= FEWEST[beyond[liars[0]]]:
                yield f"round {event['round']}: what goes too far of partition {liars[0][2]} counts"


def _where(event: dict[str, Any]) -> tuple[int, int, int]:
    return event["round"], event["attempt"], event["partition"]


def _is_measured(event: dict[str, Any]) -> bool:
    """Return whether a report was sound in itself, so that it was compared with the others."""
    return event["event"] == "reported" or event["reason"].startswith(("norm-too-large", "share-too-large"))


def nobody_is_ready_who_has_not_said_so(ended: Ended) -> Iterator[str]:
    """A node is ready if its first answer says so and names its own partition; each node counts once."""
    said_no = {*SILENT, *UNREADY, *RAISING, "forged"}
    faults = {(*f[1:5], f.what) for f in ended.schedule.faults if f.what in said_no}
    not_ready = {key[1:4] for key in faults if key[0] is Phase.READY}
    for seen in ended.attempts:
        heard = Counter((e["round"], e["attempt"], e["partition"]) for e in seen.of("ready", "not-ready"))
        yield from (f"{key}: heard {times} times whether it is ready" for key, times in heard.items() if times > 1)
        for event in seen.of("ready"):
            if (key := (event["round"], event["attempt"], event["partition"])) in not_ready:
                yield f"round {key[0]}, attempt {key[1]}, partition {key[2]}: ready, and has not said so"


def a_cohort_is_drawn_where_enough_are_ready(ended: Ended) -> Iterator[str]:
    """A selection is cancelled if fewer are ready than must be, and only then."""
    rounds = ended.schedule.settings["rounds"]
    needed = needed_of(rounds["minimum_ready"], rounds["cohort"])
    for seen in ended.attempts:
        for event in seen.of("selected", "too-few-ready"):
            if (event["ready"] >= needed) != (event["event"] == "selected"):
                yield f"{event['event']} with {event['ready']} ready, {needed} are needed"


def below_quorum_nothing_changes(ended: Ended) -> Iterator[str]:
    """An attempt that is not committed leaves state and strategy as they were; below its quorum none is committed."""
    quorum = ended.schedule.settings["rounds"]["quorum"]
    for seen in ended.attempts:
        cohort = sum(event["cohort"] for event in seen.of("selected"))
        reported = len(seen.of("reported"))
        if seen.of("committed"):
            if reported < needed_of(quorum, cohort):
                yield f"committed with {reported} of {cohort} reports, quorum {quorum}"
            continue
        if not seen.is_whole:
            continue  # the server was killed, perhaps when all was stored
        if _bytes(seen.state_after) != _bytes(seen.state_before):
            yield f"{seen.events[0]}: not committed, and the state has changed"
        if _bytes(seen.memory_after) != _bytes(seen.memory_before):
            yield f"{seen.events[0]}: not committed, and what the strategy carries has changed"


def _bytes(arrays: State) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arrays.items()}


def quorum_is_enough(ended: Ended) -> Iterator[str]:
    """An attempt whose quorum reports is committed, unless its reports must be judged anew."""
    quorum = ended.schedule.settings["rounds"]["quorum"]
    for seen in ended.attempts:
        for event in seen.of("abandoned"):
            cohort = sum(each["cohort"] for each in seen.of("selected"))
            reported = len(seen.of("reported"))
            is_enough = reported >= needed_of(quorum, cohort) and not seen.of("too-few-ready")
            if is_enough and "judged by what was typical" not in event["reason"]:
                yield f"abandoned with {reported} of {cohort} reports, quorum {quorum}: {event['reason']}"


def every_node_gets_one_ending(ended: Ended) -> Iterator[str]:
    """A ready node is rejected, cancelled or instructed; an instructed node is notified of its outcome once."""
    told = Counter(ended.network.told)
    instructed = {(*asked.at, asked.partition) for asked in ended.network.asked}
    if ended.schedule.kills or ended.schedule.settings["rounds"]["schedule"] == GUEST:
        return  # a resumed server tells it anew; the guest says "abandoned" of an attempt that it counts otherwise
    for seen in ended.attempts:
        if not seen.is_whole:
            continue
        for event in seen.of("ready"):
            key = (event["round"], event["attempt"], event["partition"])
            words = {word: told[*key, word] for word in ("rejected", "cancelled", "late", "refused", "abandoned")}
            yield from _ending(ended, seen, key, {w: n for w, n in words.items() if n}, is_asked=key in instructed)


def _ending(
    ended: Ended, seen: Seen, key: tuple[int, int, int], words: dict[str, int], *, is_asked: bool
) -> Iterator[str]:
    if key[2] in ended.schedule.moving:
        return  # what it is told goes to an id that may be gone
    mine = _fates(seen, *key[1:])
    expected: list[dict[str, int]] = [{"rejected": 1}, {"cancelled": 1}]
    if is_asked or mine:
        expected = {
            "reported": [{}] if seen.of("committed") else [{"abandoned": 1}],
            "refused": [{"refused": 1}], "late": [{"late": 1}, {"late": 2}], "failed": [{}],
        }[mine[0] if mine else "failed"]  # fmt: skip
    if words not in expected:
        yield f"round {key[0]}, attempt {key[1]}, partition {key[2]}: {mine}, told {words}, expected {expected}"


def bytes_booked_are_bytes_sent(ended: Ended) -> Iterator[str]:
    """The server counts what has gone over the network, in both directions."""
    sent = (ended.network.down, ended.network.up, ended.network.protocol)
    if ended.booked is not None and ended.booked != sent:
        yield f"booked are {ended.booked} bytes (down, up, protocol), sent {sent}"


def what_is_measured_is_the_mean(ended: Ended) -> Iterator[str]:
    """Asked to measure a state is who has sent a report; what counts is what comes first, in time, and is sound.

    What has measured other things than most is not sound either: of as many as the others nobody can tell which.
    """
    if ended.schedule.kills or not ended.schedule.is_measured:
        return
    for seen in ended.attempts:
        for event in seen.of("committed"):
            sound, others = [], 0
            mine = [each for each in ended.network.measured if each.at.round_number == event["round"]]
            for asked in mine:
                first = min(asked.arrivals, key=lambda arrival: arrival.due, default=None)
                if first is not None and first.due <= asked.sent + DEADLINE:
                    sound += [means_of(asked.partition, event["round"])] if first.fate == "reported" else []
                    others += not first.fate
            if len(sound) > others or not others:
                yield from _mean_differs(event, sound)
            came = {e["partition"] for e in seen.of("reported", "refused")}
            if not came >= {asked.partition for asked in mine}:
                yield f"round {event['round']}: asked to measure is who has sent no report"


def _mean_differs(event: dict[str, Any], sound: list[tuple[int, dict[str, float]]]) -> Iterator[str]:
    examples = sum(each for each, _ in sound)
    for name in ("loss", "accuracy"):
        expected = sum(each * means[name] for each, means in sound) / examples if sound else None
        found = event[name]
        if (found is None) != (expected is None) or (found is not None and abs(found - expected) > 1e-9):
            yield f"round {event['round']}: {name} is {found}, not {expected}"


def what_is_stored_can_be_read(ended: Ended) -> Iterator[str]:
    """A folder holds the last committed state, and no file that a kill has left."""
    if _bytes(ended.reloaded.state) != _bytes(ended.store.state):
        yield "the stored state is not the last one"
    strange = [name for name in ended.left if name not in MOST_FILES and not name.startswith("checkpoint/")]
    if strange or any(".tmp" in name for name in ended.left):
        yield f"left behind: {ended.left}"


def what_a_commit_says_of_the_log_is_there(ended: Ended) -> Iterator[str]:
    """After a kill or a power failure log and table of nodes begin with what the last commit has named."""
    for name in ended.unsound:
        yield f"{name} is not what was written up to the last commit"


def it_ends_in_time(ended: Ended) -> Iterator[str]:
    """A run takes no longer than its windows, deadlines and pauses."""
    rounds = ended.schedule.settings["rounds"]
    sessions = 1 + len(ended.schedule.kills)
    longest = sessions * WINDOW + len(ended.attempts) * (2 * (WINDOW + DEADLINE) + 60.0)  # roll calls, then attempts
    jumps = sessions * sum(fault.amount for fault in ended.schedule.faults if fault.what == "jump")
    most = (rounds["max_attempts"] + 1) * rounds["total"] * sessions
    if len(ended.attempts) > most:
        yield f"{len(ended.attempts)} attempts, at most {most} can be"
    if ended.seconds > longest + jumps:
        yield f"it took {ended.seconds:.0f} s, {longest + jumps:.0f} s at most can be"


def _asked(ended: Ended, seen: Seen) -> list[Asked]:
    """Return the instructions of an attempt; of one that a kill made come twice, the last."""
    ats = {(event["round"], event["attempt"]) for event in seen.of("configured")}
    last = {(*asked.at, asked.partition): asked for asked in ended.network.asked if asked.at in ats}
    return list(last.values()) if not ended.schedule.kills else []


def what_was_published_is_paid(ended: Ended) -> Iterator[str]:
    """After any kill the ledgers in the checkpoint hold all that the log says has come, of abandoned attempts, too."""
    yield from (f"not paid for: {line}" for line in ended.unpaid)


ALWAYS = (
    one_commit_a_round, below_quorum_nothing_changes, bytes_booked_are_bytes_sent, what_is_stored_can_be_read,
    what_a_commit_says_of_the_log_is_there, what_was_published_is_paid, what_is_measured_is_the_mean,
)  # fmt: skip
SYNCHRONOUS = (
    the_state_is_that_of_the_reports, what_counts_came_in_time, what_goes_too_far_does_not_count,
    nobody_is_ready_who_has_not_said_so, a_cohort_is_drawn_where_enough_are_ready, quorum_is_enough,
    every_node_gets_one_ending, it_ends_in_time,
)  # fmt: skip


def differences(ended: Ended, undisturbed: Ended) -> list[str]:
    """Return in what a run whose server was killed differs from the one whose server was not."""
    is_believed = ended.schedule.network and any(fault.what == "thief" for fault in ended.schedule.faults)
    if is_believed or ended.schedule.moving:
        return []  # a server that is begun anew believes another's word first, and meets other ids
    if ended.schedule.is_asynchronous and ended.schedule.network:
        return []  # states are sent once more there, and what is made of them comes later
    found, expected = ended.reloaded, undisturbed.reloaded
    if found.model_sha256 != expected.model_sha256:
        return [f"resumed it has {found.model_sha256[:8]} after round {len(found.history.rounds)}, undisturbed "
                f"{expected.model_sha256[:8]} after round {len(expected.history.rounds)}"]  # fmt: skip
    if (measured := _measured(found)) != (others_measured := _measured(expected)):
        return [f"resumed it has measured {measured}, undisturbed {others_measured}"]
    mine, others = _bytes(found.memory), _bytes(expected.memory)
    names = sorted(name for name in mine.keys() | others.keys() if mine.get(name) != others.get(name))
    return [f"resumed it carries another {name}" for name in names]


def _measured(store: RunStore) -> list[tuple[object, object]]:
    return [(each.measured.get("loss"), each.measured.get("accuracy")) for each in store.history.rounds]
