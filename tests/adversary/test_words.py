"""A hostile server asks nodes that are not ready all that it can, and learns no more than that they are not ready.

What it can learn are the limits that the owner has set for public settings: the words say them at once. By halving it
also finds the largest epsilon that the node would spend now, the smaller one of the owner's limit and of what is left:
whether a node is ready says so, and no answer can hide it. Nothing else differs in a byte, in a length or in time.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import Context, RecordDict

from client.owner import error_disclosure
from client.owner.owner_refusals import is_in
from fedlearn import flower, wire
from fedlearn.core.refusals import NOT_READY, REFUSALS
from fedlearn.engine.apps import load_client_app
from fedlearn.models.loaded import initial_state
from fedlearn.runs.ledgers import names_in
from tests.unit.client.test_ledger import NODE, Hospital, instruction, settings
from tests.unit.server.scripted import NetworkGrid, made_nodes

ASKED = {"model__name": "dp-naive-bayes", "strategy__name": "sums", "data__dataset": "t.toml"}
TABLE = 'data="t.csv"\ntarget="y"\nclasses=["no","yes"]\ncategories={a=["u","v"]}\n'


@pytest.fixture(autouse=True)
def no_wait(monkeypatch):
    monkeypatch.setattr(error_disclosure, "WHOLE", 1e-6)


@pytest.fixture
def node(tmp_path, monkeypatch):
    """Return a function that makes a node with a table of its own, which is not ready for a reason of its own."""
    restore(tmp_path)
    monkeypatch.setenv("FEDLEARN_DATA", str(tmp_path))
    SENT["state"] = initial_state(settings(**ASKED), {})
    return lambda reason, **policy: STATES[reason](Hospital(tmp_path / "ledger", declared="t.toml", **policy), tmp_path)


def restore(folder):
    """Write the table, and remove the ledger."""
    rows = [f"{'uv'[row % 2]},{('no', 'yes')[row % 3 == 0]}" for row in range(90)]
    (folder / "t.csv").write_text("\n".join(["a,y", *rows]))
    (folder / "t.toml").write_text(TABLE)
    for file in sorted((folder / "ledger").rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()


def as_it_is(one, folder):
    return one


def spent(one, folder):
    """Another server has spent all."""
    for seed in (101, 102):
        assert isinstance(one.trains(message(), **ASKED, seed=seed), tuple)
    return one


def closed(one, folder):
    now = datetime.now()
    one.about["hours"] = f"{now + timedelta(hours=2):%H:%M}-{now + timedelta(hours=3):%H:%M}"
    return one


def few(one, folder):
    one.about["least-records"] = 91
    return one


def gone(one, folder):
    (folder / "t.csv").unlink()
    return one


def odd(one, folder):
    (folder / "t.toml").write_text("classes = [")
    return one


def damaged(one, folder):
    one.trains(message(), **ASKED, seed=101)
    (file,) = one.folder.glob("*.ledger")
    file.write_bytes(b"no\n" + file.read_bytes())
    return one


def full(one, folder):
    one.trains(message(), **ASKED, seed=101)
    one.about["most-questions"] = 1
    return one


STATES = {
    "ready": as_it_is, "budget-spent": spent, "not-in-these-hours": closed, "not-enough-records": few,
    "data-unreadable, gone": gone, "data-unreadable, odd": odd, "ledger-damaged": damaged, "too many questions": full,
}  # fmt: skip
NOT = [name for name in STATES if name != "ready"]


SENT = {}  # the state that an honest server sends


def message(**changes):
    return instruction(SENT["state"], **changes)


def sent(one, asked, **changes):
    """Return all that goes over the wire in a reply, but for its ids and its time."""
    context = Context(1, NODE, dict(one.about), RecordDict(), settings(**changes))
    reply = load_client_app()(flower.with_id(asked), context)
    error = (reply.error.code, reply.error.reason) if reply.has_error() else None
    return error, flower.to_bytes(reply.content) if reply.has_content() else b""


def evaluation():
    return wire.evaluation(NODE, wire.pack_arrays(SENT["state"]), round_number=1, ttl=60.0)


def query(round_number=1):
    return wire.ready_query(NODE, round_number=round_number, attempt=1, ttl=60.0)


def wrong():
    return instruction({"sums": np.zeros(7, np.int64), "reports": np.ones(1, np.int64)})


def lacking(arrays):
    return wire.ready_query(NODE, round_number=1, attempt=1, ttl=60.0, unsent="0" * 64, arrays=arrays)


def of_a_sum(kind):
    return flower.message_to(RecordDict(), NODE, kind, ttl=60.0)


def coded():
    asked = message()
    asked.content[wire.PARCELS] = wire.parcels_record({"control": "no_such_module:Codec"})
    return asked


MESSAGES = {
    "query": query, "query of a later round": lambda: query(7), "train": message, "evaluate": evaluation,
    "a state of another shape": wrong, "no state": lambda: instruction({}),
    "another attempt": lambda: message(attempt=9), "a codec that is code": coded,
    "arrays that it lacks": lambda: lacking(None), "arrays that are wrong": lambda: lacking({"w": np.zeros(3)}),
    "shares": lambda: of_a_sum("query.shares"), "survivors": lambda: of_a_sum("query.survivors"),
    "unmasking": lambda: of_a_sum("query.unmasking"),
}  # fmt: skip
SETTINGS = {
    "as it is": {}, "another seed": {"seed": 7}, "more nodes": {"clients": 40},
    "all of the budget": {"privacy__epsilon": 2.0}, "too much": {"privacy__epsilon": 1e6},
    "half as much": {"privacy__epsilon": 0.5}, "seeded": {"privacy__noise": "seeded"},
    "sizes": {"privacy__public_sizes": True}, "a codec": {"compression__codec": "drop"},
    "code": {"training__optimizer": "os:system"}, "a share": {"data__node_test_share": 0.5},
    "options": {"data__options": {"target": "a"}}, "no such file": {"data__dataset": "nowhere.toml"},
    "outside": {"data__dataset": "/etc/passwd.toml"}, "of a user": {"data__dataset": "~root/t.toml"},
    "of no user": {"data__dataset": "~nosuchuser/t.toml"}, "a folder": {"data__dir": "/tmp"},
    "seeded, with options": {"privacy__noise": "seeded", "data__options": {"target": "a"}},
    "a codec, outside": {"compression__codec": "drop", "data__dataset": "/etc/passwd.toml"},
    "sizes, of no user": {"privacy__public_sizes": True, "data__dataset": "~nosuchuser/t.toml"},
}  # fmt: skip


def asked_all(one):
    """Return the answers to each message with each of the settings."""
    return {
        (name, how): sent(one, make(), **{**ASKED, **changes})
        for how, changes in SETTINGS.items()
        for name, make in MESSAGES.items()
    }


@pytest.mark.parametrize(
    "policy", [{}, pytest.param({"epsilon_of_a_run": 1.0}, marks=pytest.mark.long)], ids=["", "a limit for each run"]
)
def test_nodes_that_are_not_ready_cannot_be_told_apart_by_any_question(node, tmp_path, policy):
    """Of 260 questions each answer has the same bytes, whatever the reason is."""
    answers = {}
    for reason in NOT:
        answers[reason] = asked_all(node(reason, **policy))
        restore(tmp_path)
    first, *others = NOT
    for reason in others:
        assert {asked for asked, reply in answers[reason].items() if reply != answers[first][asked]} == set(), reason
    said = {error[1] for error, _ in answers[first].values() if error}
    assert said == {NOT_READY, "private-model", "noise-not-secure", "sizes-not-public", "code-not-allowed"}


def test_a_node_that_is_ready_for_one_run_says_the_same_to_all_that_it_is_not_ready_for(node):
    one = node("ready", epsilon_of_a_run=0.5)
    asked = ({"data__dataset": "nowhere.toml"}, {"privacy__epsilon": 1.0}, {"data__dir": "/tmp"})
    assert len({sent(one, query(), **{**ASKED, **changes}) for changes in asked}) == 1
    assert names_in(one.folder) == []


def test_by_halving_a_server_finds_what_a_node_would_spend_now_and_nothing_is_spent_for_it(node):
    """The smaller one of the owner's limit and of what is left; which of the two it is, it does not find."""

    def found(one):
        low, high = 0.0, 8.0
        for _ in range(20):
            middle = (low + high) / 2
            is_ready = one.ready(**{**ASKED, "privacy__epsilon": middle}) == ""
            low, high = (middle, high) if is_ready else (low, middle)
        return low

    limited, poor = node("ready", epsilon_of_a_run=0.75), node("ready")
    assert found(limited) == pytest.approx(0.75, abs=1e-4)
    assert names_in(limited.folder) == []
    poor.trains(message(), **{**ASKED, "privacy__epsilon": 1.25}, seed=101)
    before = poor.ledger.spent()
    assert found(poor) == pytest.approx(0.75, abs=1e-4)
    assert poor.ledger.spent() == before


