"""A node's spent epsilon is what an observer can count from its messages, whatever a server does."""

from __future__ import annotations

import json
import logging
from contextlib import contextmanager

import numpy as np
import pytest
from flwr.app import Context, Message, MetricRecord, RecordDict

from client.node_ledger import run_of
from client.owner.error_disclosure import Withheld
from client.owner.owner_refusals import PLAIN, names_code
from fedlearn import flower, wire
from fedlearn.config import config_from, from_flower, to_flower
from fedlearn.config.names import field_of, setting_names
from fedlearn.config.policy import SIMULATED, Policy
from fedlearn.core.cohort import Instruction
from fedlearn.core.refusals import NOT_READY, REFUSALS
from fedlearn.engine.apps import load_client_app
from fedlearn.engine.inline import InlineGrid
from fedlearn.engine.node_calls import partition_of
from fedlearn.models.loaded import initial_state
from fedlearn.privacy.bookings import bookings
from fedlearn.privacy.ledger import Ledger
from fedlearn.private_trees.federated.strategies.forest_union import ForestUnion
from fedlearn.runs.ledgers import LedgerFile, names_in
from tests.architecture.test_tables import TABLES

FOREST = {"clients": 4, "data.dataset": "diabetes", "model.name": "dp-forest", "privacy.noise": "secure", "out": "/a"}
NODE, PARTITION = 5, 3


def settings(**changes):
    return to_flower(config_from(FOREST | {name.replace("__", "."): value for name, value in changes.items()}))


STATE = initial_state(settings(), {})


@contextmanager
def logged(name):
    """Yield the texts that are logged within the block."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger(name).addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger(name).removeHandler(handler)


def said_to_owner(lines):
    """Return the reason in the last line of a node's log, without what follows a reason that is one word."""
    _, _, reason = lines[-1].partition("said to the server 'not-ready': ")
    word, colon, _ = reason.partition(": ")
    return word if colon and " " not in word else reason


def instruction(state=STATE, *, round_number=1, attempt=1):
    message = Message(RecordDict({wire.ARRAYS: wire.pack_arrays(state)}), NODE, "train")
    return wire.with_instruction(message, Instruction(round_number, attempt, 2), ttl=60.0)


class Hospital:
    """A node with data of its own, and an observer of all that it says. Each message finds it without its context."""

    def __init__(self, folder, **policy):
        about = {"ledger": str(folder), "data-name": "patients", "own-data": True, "largest-epsilon": 2.0}
        self.about = {"partition-id": PARTITION, **about, **{k.replace("_", "-"): v for k, v in policy.items()}}
        self.folder = folder
        self.seen = {}  # what arrays came -> the epsilon that came with them

    def hears(self, message, **changes):
        """Return its reply, or the reason why there is none: the word that it says, or what its own log has instead."""
        context = Context(1, NODE, dict(self.about), RecordDict(), settings(**changes))
        with logged("fedlearn.node") as lines:
            reply = load_client_app()(flower.with_id(message), context)
        word = wire.read_ready_answer(reply)[1]
        if reply.has_content() and word not in REFUSALS:
            return reply
        assert word in REFUSALS
        return said_to_owner(lines) if word == NOT_READY else word

    def ready(self, round_number=1, **changes):
        reply = self.hears(wire.ready_query(NODE, round_number=round_number, attempt=1, ttl=60.0), **changes)
        return reply if isinstance(reply, str) else wire.read_ready_answer(reply)[1]

    def trains(self, message=None, **changes):
        """Return the arrays of its report, or the reason why there is none."""
        reply = self.hears(message or instruction(), **changes)
        if isinstance(reply, str):
            return reply
        arrays = tuple(packed.data for _, packed in sorted(wire.state_record(reply.content).items()))
        self.seen[arrays] = wire.only(reply.content, MetricRecord)["epsilon"]
        return arrays

    @property
    def ledger(self):
        return Ledger(LedgerFile(self.folder, "patients"))


