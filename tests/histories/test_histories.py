"""A SuperNode's answer is the answer to the message that it pulled, whatever ends, expires, fails or is killed."""

from __future__ import annotations

import logging
import time

import pytest

from fedlearn.flower import one_at_a_time
from fedlearn.flower.one_at_a_time import OneAtATime
from tests.histories.superlink import SuperLink
from tests.histories.supernode import STEPS
from tests.histories.world import CALLS, WELL, World, go_through

SHORT = 3.0  # seconds after which a fresh run finds that answers are missing, where they must be


@pytest.fixture(scope="module")
def link(tmp_path_factory):
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    yield SuperLink(tmp_path_factory.mktemp("superlink"))
    logging.getLogger("flwr").setLevel(logging.INFO)


@pytest.fixture
def world(link):
    """Return a function that makes a world."""
    worlds = []

    def make(**how):
        worlds.append(World(link, **how))
        return worlds[-1]

    yield make
    for each in worlds:
        each.end()


def one_run(world, event=None, *, is_large=False):
    """Let a run of three questions happen; then the run has ended, and killed nodes live again."""
    world.begin(event)
    for _ in range(3):
        world.answers(world.ask(ttl=60.0, is_large=is_large), seconds=0.3)
    world.link.end(world.grid)
    world.event = None
    world.restart()


def steps(*often):
    """Return all steps of a message at a node; those that are not tried often are long tests."""
    return [step if step in often else pytest.param(step, marks=pytest.mark.long) for step in (*CALLS, *STEPS)]


@pytest.mark.parametrize("step", steps("read"))
def test_a_run_that_ends_at_any_step_leaves_nothing_to_the_next(world, step):
    it = world()
    for after in (0, 1):
        one_run(it, ("end", 0, step, after), is_large=step in ("PullObject", "PushObject"))
    assert it.wrong() == []


@pytest.mark.parametrize("step", steps())
def test_a_supernode_that_is_killed_at_any_step_answers_in_its_next_life(world, step):
    it = world()
    one_run(it, ("kill", 0, step, 0), is_large=step in ("PullObject", "PushObject"))
    assert it.wrong() == []


def dying(dies_after, *, is_said=False, seconds=0.0):
    """Return how tasks go of which each first one of a node dies."""
    fates = [(dies_after, is_said, seconds)] * 2
    return lambda: fates.pop() if fates else WELL


@pytest.mark.parametrize(
    ("step", "is_said"),
    [("answering", True)]
    + [pytest.param(step, is_said, marks=pytest.mark.long) for step in STEPS for is_said in (True, False)],
)
def test_a_process_that_dies_at_any_step_costs_its_own_answer_alone(world, step, is_said):
    it = world(fate=dying(step, is_said=is_said))
    one_run(it, is_large=step == "answering")
    assert it.wrong() == []


def test_messages_that_expire_before_they_are_begun_are_passed_over(world):
    it = world()
    it.begin()
    for _, executor in it.lives:
        executor.is_away = True
    it.ask(ttl=60.0)
    it.lives[0][1].is_away = it.lives[1][1].is_away = False
    time.sleep(0.3)
    for _, executor in it.lives:
        executor.is_away = True
    for _ in range(3):
        it.ask(ttl=0.2)
        time.sleep(0.3)
    assert it.wrong() == []
    assert sum(len(executor.begun) for _, executor in it.lives) == 2 + 8  # of the first question, and of the fresh run


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 201))])
def test_after_any_history_a_fresh_run_gets_every_answer_at_once(world, seed):
    it = world()
    go_through(it, seed)
    assert it.wrong() == []


# --- each guarantee, taken away ---------------------------------------------------------------------------------------


@pytest.mark.long
def test_flowers_own_loop_answers_one_message_too_late_after_a_run_that_has_ended(world):
    it = world(mended=False, patience=SHORT)
    one_run(it, ("end", 0, "ConfirmMessageReceived", 0))
    assert it.wrong(seconds=0.5) != []


def any_answer(steps, asked, state, store):
    """Take any answer, in place of `OneAtATime._answer`."""
    while True:
        for message in state.get_messages_legacy(is_reply=True):
            return message
        steps._sleep(one_at_a_time.LOOK)


def never_an_error(steps, asked, state, store):
    while True:
        steps._sleep(one_at_a_time.LOOK)


class TaskFirst(one_at_a_time._TaskLast):
    def create_task(self, **about):
        self.task = self._state.create_task(**about)
        return self.task

    def create_it(self):
        return self.task


SLIPS = {
    "any answer is taken": (OneAtATime, "_answer", any_answer, dying("answered", is_said=True), None),
    "half an answer is sent": (one_at_a_time, "_is_whole", lambda *_: True, dying("answering"), None),
    "nobody answers for a task that had no answer": (OneAtATime, "_error", never_an_error, dying("begun"), None),
    "a message that was given up stays": (one_at_a_time, "_forget", lambda *_: None, dying(None),
                                          ("end", 0, "ConfirmMessageReceived", 0)),
    "the task is there before the message": (one_at_a_time, "_TaskLast", TaskFirst, dying(None),
                                             ("end", 0, "ConfirmMessageReceived", 0)),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("slip", SLIPS)
def test_a_guarantee_that_is_taken_away_is_missed(world, monkeypatch, slip):
    place, name, replaced, fate, event = SLIPS[slip]
    monkeypatch.setattr(place, name, replaced)
    it = world(fate=fate, patience=SHORT)
    one_run(it, event, is_large="half" in slip)
    left = [node.left for node, _ in it.lives]
    assert it.wrong(seconds=0.5) != [] or any(left)


def test_a_task_begins_with_the_memory_that_the_task_before_has_left(world, monkeypatch):
    def slow_to_end(it, seconds):
        for _, executor in it.lives:
            executor.before = lambda name: time.sleep(seconds if name == "ended" else 0.0)
        return it

    assert slow_to_end(world(), 0.3).wrong() == []
    monkeypatch.setattr(OneAtATime, "_wait_for_the_end", lambda *_: None)
    assert slow_to_end(world(patience=SHORT), 1.5).wrong() != []
