from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from fedlearn.config import RunConfig, to_flower
from server.schedules import SCHEDULES
from tests.faults.__main__ import tell
from tests.faults.checking import broken_by, found_in, shrunk
from tests.faults.mutants import MUTANTS, ROOT, found
from tests.faults.network import _MAKERS
from tests.faults.schedules import BEYOND, HARMLESS, LIES, STORY, Kill, drawn
from tests.faults.world import flat_of, run, settings_of
from tests.marked import thinned

SCHEDULES_RUN, PIECE = 10_000, 250  # in all, and a case; one case is not long


@pytest.mark.parametrize(
    "first", [pytest.param(n, marks=pytest.mark.long if n else []) for n in range(0, SCHEDULES_RUN, PIECE)]
)
def test_nothing_that_goes_wrong_breaks_what_must_hold(first):
    assert found_in(first, first + PIECE, most=3) == []


@pytest.mark.parametrize(
    "seed",
    [
        21556,  # a wait of one step of the clock, of which a tenth is nothing: the server looked for ever
        247822,  # a power failure after a kill and a resume: the checkpoint before it had come back, its state was gone
        597790,  # the server waited for what nodes measure, and took in later a report that came after its deadline
        99093,  # three of six went too far in an attempt that was judged anew: the invariant asked for more than can be
    ],
)
def test_what_a_long_run_has_found_is_mended(seed):
    assert broken_by(drawn(seed)) == []


def first_that(holds):
    """Return the first seed whose schedule is such a one."""
    return next(seed for seed in count() if holds(drawn(seed)))


def test_schedules_meet_every_fault_and_every_end():
    schedules = [drawn(seed) for seed in range(2000)]
    assert {schedule.clients for schedule in schedules} == {2, 3, 4, 5, 6}
    assert {*SCHEDULES} < {schedule.settings["rounds"]["schedule"] for schedule in schedules}
    assert {(s.is_asynchronous, s.network, s.timed) for s in schedules} == {
        (False, True, False), (False, False, False), (True, True, False), (True, False, True)
    }  # fmt: skip
    assert {(s.is_asynchronous, s.network) for s in schedules if s.is_measured} == {
        (False, True), (False, False), (True, True), (True, False)
    }  # fmt: skip
    assert {fault.what for schedule in schedules for fault in schedule.faults} == set(STORY)
    assert {kill.how for schedule in schedules for kill in schedule.kills} == {"kill", "power", "full"}
    assert set(_MAKERS) == set(LIES) | set(BEYOND) | set(HARMLESS)


def test_settings_that_are_not_checked_again_are_what_they_would_be():
    for schedule in map(drawn, range(40)):
        tables = {"clients": schedule.clients, "evaluation": {"where": "none"}, **schedule.settings}
        assert settings_of(schedule) == RunConfig.model_validate(tables)
        assert flat_of(schedule) == to_flower(RunConfig.model_validate(tables))


@pytest.mark.parametrize("kind", ["network", "timed", "kills", "is_asynchronous"])
def test_the_same_seed_gives_the_same_story(kind):
    seed = first_that(lambda schedule: getattr(schedule, kind) and len(schedule.faults) > 3)
    first, second = (run(drawn(seed), with_story=True) for _ in range(2))
    assert len(first.story) > 10
    assert first.story == second.story
    assert first.reloaded.model_sha256 == second.reloaded.model_sha256


@pytest.mark.parametrize("timed", [False, True])
def test_a_power_failure_takes_away_what_was_not_synced(timed):
    seed = first_that(lambda schedule: schedule.timed == timed and len(schedule.faults) > 5)
    undisturbed = drawn(seed).without_kills()
    for operation in range(1, 40, 8):
        killed = replace(undisturbed, kills=(Kill(operation, "power", operation),))
        assert broken_by(killed) == []


@pytest.mark.long
def test_a_power_failure_after_a_kill_and_a_resume_finds_a_checkpoint_with_its_files():
    undisturbed = drawn(247822).without_kills()
    for operation in range(46, 58):  # while the second checkpoint is written
        for later in range(1, 8):  # while it is read and the first is cleared
            kills = (Kill(operation, "kill", 0), Kill(later, "power", 10 * operation + later))
            assert broken_by(replace(undisturbed, kills=kills)) == []


def test_every_mistake_can_still_be_planted():
    assert {m.name: (ROOT / m.file).read_text().count(m.text) for m in MUTANTS} == {m.name: 1 for m in MUTANTS}


@pytest.mark.slow
@pytest.mark.parametrize("name", thinned(["quorum one lower", "second report counted", "file not synced"], 3))
def test_a_planted_mistake_is_found(name):
    (mutant,) = (each for each in MUTANTS if each.name == name)
    assert found(mutant, schedules=1000)


def test_a_schedule_that_breaks_something_is_made_as_small_as_can_be_and_told(monkeypatch, capsys):
    def blames_nan(schedule):
        return ["it sends NaN"] if any(fault.what == "nan" for fault in schedule.faults) else []

    seed = first_that(lambda schedule: len(schedule.faults) > 10 and blames_nan(schedule))
    monkeypatch.setattr("tests.faults.checking.broken_by", blames_nan)
    monkeypatch.setattr("tests.faults.__main__.broken_by", blames_nan)
    assert [fault.what for fault in shrunk(drawn(seed)).faults] == ["nan"]
    assert tell(seed) == ["it sends NaN"]
    story = capsys.readouterr().out
    assert "round-started: round=1" in story and story.endswith("BROKEN: it sends NaN\n")