@pytest.fixture
def hospital(tmp_path):
    return Hospital(tmp_path)


def test_a_question_that_comes_again_gets_the_same_bytes_at_no_cost(hospital):
    """An abandoned round, a moved run folder, a node without its context, a run that is submitted again."""
    first = hospital.trains()
    assert hospital.ready() == ""
    again = [hospital.trains(instruction(attempt=attempt), out=out) for attempt in (2, 3) for out in ("/a", "/moved")]
    again.append(hospital.trains(rounds__total=7))
    assert set(again) == {first}
    assert (hospital.ledger.spent().epsilon, sum(hospital.seen.values())) == (1.0, 1.0)


def test_another_question_of_the_run_is_refused_and_another_run_is_paid_until_all_is_spent(hospital):
    hospital.trains()
    other = {**STATE, "root": np.zeros(1, STATE["root"].dtype)}
    assert hospital.trains(instruction(other)) == "budget-spent"
    assert hospital.trains(instruction(round_number=2), out="/moved") == "budget-spent"
    assert hospital.ready(2, out="/moved") == "budget spent: 1 of epsilon 1"
    hospital.trains(seed=2)
    assert (hospital.ledger.spent().epsilon, sum(hospital.seen.values()), len(hospital.seen)) == (2.0, 2.0, 2)
    assert hospital.ready(seed=3) == hospital.trains(seed=3) == "budget-spent"
    assert hospital.ready(seed=2) == ""
    assert (hospital.ledger.spent().epsilon, len(bookings(hospital.ledger.entries()))) == (2.0, 2)


BEYOND = {
    "epsilon-too-large": {"privacy.epsilon": 1e6},
    "noise-not-secure": {"privacy.noise": "seeded"},
    "sizes-not-public": {"privacy.public_sizes": True},
    "trust-not-allowed": {"model.name": "dp-naive-bayes", "privacy.trust": "distributed"},
    "model-not-allowed": {"model.name": "mlp"},
    "code-not-allowed": {"training.learner": "fedlearn.private_trees.federated.learners.tree_learner:TreeLearner"},
}


@pytest.mark.parametrize("word", BEYOND)
def test_what_a_hostile_server_asks_is_refused_by_a_word_and_costs_nothing(hospital, word):
    hostile = {name.replace(".", "__"): value for name, value in BEYOND[word].items()}
    assert hospital.ready(**hostile) == word
    assert hospital.trains(**hostile) == word
    asked = wire.evaluation(NODE, wire.pack_arrays(STATE), round_number=1, ttl=60.0)
    assert hospital.hears(asked, **hostile) == (word if word in REFUSALS else "private-model")
    assert names_in(hospital.folder) == []


@pytest.mark.parametrize("codec", ["no_such_module:Codec", "residual,top-k:0.1"])
def test_published_trees_go_through_no_codec(hospital, codec):
    assert hospital.ready(compression__codec=codec) == "code-not-allowed"
    assert hospital.ready(compression__downlink=codec) == "code-not-allowed"


def test_a_server_cannot_have_one_ledger_pay_for_the_data_of_another(hospital, tmp_path, monkeypatch):
    """A link, a way out, and a file in the folder that the program was started in."""
    home, other = tmp_path / "patients", tmp_path / "staff"
    home.mkdir()
    other.mkdir()
    (other / "table.toml").touch()
    (home / "link.toml").symlink_to(other / "table.toml")
    monkeypatch.chdir(other)
    monkeypatch.setenv("FEDLEARN_DATA", str(home))
    for name in (other / "table.toml", "../staff/table.toml", "link.toml", "table.toml", "~/table.toml"):
        assert hospital.ready(data__dataset=str(name)) == "data-not-allowed", name
    assert hospital.ready(data__dir=str(other)) == "data-not-allowed"
    monkeypatch.delenv("FEDLEARN_DATA")
    assert hospital.ready(data__dataset="elsewhere.toml") == "data-not-allowed"


