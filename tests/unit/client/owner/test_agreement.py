"""A client with --ask takes part in no run that its owner has not agreed to, and no server can agree in its place."""

from __future__ import annotations

import importlib
import marshal
import py_compile
import re
import sys
from contextlib import suppress

import pytest
from flwr.app import Context, RecordDict
from typer.testing import CliRunner

from client.app import app as client_app
from client.owner import agreement
from client.owner.agreement import ids_of, not_agreed, page_of, unallowed_code
from client.request import Request
from fedlearn import flower, wire
from fedlearn.cli import app
from fedlearn.config import config_from, from_flower, to_flower
from fedlearn.plugins import allowed_code
from fedlearn.privacy.ledger_lines import LedgerDamaged
from fedlearn.runs import agreements
from fedlearn.runs.agreements import NO, NO_CODE, RUN, STUDY, Agreements

FLAT = {"model.name": "linear", "data.dataset": "digits", "clients": 4}


def request(folder, *, node=None, **changes):
    message = flower.received(RecordDict(), node_id=7, message_type="train", message_id="1", ttl=60.0)
    about = {"partition-id": 3, "num-partitions": 4, **({"ask": str(folder)} if folder else {}), **(node or {})}
    settings = to_flower(config_from({**FLAT, **changes}))
    return Request.of(message, Context(1, 7, about, RecordDict(), settings))


def said(*words, code=0):
    ended = CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "200"})
    assert ended.exit_code == code, ended.output
    return f"{ended.output}{ended.exception if code else ''}"


def test_a_run_waits_for_its_owner_and_each_answer_means_what_it_says(tmp_path):
    assert not_agreed(request(None)) == ""  # an owner who is not asked
    assert not_agreed(request(tmp_path)) == "not-agreed"
    (run,) = Agreements(tmp_path).waiting()
    assert f"Run: {run}" in said("agree", tmp_path) and "1 runs wait" in said("agree", tmp_path)
    said("agree", tmp_path, "--run", run[:6], "--why", "fine")
    assert not_agreed(request(tmp_path)) == "" and "0 runs wait" in said("agree", tmp_path)
    assert not_agreed(request(tmp_path, seed=2)) == "not-agreed"  # another run
    (other,) = Agreements(tmp_path).waiting()
    said("agree", tmp_path, "--study", other)
    assert not_agreed(request(tmp_path, seed=3, out="elsewhere")) == ""
    assert not_agreed(request(tmp_path, **{"training.local_epochs": 9})) == "not-agreed"  # another study
    said("agree", tmp_path, "--no", run, "--why", "enough")
    assert [not_agreed(request(tmp_path, seed=seed)) for seed in (0, 1, 2, 3)] == ["not-agreed"] * 4
    assert len(said("agree", tmp_path, "--log").splitlines()) == 3
    for words in (("--run", run, "--no", run), ("--run", "zz"), ("--run", "")):
        if words[1]:
            said("agree", tmp_path, *words, code=1)


def test_a_network_node_says_not_ready_and_nothing_else_until_the_answer(tmp_path, monkeypatch):
    monkeypatch.setattr("client.app.wait_for_a_whole_second", lambda request: None)
    here = request(tmp_path / "ask").context
    query = wire.ready_query(7, round_number=1, attempt=1, ttl=60.0)

    def answer():
        return wire.read_ready_answer(client_app(query, here))

    assert answer() == (3, "not-ready")
    (run,) = Agreements(tmp_path / "ask").waiting()
    Agreements(tmp_path / "ask").answer(run, RUN)
    assert answer() == (3, "")
    Agreements(tmp_path / "ask").answer(run, NO)  # in mid-run
    assert answer() == (3, "not-ready")


