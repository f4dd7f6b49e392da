"""`fedlearn audit --nodes`: whole runs on neighboring federations keep their claim, and planted mistakes are found."""

from __future__ import annotations

import logging
from functools import partial

import pytest

import fedlearn.commands.audited_nodes as audited
from fedlearn.auditing.nodes.chosen_model import FAR, HOSTILE, NOTHING, Chosen
from fedlearn.auditing.nodes.planted_in_clipping import PLANTED as BY_CLIENTS
from fedlearn.auditing.nodes.server_mistakes import PLANTED as BY_SERVERS
from fedlearn.auditing.nodes.server_mistakes import FixedSize, Seeded, sampled, unguarded
from fedlearn.auditing.planting import Planted, swapped
from fedlearn.cli import main
from fedlearn.commands.audited_nodes import WAYS, NodesAudit, loss_of, loss_with, mistakes
from server.selectors.poisson import Poisson

QUICK = ("central",)  # the others are long
QUICK_MISTAKES = ("a round forgotten", "the sum in a line of the log", "secure noise from a seed")


def marks(name, quick):
    return () if name in quick else pytest.mark.long


@pytest.mark.parametrize("way", [pytest.param(each, marks=marks(each, QUICK)) for each in WAYS])
def test_whatever_a_node_sends_it_loses_the_claim_at_most(way):
    loss = loss_of(way)
    assert not loss.why and loss.share <= 1 + 1e-6
    assert loss.share > (
        0.7 if way in ("distributed", "skellam", "secure shares") else 0.999
    )  # tight, but for more than the fewest


@pytest.mark.long
@pytest.mark.parametrize("way", ["distributed", "skellam"])
def test_with_the_fewest_reports_of_a_sum_the_account_of_shares_is_tight(way):
    assert 0.999 < NodesAudit(way, frozenset({4, 5})).loss(FAR).share <= 1 + 1e-6
    assert NodesAudit(way).loss(FAR).share < 0.9  # all six: their further noise


@pytest.mark.parametrize("change", ["no number", "nothing"])
def test_a_node_that_changes_nothing_loses_nothing(change):
    assert NodesAudit("central").loss({**HOSTILE, "nothing": NOTHING}[change]).share == 0.0


@pytest.mark.parametrize(
    "mistake",
    [pytest.param(each, id=f"{each.way}, {each.name}", marks=marks(each.name, QUICK_MISTAKES)) for each in mistakes()],
)
def test_planted_mistakes_are_found_and_put_back(mistake):
    assert loss_with(mistake).is_refuted
    assert not NodesAudit(mistake.way).loss(FAR).is_refuted


def test_cohorts_of_a_fixed_size_and_another_rate_are_no_poisson_sampling():
    class Rarely(Poisson):
        def draw(self, ready, count, at):
            return super().draw(ready, count - 1, at)

    assert not sampled().is_refuted
    assert "depends on whether a node is there" in sampled(FixedSize).why
    assert "off the claimed rate" in sampled(Rarely).why
    assert "coins correlate" in sampled(Seeded).why


def audit() -> int:
    with pytest.raises(SystemExit) as ended:
        main(["audit", "--nodes"])
    return ended.value.code


@pytest.fixture
def only(monkeypatch):
    """Let the command replay the first row alone, with these mistakes."""

    def only(*mistakes):
        monkeypatch.setattr(audited, "WAYS", {"central": WAYS["central"]})
        monkeypatch.setattr(audited, "mistakes", lambda: list(mistakes))

    return only


@pytest.mark.long
def test_the_command_shows_what_was_found_and_fails_where_a_mistake_was_not(capsys, only):
    found = [each for each in BY_SERVERS if each.name == "divided by who came"]
    only(*found, Planted("nothing at all", "central", partial(swapped, Chosen)))
    assert audit() == 1
    shown = capsys.readouterr()
    assert shown.err == "error: not as it must be: central: nothing at all: 1.0000 of the claim\n"
    assert "noise of the server" in shown.out and "divided by who came" in shown.out
    assert "not there" not in shown.out and not logging.root.manager.disable


@pytest.mark.long
def test_the_command_succeeds_where_all_is_as_it_must_be(capsys, only):
    only(*BY_SERVERS[:2])
    assert audit() == 0
    assert "1.0000 of the claim" in capsys.readouterr().out


@pytest.mark.slow
def test_a_claim_that_is_refuted_fails_the_command(capsys, only):
    only()
    with unguarded(), BY_CLIENTS[0].plant():
        assert audit() == 1
    assert (
        "error: not as it must be: noise of the server, fixed cohorts: 1.75e+09 of the claim" in capsys.readouterr().err
    )


@pytest.mark.parametrize("wrong", [["--exact"], ["--seed", "1"], ["--draws", "5000"], ["--networks"]])
def test_other_audits_are_not_mixed_with_it(wrong, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["audit", "--nodes", *wrong])
    assert "no other option" in capsys.readouterr().err or wrong == ["--networks"]