def test_a_table_that_the_owner_declares_is_trained_on_whatever_file_a_server_names(tmp_path, monkeypatch):
    hospital = Hospital(tmp_path, declared="t.toml")
    rows = [f"{age},{age % 7}" for age in range(90)]
    (tmp_path / "t.csv").write_text("\n".join(["age,stay", *rows]))
    (tmp_path / "t.toml").write_text(
        'data = "t.csv"\ntarget = "stay"\ntarget_bounds = [0, 9]\nbounds = {age = [0, 99]}\n'
    )
    monkeypatch.setenv("FEDLEARN_DATA", str(tmp_path))
    for name in ("t.toml", str(tmp_path / "t.toml"), "elsewhere.csv", "diabetes"):
        assert hospital.ready(data__dataset=name) == ""
    assert Hospital(tmp_path).ready(data__dataset="t.toml") == "data-not-allowed"


REGISTERED = {table.setting for table in TABLES.values()} - {"--log"}
PRIVATE = {"model.name": "dp-forest", "model.loss": ""}
SHARED = {"model.name": "mlp", "data.dataset": "digits"}
CODE = "no_such_module:thing"


def valued(setting, reference):
    """Return a setting that names a reference, in the form that it takes."""
    kind = field_of(setting)
    return {reference: {}} if kind.metadata and setting.endswith(("steps", "options")) else reference


@pytest.mark.parametrize("model", [PRIVATE, SHARED], ids=["private", "allowed"])
@pytest.mark.parametrize("setting", sorted(REGISTERED | {"compression.downlink", "client.mods"}))
def test_code_that_a_server_names_is_not_even_imported(tmp_path, setting, model):
    """All settings that any table is asked for, so that a new one is among them."""
    hospital = Hospital(tmp_path, models="dp-forest, mlp")
    changes = {name.replace(".", "__"): value for name, value in {**model, setting: valued(setting, CODE)}.items()}
    assert hospital.ready(**changes) == "code-not-allowed"
    assert hospital.trains(**changes) == "code-not-allowed"


NUMBERS = {
    "stop.target",
    "stop.time_limit",
    "data.validation_share",
    "rounds.without",
}  # as a text that is empty without one: no other text is taken
WORDS = {"evaluation.beside"}  # of a list, and no others
TEXTS = sorted(
    name for name in setting_names() if field_of(name).annotation is str and name not in PLAIN | NUMBERS | WORDS
)


@pytest.mark.parametrize("setting", TEXTS)
def test_every_setting_that_is_no_plain_text_is_taken_for_one_that_may_name_code(setting):
    assert names_code(config_from({**FOREST, setting: valued(setting, CODE)}))


@pytest.mark.parametrize(
    "given",
    [
        {"strategy.options": {"strategy": CODE}}, {"data.partition_options": {"sizes": ["uniform", CODE]}},
        {"strategy.steps": {"clip": {}, CODE: {"norm": 1.0}}}, {"compression.codec": f"drop:0.1, {CODE}:4"},
        {"training.optimizer": "sgd:thing"}, {"model.loss": "object:thing-1"}, {"data.dataset": "[x:y"},
        {"rounds.selector_options": {"deep": [[[[{CODE: 1}]]]]}},
    ],
    ids=str,
)  # fmt: skip
def test_code_is_found_wherever_a_setting_hides_it(given):
    assert names_code(config_from({**FOREST, **given}))


def test_what_is_ours_is_no_code_of_a_server():
    ours = {
        "strategy.steps": {"clip": {"norm": 1.0}}, "compression.codec": "drop:0.1, rotate,ternary:0.2",
        "compression.send": "update", "out": "/a:b", "engine.device": "cuda:1", "engine.options.address": "a:1",
        "strategy.options": {"server_lr": 0.1}, "data.notice": "no: it is not",
    }  # fmt: skip
    assert not names_code(config_from({**FOREST, **ours}))


