from __future__ import annotations

import pytest

from tests.faults.mutants import ROOT
from tests.secure_faults.checking import found_in
from tests.secure_faults.knowing import Report, View
from tests.secure_faults.liar import lie
from tests.secure_faults.mutants import MUTANTS, OF_RUNS, found
from tests.secure_faults.rounds import found_in_runs
from tests.secure_faults.world import FATES, run

SCHEDULES_RUN, PIECE = 200, 50  # in all, and a case


@pytest.mark.parametrize(
    "first", [pytest.param(n, marks=pytest.mark.long if n else []) for n in range(0, SCHEDULES_RUN, PIECE)]
)
def test_nothing_that_goes_wrong_and_no_lie_breaks_what_must_hold(first):
    counts, broken = found_in(first, first + PIECE, most=3)
    assert broken == []
    assert counts["committed sums"] > PIECE // 2 and counts["refusals by nodes"] > PIECE


@pytest.mark.long
def test_whole_runs_sum_exactly_the_nodes_that_count_and_once(tmp_path):
    counts, broken = found_in_runs(0, 8)
    assert broken == []
    assert counts["sums"] > 8 and counts["kills"] > 2


@pytest.mark.long
@pytest.mark.parametrize("name", [mutant.name for mutant in OF_RUNS])
def test_a_mistake_of_the_server_is_found(name):
    (mutant,) = (each for each in OF_RUNS if each.name == name)
    assert found(mutant, schedules=90)


def test_schedules_meet_every_fault_and_every_end():
    told = [line for seed in range(60) for line in run(seed).story]
    for fate in FATES:
        assert any(line.endswith(f": {fate}") for line in told), fate
    for line in ("the server is killed", "the server goes on with the set that it has stored", "skipped"):
        assert line in told


def test_the_same_seed_gives_the_same_story():
    first, second = (run(7, lie=lie) for _ in range(2))
    assert first.story == second.story and len(first.story) > 10


def view_of(reports, *, seeds=(), keys=(), threshold=2, nodes=4):
    view = View(frozenset())
    view.thresholds[b"r"], view.members[b"r"] = threshold, tuple(range(nodes))
    for kind, dealers in (("seed", seeds), ("key", keys)):
        for dealer in dealers:
            view.shares[b"r", dealer, kind] = {0, 1}
    for node in reports:
        masks = tuple((each, bytes(sorted((each, node)))) for each in range(nodes) if each != node)
        view.reports[Report(1, node, b"r", node, masks, b"")] = None
    return view


def test_the_linear_system_knows_what_can_be_known():
    everyone = range(4)
    assert view_of(everyone).sums_of(1) == []
    assert view_of(everyone, seeds=everyone).sums_of(1) == [{0: 1, 1: 1, 2: 1, 3: 1}]
    assert view_of(everyone, seeds=[0, 1, 2]).sums_of(1) == []  # the fourth is not lost
    assert view_of(everyone, seeds=[0, 1, 2], keys=[3]).sums_of(1) == [{0: 1, 1: 1, 2: 1}]
    assert view_of([0, 1, 2], seeds=[0, 1, 2], keys=[3]).sums_of(1) == [{0: 1, 1: 1, 2: 1}]
    opened = view_of(everyone, seeds=everyone, keys=[3]).sums_of(1)  # both kinds of share of node 3
    assert opened == [{0: 1, 1: 1, 2: 1}, {3: 1}]
    assert view_of(everyone, seeds=everyone, threshold=3).sums_of(1) == []  # two shares are too few


def test_every_mistake_can_still_be_planted():
    assert {m.name: (ROOT / m.file).read_text().count(m.text) for m in (*MUTANTS, *OF_RUNS)} == {
        m.name: 1 for m in (*MUTANTS, *OF_RUNS)
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["both kinds of share revealed", "a key used again", "another attempt after unmasking"]
)
def test_a_planted_mistake_is_found(name):
    (mutant,) = (each for each in MUTANTS if each.name == name)
    assert found(mutant, schedules=200)