@pytest.mark.parametrize("began", [0.0, 0.37, 2.9])
def test_not_ready_leaves_at_a_whole_second_after_its_question(monkeypatch, began):
    waits = []
    clock = SimpleNamespace(monotonic=lambda: request.began + began, sleep=waits.append)
    request = SimpleNamespace(began=100.0)
    monkeypatch.setattr(error_disclosure, "WHOLE", 1.0)
    monkeypatch.setattr(error_disclosure, "time", clock)
    error_disclosure.wait_for_a_whole_second(request)
    assert (began + waits[0]) % 1.0 == pytest.approx(0.0, abs=1e-9) or (began + waits[0]) % 1.0 == pytest.approx(1.0)


def test_only_not_ready_waits(node, monkeypatch):
    waited = []
    monkeypatch.setattr("client.app.wait_for_a_whole_second", waited.append)
    one = node("budget-spent")
    one.ready(**ASKED, seed=101)  # what was published comes again
    one.ready(**ASKED, privacy__noise="seeded")
    assert waited == []
    one.ready(**ASKED)
    one.trains(message(), **ASKED)
    assert len(waited) == 2


def test_every_word_but_one_is_about_a_setting():
    about = {"model", "privacy", "evaluation", "settings", "version", "--memory", "the same clients"}
    assert NOT_READY in REFUSALS
    for word, refusal in REFUSALS.items():
        assert word == NOT_READY or any(name in refusal.means + refusal.do for name in about), word


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ("not-ready", "not-ready"),
        ("too-late", "it says 'too-late', which this version of fedlearn does not know"),
        ("12 patients", "it says what is no word"),
        ("\x1b[2J" + "x" * 1000, "it says what is no word"),
    ],
)
def test_a_server_says_of_an_unknown_word_that_it_does_not_know_it(scene, says, reason):
    nodes = made_nodes(7)
    nodes[1000].why_not = says
    rounds = {"total": 1, "selection_window": 10.0, "minimum_ready": 0.5, "quorum": 0.5}
    run = scene(nodes, grid=NetworkGrid, rounds=rounds).run()
    assert run.reasons("not-ready") == {1000: reason}


def test_hours_may_go_over_midnight():
    day, night = "08:00-17:30", "22:00-06:00"
    at = datetime(2026, 11, 25)
    assert [is_in(day, at.replace(hour=hour)) for hour in (7, 8, 17, 18)] == [False, True, True, False]
    assert [is_in(night, at.replace(hour=hour)) for hour in (21, 22, 0, 6)] == [False, True, True, False]
    assert not is_in(day, at.replace(hour=17, minute=30))