@pytest.mark.parametrize("is_boxed", [False, True])
def test_a_message_names_no_code_either(tmp_path, is_boxed):
    """The codec of a parcel beside the state comes with the instruction, and not with the settings."""
    hospital = Hospital(tmp_path)
    message = instruction()
    message.content[wire.PARCELS] = wire.parcels_record({"control": CODE})
    if is_boxed:
        wire.box(message.content)
    assert hospital.trains(message) == "code-not-allowed"
    assert names_in(tmp_path) == []


def test_what_the_owner_allows_is_done(tmp_path):
    hospital = Hospital(tmp_path, public_sizes=True, seeded_noise=True, largest_epsilon=4.0, models="dp-forest, cnn")
    hospital.trains(privacy__public_sizes=True)
    assert list(hospital.seen.values()) == [2.0]  # the number of records is known: twice, and of replaced ones
    hospital.trains(privacy__noise="seeded")
    assert str(hospital.ledger.spent()) == "epsilon = 4 (replace one record; unit: record; not secure: protects nobody)"
    assert hospital.ready(seed=9) == "budget-spent"


BOOSTING = {"model__name": "dp-boosting", "rounds__total": 5, "strategy__name": "sums"}


def test_a_round_of_sums_costs_its_share_and_comes_again_for_nothing(hospital):
    """A hostile server asks a round again, of other states, and for rounds beyond the plan: all of it is counted."""
    state = initial_state(settings(**BOOSTING), {})

    def asks(state, round_number, **more):
        return hospital.trains(instruction(state, round_number=round_number, **more), **BOOSTING)

    def spent():
        return pytest.approx(hospital.ledger.spent().epsilon)

    first = asks(state, 1)
    assert asks(state, 1, attempt=2) == asks(state, 1, attempt=3) == first
    assert spent() == 0.2
    assert asks({"sums": np.zeros(7, np.int64), "reports": np.ones(1, np.int64)}, 2) == "wrong-shape"
    assert spent() == 0.2  # what cannot be answered costs nothing
    states = [{"sums": np.full(1280, each), "reports": np.ones(1, np.int64)} for each in range(9)]
    answers = [
        asks(each, round_number) for each, round_number in zip(states, (1, 2, 2, 99, 1, 2, 3, 4, 5), strict=True)
    ]
    assert [answer == "budget-spent" for answer in answers] == [False] * 4 + [True] * 5
    assert spent() == 1.0
    assert asks(state, 1) == first


REAL = [{}, {"device": "cpu"}, {"simulated": "true"}, {"own-data": True}, {"memory": "/tmp"}]


@pytest.mark.parametrize("about", REAL, ids=str)
def test_a_real_node_without_a_ledger_refuses_distributed_noise_too(tmp_path, about):
    """Its own noise would be a share, and its report is not hidden; it need not say that it is real."""
    hospital = Hospital(tmp_path)
    hospital.about = {"partition-id": PARTITION, "num-partitions": 4, **about}
    hostile = {"model__name": "dp-naive-bayes", "privacy__trust": "distributed", "privacy__noise": "seeded"}
    assert hospital.ready(**hostile) == hospital.trains(**hostile) == "trust-not-allowed"


@pytest.mark.parametrize(("least", "word"), [(443, "not-enough-records"), (442, "")])
def test_with_fewer_records_than_the_owner_asks_for_a_node_takes_no_part(tmp_path, least, word):
    hospital = Hospital(tmp_path, least_records=least)
    assert hospital.ready() == word
    assert (hospital.trains() == word) is bool(word)
    assert names_in(tmp_path) == ([] if word else ["patients"])