NET = """
from pathlib import Path
from torch import nn
from helper import width
import torch

Path(__file__).with_name("imported").write_text("by whoever asked first")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(64, width)

    def forward(self, x):
        return self.head(x.flatten(1))
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A plugin of two files on the path; whether it was imported shows in a third one."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "plug.py").write_text(NET)
    (folder / "helper.py").write_text("width = 10\n")
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    allowed_code.forbid()
    for name in ("plug", "helper", "hidden"):
        sys.modules.pop(name, None)


PLUGGED = {"model.name": "plug:Net", "data.dataset": "digits", "clients": 4}


def asked_for(folder, **changes):
    return request(folder / "ask", **{**PLUGGED, **changes})


def allow(folder, **changes):
    """Agree to the run that waits, and to the code that its page shows."""
    assert not_agreed(asked_for(folder, **changes)) == "not-agreed"
    ((run, page),) = Agreements(folder / "ask").waiting().items()
    said("agree", folder / "ask", "--run", run)
    assert not_agreed(asked_for(folder, **changes)) == "not-agreed"  # the run alone is not enough
    (code,) = re.findall(r"Other code: SHA-256 ([0-9a-f]{64}), to be allowed, too: ", page)
    assert f"code {code}" in said("agree", folder / "ask", "--code", code)
    assert {name for name in ("plug.py", "helper.py") if f" {name}\n" in page} == {"plug.py", "helper.py"}
    return run, code


def test_own_code_is_imported_only_once_its_hash_was_allowed_and_is_then_trained(tmp_path, plugin, monkeypatch):
    monkeypatch.setattr("client.app.wait_for_a_whole_second", lambda request: None)
    query = wire.ready_query(7, round_number=1, attempt=1, ttl=60.0)

    def answer():
        return wire.read_ready_answer(client_app(query, asked_for(tmp_path).context))

    assert answer() == (3, "not-ready") and not (plugin / "imported").exists()
    _, code = allow(tmp_path)
    assert not (plugin / "imported").exists()
    assert answer() == (3, "") and (plugin / "imported").exists()
    said("agree", tmp_path / "ask", "--no-code", code)
    (plugin / "imported").unlink()
    assert answer() == (3, "not-ready")
    assert [each.answer for each in Agreements(tmp_path / "ask").answers()] == ["run", "code", "no-code"]


@pytest.mark.parametrize("kind", ["query.ready", "query.round_over", "train", "evaluate", "query.shares"])
@pytest.mark.parametrize(
    "node", [{"ask": "asked"}, {"ask": "asked", "ledger": "l", "largest-epsilon": 1.0}, {"ledger": "l"}]
)
@pytest.mark.parametrize(
    "named", [{"model.name": "plug:ROW"}, {"model.name": "plug:Net"}, {"training.learner": "plug:Net"}]
)
def test_no_message_of_a_server_imports_code_that_is_not_allowed(tmp_path, plugin, monkeypatch, kind, node, named):
    monkeypatch.setattr("client.app.wait_for_a_whole_second", lambda request: None)
    monkeypatch.chdir(tmp_path)
    message = flower.received(wire.ready_query(7, round_number=1, attempt=1, ttl=60.0).content, node_id=7,
                              message_type=kind, message_id="1", ttl=60.0)  # fmt: skip
    here = request(None, node=node, **{**FLAT, **named}).context
    with suppress(Exception):
        client_app(message, here)
    assert not (plugin / "imported").exists() and "plug" not in sys.modules


@pytest.mark.parametrize("way", ["file", "helper", "added helper", "second"])
def test_a_changed_file_a_changed_import_and_a_second_plugin_of_the_name_are_other_code(
    tmp_path, plugin, monkeypatch, way
):
    allow(tmp_path)
    assert not_agreed(asked_for(tmp_path)) == ""
    allowed_code.forbid()
    if way == "file":
        (plugin / "plug.py").write_text(NET.replace("64, width", "64, width, bias=False"))
    elif way == "helper":
        (plugin / "helper.py").write_text("width = 10  # and more\n")
    elif way == "added helper":
        (plugin / "helper.py").write_text("import hidden\nwidth = 10\n")
        (plugin / "hidden.py").write_text("")
    else:
        (tmp_path / "earlier").mkdir()
        (tmp_path / "earlier" / "plug.py").write_text(NET.replace("from helper import width", "width = 10"))
        monkeypatch.syspath_prepend(str(tmp_path / "earlier"))
    importlib.invalidate_caches()
    assert not_agreed(asked_for(tmp_path)) == "not-agreed" and not [*tmp_path.rglob("imported")]
    assert len(Agreements(tmp_path / "ask").waiting()) == 1  # a page of its own


def test_what_is_imported_is_what_was_hashed_whatever_lies_there_by_then(tmp_path, plugin):
    (plugin / "plug.py").write_text("from helper import width\ndef late():\n    import importlib\n"
                                    "    return importlib.import_module('hid' + 'den').width\n")  # fmt: skip
    (plugin / "hidden.py").write_text("width = 666\n")
    py_compile.compile(str(plugin / "plug.py"))
    poisoned = next((plugin / "__pycache__").glob("plug.*"))
    stale = poisoned.read_bytes()[:16] + marshal.dumps(compile("width = 666", "plug.py", "exec"))
    poisoned.write_bytes(stale)  # with the size and time of the source: Python would run it
    code = allowed_code.code_of_objects(["plug:width"])
    assert sorted(code.contents) == ["helper.py", "plug.py"]
    code.use()
    (plugin / "helper.py").write_text("width = 666\n")
    plug = importlib.import_module("plug")
    assert plug.width == 10
    with pytest.raises(ModuleNotFoundError, match="hidden is not among the files that the owner has allowed"):
        plug.late()


def test_a_hash_is_of_one_object_and_names_no_code_of_others(tmp_path, plugin):
    _, code = allow(tmp_path)
    assert not_agreed(asked_for(tmp_path, **{"model.name": "plug:torch.hub.load"})) == "not-agreed"
    other = allowed_code.code_of_objects(["plug:torch.hub.load"])
    assert other.contents == allowed_code.code_of_objects(["plug:Net"]).contents and other.sha256 != code
    for named in ("os:system", "fedlearn.cli:app", "client.app:app", f"{plugin}/plug.py:Net", "sys:exit", "absent:Net",
                  "object:Net-0123456789abcdef", "plugins:Net", "plug :Net",
                  "flwr.clientapp.mod:fixedclipping_mod"):  # fmt: skip
        assert allowed_code.code_of_objects([named]) is None, named
    for wrong in (code[:63], "z" * 64):
        assert "give all 64 digits" in said("agree", tmp_path / "ask", "--code", wrong, code=1)


def test_a_policy_allows_code_for_runs_that_it_agrees_to_and_a_later_word_of_the_owner_wins(tmp_path, plugin):
    code = allowed_code.code_of_objects(["plug:Net"]).sha256
    node = {"ledger": str(tmp_path / "l"), "largest-epsilon": 1.0, "agreed": "plug:Net"}
    ask = tmp_path / "ask"
    assert not_agreed(request(ask, node=node, **PLUGGED)) == "not-agreed"
    assert not_agreed(request(ask, node={**node, "code": "0" * 64}, **PLUGGED)) == "not-agreed"
    assert not_agreed(request(ask, node={**node, "code": f"{'0' * 64},{code}"}, **PLUGGED)) == ""
    Agreements(ask).allow(code, NO_CODE)
    assert not_agreed(request(ask, node={**node, "code": code}, **PLUGGED)) == "not-agreed"
    assert not_agreed(request(ask, node={**node, "code": "short"}, **PLUGGED)) == "policy-unreadable"
    for digits, answer in (("0" * 64, "code-not-allowed"), (code, "")):  # without --ask
        assert unallowed_code(request(None, node={**node, "code": digits}, **PLUGGED)) == answer
        assert unallowed_code(request(None, node={**node, "code": digits}, **FLAT)) == ""
    assert unallowed_code(request(None, node=node, **PLUGGED)) == ""  # the names that the policy allows


@pytest.mark.parametrize(
    "changes",
    [
        {"model.name": "evil:Model"}, {"training.learner": "evil:Learner"}, {"data.dataset": "evil:data"},
        {"strategy.name": "evil:Strategy"}, {"compression.codec": "evil:Codec"},
    ],
)  # fmt: skip
def test_code_that_cannot_be_hashed_is_refused_whatever_was_agreed_and_is_shown_on_no_page(tmp_path, changes):
    try:
        asked = request(tmp_path, **changes)
    except Exception as error:
        pytest.skip(f"refused before: {error}")
    assert not_agreed(asked) == "code-not-allowed"
    assert Agreements(tmp_path).waiting() == {}


def test_a_page_has_one_line_for_each_fact_and_hides_nothing_that_a_server_writes(tmp_path):
    config = from_flower(to_flower(config_from({**FLAT, "data.notice": "a\x1b[2K\u202e\nCode: trusted" + "x" * 9999})))
    lines = page_of(config).splitlines()
    assert [line.partition(":")[0] for line in lines[:8]] == [
        "Run", "Model", "Data", "Code", "Base weights", "What leaves", "What it costs", "Who sees it",
    ]  # fmt: skip
    assert sum(line.startswith("Code:") for line in lines) == 1
    assert all(line.isprintable() and len(line) < 400 for line in lines)
    names = {line.split(" = ")[0].strip() for line in lines if " = " in line}
    assert names == set(to_flower(config))
    private = config_from({"model.name": "dp-forest", "data.dataset": "digits", "privacy.epsilon": 2.5})
    assert "epsilon 2.5 of the ledger" in page_of(private)


def test_every_setting_but_seed_and_folder_makes_another_study():
    base = config_from(FLAT)
    plain = to_flower(base)
    assert ids_of(base) == ids_of(config_from(FLAT))
    for name in agreement.LEFT_OPEN:
        assert name in plain
    changed = {"clients": 5, "rounds.total": 99, "training.lr": 0.9, "model.initial_sha256": "x"}
    for name, value in changed.items():
        assert ids_of(config_from({**FLAT, name: value}))[1] != ids_of(base)[1], name


def test_a_flood_of_announcements_and_of_automatic_answers_takes_a_bounded_place(tmp_path, monkeypatch):
    monkeypatch.setattr(agreements, "MOST_WAITING", 3)
    monkeypatch.setattr(agreements, "MOST_AUTOMATIC", 2)
    for seed in range(6):
        assert not_agreed(request(tmp_path / "a", seed=seed)) == "not-agreed"
    assert len(list((tmp_path / "a" / "pages").iterdir())) == 3
    node = {"ledger": str(tmp_path / "l"), "largest-epsilon": 1.0, "agreed": "linear"}
    answers = [not_agreed(request(tmp_path / "b", node=node, seed=seed)) for seed in (0, 0, 1, 2, 3, 0)]
    assert answers == ["", "", "", "not-agreed", "not-agreed", ""]
    assert [each.answer for each in Agreements(tmp_path / "b").answers()] == ["policy", "policy"]
    other = {**node, "agreed": "dp-forest"}
    assert not_agreed(request(tmp_path / "c", node=other)) == "not-agreed"


def test_an_owner_who_has_said_no_is_not_overruled_by_the_policy(tmp_path):
    node = {"ledger": str(tmp_path / "l"), "largest-epsilon": 1.0, "agreed": "linear"}
    assert not_agreed(request(tmp_path)) == "not-agreed"
    (run,) = Agreements(tmp_path).waiting()
    Agreements(tmp_path).answer(run, NO)
    assert not_agreed(request(tmp_path, node=node)) == "not-agreed"


@pytest.mark.parametrize("way", ["edited", "removed"])
def test_answers_that_were_changed_stop_the_node(tmp_path, way):
    not_agreed(request(tmp_path))
    kept = Agreements(tmp_path)
    (run,) = kept.waiting()
    for answer in (NO, NO, STUDY):
        kept.answer(run, answer)
    log = tmp_path / "answers.log"
    if way == "edited":
        log.write_bytes(log.read_bytes().replace(b'"no"', b'"run"'))
    else:
        log.unlink()
    with pytest.raises(LedgerDamaged):
        kept.answers()
    assert not_agreed(request(tmp_path)) == "policy-unreadable"
    assert "restore a copy" in said("agree", tmp_path, "--log", code=1)
