"""Sets of nodes of secure sums: one for each question, over all runs."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest
from flwr.app import ConfigRecord, MessageType, RecordDict

from client.memory import NodeMemory
from client.owner import owner_refusals
from client.owner.signed_sets import QUESTION, check_sets, remember_set, settle_set
from fedlearn.config import RunConfig
from fedlearn.core.errors import Refused
from fedlearn.core.refusals import REFUSALS
from fedlearn.engine.deployment.deployment_keys import make_keys, release_sums, rotate_node_key
from fedlearn.privacy.ledger_lines import LedgerDamaged
from fedlearn.runs.ledgers import names_in
from fedlearn.runs.node_sets import SetsOfQuestion, named
from fedlearn.secure.key_agreement import NodeKey


def request_of(folder, *, model="statistics", real=True, run="one", at=(1, 1), question="", **node_config):
    config = RunConfig(model={"name": model}, secure={"sums": "masked"}, out=run)
    message = SimpleNamespace(metadata=SimpleNamespace(message_type=MessageType.TRAIN))
    node_config = {"ledger": str(folder), "data-name": "patients", "memory": str(folder), **node_config}
    context = SimpleNamespace(node_config={name: each for name, each in node_config.items() if each is not None})
    content = RecordDict({"config": ConfigRecord(dict(zip(("round_number", "attempt"), at, strict=True)))})
    memory = NodeMemory(texts={QUESTION: question} if question else {})
    return SimpleNamespace(
        context=context,
        config=config,
        is_real=real,
        message=message,
        content=content,
        memory=memory,
        partition_id=3,
        holds_own_data=False,
    )


def keys(*names):
    return [name.encode() for name in names]


def test_the_same_set_may_be_asked_again_and_no_other_one(tmp_path):
    for run in ("one", "two"):  # another run, another question: the same nodes
        remember_set(request_of(tmp_path, run=run), keys("a", "b", "c", "d", "e"))
    for other in ("abcd", "abcdef", "abc", "aefgh"):
        with pytest.raises(Refused, match="tells-of-one"):
            remember_set(request_of(tmp_path, run="two"), keys(*other))
    assert len((tmp_path / "patients.sets").read_text().splitlines()) == 1  # what was refused was not signed


def test_within_a_round_a_set_of_fewer_nodes_may_follow_and_the_one_that_is_unmasked_stays(tmp_path):
    remember_set(request_of(tmp_path), keys("a", "b", "c", "d"))
    remember_set(request_of(tmp_path, at=(1, 2)), keys("a", "b", "c"))  # d has vanished
    with pytest.raises(Refused, match="tells-of-one"):  # one of two, and the node does not know which
        remember_set(request_of(tmp_path, run="two"), keys("a", "b", "c"))
    settle_set(request_of(tmp_path, at=(1, 2)), keys("a", "b", "c"))
    remember_set(request_of(tmp_path, run="two"), keys("a", "b", "c"))
    for other in ({"at": (2, 1)}, {"run": "two"}):
        with pytest.raises(Refused, match="tells-of-one"):
            remember_set(request_of(tmp_path, **other), keys("a", "b", "c", "d"))


TRAINING = {"model": "mlp", "peers": os.devnull}


@pytest.mark.long
def test_a_question_of_training_has_one_set_and_another_question_another_one(tmp_path):
    remember_set(request_of(tmp_path, question="aa", **TRAINING), keys("a", "b", "c", "d"))
    remember_set(request_of(tmp_path, question="aa", at=(1, 2), **TRAINING), keys("a", "b", "c"))
    settle_set(request_of(tmp_path, question="aa", at=(1, 2), **TRAINING), keys("a", "b", "c"))
    remember_set(request_of(tmp_path, question="bb", at=(2, 1), **TRAINING), keys("a", "b", "c", "d"))
    remember_set(request_of(tmp_path, question="aa", run="two", **TRAINING), keys("a", "b", "c"))
    with pytest.raises(Refused, match="tells-of-one"):
        remember_set(request_of(tmp_path, question="aa", run="two", **TRAINING), keys("a", "b", "c", "d"))


def test_ten_thousand_rounds_are_remembered_and_the_next_is_found_by_an_index(tmp_path):
    with closing(sqlite3.connect(tmp_path / "3.sets")) as database, database:
        database.execute("CREATE TABLE signed (question BLOB, of_round TEXT, nodes TEXT)")
        rows = ((number.to_bytes(32, "big"), f"{number}", "a b") for number in range(10_000))
        database.executemany("INSERT INTO signed VALUES (?, ?, ?)", rows)
    remember_set(request_of(tmp_path, question="aa", **TRAINING), keys("a", "b", "c"))
    again = SetsOfQuestion(tmp_path / "3.sets", bytes.fromhex("aa"))
    assert [each.nodes for each in again.signed()] == [named(keys("a", "b", "c"))]
    assert "by_question" in again._done("EXPLAIN QUERY PLAN SELECT nodes FROM signed WHERE question = ?", b"")[0][-1]


def test_a_node_with_a_new_key_is_remembered_as_the_one_that_it_was(tmp_path):
    make_keys(tmp_path, clients=3)
    listed = {"peers": str(tmp_path / "peers")}

    def public():
        lines = [(tmp_path / "public" / "nodes" / f"{each}.pub").read_bytes() for each in range(3)]
        (tmp_path / "peers").write_bytes(b"".join(lines))
        return [NodeKey((tmp_path / "nodes" / str(each)).read_bytes()).public for each in range(3)]

    remember_set(request_of(tmp_path, **listed), public())
    rotate_node_key(tmp_path, 2)
    remember_set(request_of(tmp_path, run="two", **listed), public())
    (tmp_path / "nodes" / "2").unlink()
    (tmp_path / "public" / "nodes" / "2.pub").unlink()
    make_keys(tmp_path, clients=3)  # as if it were another node
    with pytest.raises(Refused, match="tells-of-one"):
        remember_set(request_of(tmp_path, run="two", **listed), public())


def test_after_a_node_has_left_and_released_its_sums_the_others_are_summed_without_it_and_no_other_set_is(tmp_path):
    make_keys(tmp_path, clients=5)
    listed = {"peers": str(tmp_path / "peers")}
    nodes = [NodeKey((tmp_path / "nodes" / str(each)).read_bytes()).public for each in range(5)]

    def list_all():
        lines = [(tmp_path / "public" / "nodes" / f"{each}.pub").read_bytes() for each in range(5)]
        (tmp_path / "peers").write_bytes(b"".join(lines))

    list_all()
    remember_set(request_of(tmp_path, **listed), nodes)
    with pytest.raises(Refused, match="tells-of-one"):
        remember_set(request_of(tmp_path, run="two", **listed), nodes[:4])
    release_sums(tmp_path, 4)
    list_all()
    remember_set(request_of(tmp_path, run="two", **listed), nodes[:4])
    remember_set(request_of(tmp_path, run="three", at=(2, 1), **listed), nodes[:4])
    for other in (nodes[:3], [*nodes[:3], nodes[4]]):
        with pytest.raises(Refused, match="tells-of-one"):
            remember_set(request_of(tmp_path, run="four", **listed), other)


@pytest.mark.parametrize("changes", [{"real": False}, {"peers": None}, {"model": "dp-statistics"}])
def test_no_question_of_training_is_remembered_by_virtual_nodes_without_peers_or_with_noise(tmp_path, changes):
    for names in ("abcd", "abc"):
        remember_set(request_of(tmp_path, run=names, question="aa", **{**TRAINING, **changes}), keys(*names))
    assert not list(tmp_path.iterdir())


CHOOSING = [
    {"data": {"node_test_share": 0.1}}, {"data": {"options": {"target": "x"}}}, {"gate": {"max_examples": 100}},
]  # fmt: skip


@pytest.mark.parametrize("setting", CHOOSING, ids=str)
def test_a_setting_that_chooses_or_cuts_rows_is_refused_for_exact_sums_alone(tmp_path, setting):
    whole = {"peers": "peers", "largest-epsilon": 1.0, "models": "statistics,mlp"}
    for model, said in (("statistics", "rows-chosen"), ("mlp", "")):
        request = request_of(tmp_path, model=model, **whole)
        request.config = RunConfig(model={"name": model}, secure={"sums": "masked"}, **setting)
        assert owner_refusals.refused(request) == said
    assert "rows-chosen" in REFUSALS


@pytest.mark.parametrize(
    ("bins", "declared", "said"),
    [(None, None, ""), (20, None, ""), (21, None, "bins-not-declared"), (None, 8, "bins-not-declared"), (8, 8, "")],
)
def test_exact_statistics_have_the_bins_that_the_owner_declared(tmp_path, bins, declared, said):
    about = {"peers": "peers", "largest-epsilon": 1.0, "models": "statistics"} | (
        {"bins": declared} if declared else {}
    )
    request = request_of(tmp_path, model="statistics", **about)
    options = {"options": {"bins": bins}} if bins else {}
    request.config = RunConfig(model={"name": "statistics", **options}, secure={"sums": "masked"})
    assert owner_refusals.refused(request) == said


def test_a_node_without_a_folder_for_its_memory_takes_part_in_no_secure_sum(tmp_path):
    assert owner_refusals.refused(request_of(tmp_path, model="mlp", peers="peers", ledger=None)) == ""
    assert (
        owner_refusals.refused(request_of(tmp_path, model="mlp", peers="peers", ledger=None, memory=None))
        == "no-memory-folder"
    )


def remove_all(folder):
    for file in ("patients.sets", "patients.sets-head"):
        (folder / file).unlink()


DAMAGES = {
    "deleted": lambda folder: (folder / "patients.sets").unlink(),
    "deleted with its head": remove_all,
    "emptied": lambda folder: (folder / "patients.sets").write_bytes(b""),
    "last line gone": lambda folder: cut(folder / "patients.sets", slice(0, -1)),
    "first line gone": lambda folder: cut(folder / "patients.sets", slice(1, None)),
    "head deleted": lambda folder: (folder / "patients.sets-head").unlink(),
    "a digest changed": lambda folder: swap(folder / "patients.sets"),
    "no sets": lambda folder: (folder / "patients.sets").write_bytes(b"[1]\n[2]\n"),
}


def cut(file, kept):
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[kept]))


def swap(file):
    lines = file.read_bytes()
    place = lines.index(b'["') + 2
    file.write_bytes(lines[:place] + (b"0" if lines[place : place + 1] != b"0" else b"1") + lines[place + 1 :])


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_node_that_has_lost_sets_is_not_ready_and_signs_nothing(tmp_path, damage):
    remember_set(request_of(tmp_path), keys("a", "b", "c", "d", "e"))
    remember_set(request_of(tmp_path, at=(1, 2)), keys("a", "b", "c"))
    check_sets(request_of(tmp_path))
    damage(tmp_path)
    for look in (check_sets, lambda request: remember_set(request, keys("a", "b", "c", "d"))):
        with pytest.raises(LedgerDamaged):
            look(request_of(tmp_path))


def test_sets_are_no_ledger_and_a_ledger_is_no_sign_of_lost_sets(tmp_path):
    (tmp_path / "patients.published").mkdir()
    (tmp_path / "patients.published" / "answer").touch()
    check_sets(request_of(tmp_path))
    remember_set(request_of(tmp_path), keys("a", "b", "c"))
    assert names_in(tmp_path) == ["patients"]


def test_a_node_without_noise_to_lose_checks_nothing(tmp_path):
    remember_set(request_of(tmp_path), keys("a", "b", "c"))
    remove_all(tmp_path)
    check_sets(request_of(tmp_path, model="dp-statistics"))
    check_sets(request_of(tmp_path, real=False))


@pytest.mark.parametrize("changes", [{"model": "dp-statistics"}, {"real": False}])
def test_nothing_is_remembered_of_sums_with_noise_and_by_virtual_nodes(tmp_path, changes):
    for names in ("abc", "ab"):
        remember_set(request_of(tmp_path, **changes), keys(*names))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("missing", ["peers", "ledger"])
def test_a_real_node_without_peers_or_ledger_adds_nothing_exact(tmp_path, missing):
    whole = {"peers": "peers", "largest-epsilon": 1.0, "models": "statistics"}
    assert owner_refusals.refused(request_of(tmp_path, **whole)) == ""
    assert owner_refusals.refused(request_of(tmp_path, **{**whole, missing: None})) == "sets-not-remembered"
    assert "sets-not-remembered" in REFUSALS


def test_an_owner_who_does_not_name_the_model_gives_no_exact_statistics(tmp_path):
    request = request_of(tmp_path, peers="peers", **{"largest-epsilon": 1.0})
    assert owner_refusals.refused(request) == "model-not-allowed"