def table_of(folder, monkeypatch, rows):
    (folder / "t.csv").write_text(
        "\n".join(["a,y", *(f"{'uv'[row % 2]},{('no', 'yes')[row % 3 == 0]}" for row in range(rows))])
    )
    (folder / "t.toml").write_text('data="t.csv"\ntarget="y"\nclasses=["no","yes"]\ncategories={a=["u","v"]}\n')
    monkeypatch.setenv("FEDLEARN_DATA", str(folder))
    return {"model__name": "dp-naive-bayes", "strategy__name": "sums", "data__dataset": "t.toml"}


@pytest.mark.parametrize("own", [True, False], ids=["own data", "a share"])
def test_no_setting_of_a_server_moves_what_the_least_number_of_records_is_compared_with(tmp_path, monkeypatch, own):
    """A share of the rows, or of the nodes, that a server chooses would have it find their number by halving."""
    asked = table_of(tmp_path, monkeypatch, 300)
    hospital = Hospital(tmp_path / "ledgers", least_records=200, largest_epsilon=9.0)
    hospital.about["own-data"] = own
    shares = [{"data__node_test_share": share} for share in (0.0, 0.5, 0.99)]
    parts = [{"clients": clients, "seed": clients} for clients in (4, 100)]
    words = {hospital.ready(**asked, **more) for more in (*shares, *parts)}
    assert "not-enough-records" not in words
    assert hospital.ready(**asked, data__options={"target": "a"}) == "data-not-allowed"


def test_a_server_asks_no_more_questions_than_the_owner_allows_however_little_they_cost(tmp_path):
    hospital = Hospital(tmp_path, most_questions=3)
    answers = [hospital.trains(seed=seed, privacy__epsilon=1e-9) for seed in range(1, 5)]
    assert [answer == "budget-spent" for answer in answers] == [False, False, False, True]
    assert hospital.ready(seed=9) == "budget-spent"
    assert hospital.trains(seed=1, privacy__epsilon=1e-9) == answers[0]  # what was answered comes again
    assert Policy.model_fields["most_questions"].default == 10_000


def test_shares_of_one_table_pay_from_one_ledger(tmp_path):
    """Which record is whose follows from the seed, which is the server's: a record is paid for by its table."""
    hospital = Hospital(tmp_path, largest_epsilon=2.5)
    del hospital.about["own-data"]
    for partition, seed in ((0, 1), (1, 2), (2, 3)):
        hospital.about["partition-id"] = partition
        answer = hospital.trains(seed=seed)
    assert answer == "budget-spent"
    assert hospital.ledger.spent().epsilon == 2.0
    hospital.about["partition-id"] = 1
    assert hospital.trains(seed=2) in hospital.seen


def test_of_the_shares_of_one_run_the_one_that_spends_the_most_counts(tmp_path):
    """A record lies in one of them; in another run it may lie in another."""
    hospital = Hospital(tmp_path, largest_epsilon=1.0)
    del hospital.about["own-data"]
    for hospital.about["partition-id"] in (0, 1):
        assert hospital.ready() == ""
        assert isinstance(hospital.trains(), tuple)
    assert hospital.ledger.spent().epsilon == 1.0
    assert hospital.trains(seed=2) == "budget-spent"


@pytest.mark.parametrize(
    "policy",
    [
        {"largest_epsilon": "much"},
        {"largest_epsilon": True},
        {"largest_epsilon": "3"},
        {"seeded_noise": 1},
        {"least_records": -1},
    ],
)
def test_a_policy_that_cannot_be_read_allows_nothing(tmp_path, policy):
    hospital = Hospital(tmp_path, **policy)
    assert hospital.ready() == hospital.trains() == "policy-unreadable"


def test_without_a_ledger_own_data_are_for_no_private_model(hospital):
    del hospital.about["ledger"]
    assert hospital.ready() == hospital.trains() == "no-ledger"


def test_a_ledger_that_was_changed_stops_the_node(hospital):
    hospital.trains()
    (file,) = hospital.folder.glob("*.ledger")
    file.write_bytes(file.read_bytes().replace(b'"epsilon": 1.0', b'"epsilon": 0.1'))
    assert hospital.ready() == hospital.trains() == hospital.trains(seed=2) == "ledger-damaged"


def test_under_flowers_own_loop_with_evaluation_the_ledgers_hold_what_was_seen(tmp_path):
    seen = []

    def client(message, context):
        about = {"ledger": str(tmp_path), "data-name": f"of-{partition_of(context.node_id)}", "largest-epsilon": 5.0}
        about |= {"partition-id": partition_of(context.node_id), "own-data": True}
        here = Context(1, context.node_id, about, RecordDict(), context.run_config)
        reply = load_client_app()(message, here)
        seen.append((message.metadata.message_type, reply.content))
        return reply

    grid = InlineGrid(client, 4, settings())
    ForestUnion().start(grid=grid, initial_arrays=wire.pack_arrays(STATE), num_rounds=2, timeout=60.0)
    counted = [float(wire.only(content, MetricRecord)["epsilon"]) for kind, content in seen]
    assert [kind for kind, _ in seen] == ["train"] * 4  # no evaluation, and no second round
    assert all(set(wire.only(content, MetricRecord)) == {"num-examples", "epsilon"} for _, content in seen)
    booked = [Ledger(LedgerFile(tmp_path, name)).spent().epsilon for name in names_in(tmp_path)]
    assert (sum(counted), sum(booked)) == (4.0, 4.0)


class Simulated:
    """A node whose ledger is a part of what the engine keeps for it."""

    def __init__(self):
        self.context = Context(1, NODE, {"partition-id": PARTITION, SIMULATED: True}, RecordDict(), settings())

    def trains(self, **about):
        content = load_client_app()(flower.with_id(instruction(**about)), self.context).content
        return flower.to_bytes(RecordDict({key: content[key] for key in (wire.ARRAYS, wire.METRICS)}))


def test_in_a_simulation_an_abandoned_round_costs_nothing_more():
    node = Simulated()
    first = node.trains()
    assert node.trains(attempt=2) == first
    lines = str(node.context.state["memory"]["ledger"]).splitlines()
    assert [json.loads(line.rpartition(" ")[0]).get("kind", "head") for line in lines] == ["head", "spent", "published"]
    with pytest.raises(Withheld, match="budget-spent"):
        node.trains(round_number=2)


def test_a_node_that_spent_its_budget_before_there_were_ledgers_has_spent_it():
    node = Simulated()
    node.context.state["memory"] = flower.filled(wire.read_config({}), {"account": "{}"})
    with pytest.raises(Withheld, match="budget-spent"):
        node.trains()


def test_a_run_is_told_by_what_an_answer_depends_on():
    def of(**changes):
        return run_of(from_flower(settings(**changes)))

    same = [{}, {"out": "/b"}, {"rounds__total": 9}, {"data__notice": "?"}, {"gate__max_depth": 3}]
    others = [{"seed": 2}, {"privacy__epsilon": 2.0}, {"clients": 5}, {"model__options": '{"candidates": 2}'}]
    assert len({of(**changes) for changes in same}) == 1
    assert len({of(**changes) for changes in (same[0], *others)}) == 5


@pytest.mark.parametrize("trust", ["local", "distributed"])
def test_runs_whose_nodes_add_noise_differ_by_all_that_their_noise_goes_by(trust):
    def of(**changes):
        given = {"privacy__protects": "nodes", "privacy__trust": trust, "privacy__delta": 1e-5, **changes}
        return run_of(from_flower(settings(**given)))

    others = [{"privacy__clip": 2.0}, {"privacy__noise_multiplier": 3.0}, {"privacy__delta": 1e-6}]
    others += [{"privacy__shares": "skellam"}] if trust == "distributed" else []
    assert len({of(**changes) for changes in ({}, *others)}) == 1 + len(others)
