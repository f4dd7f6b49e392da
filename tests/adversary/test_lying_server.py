"""Lies that a server tells real nodes which list their peers: each is refused, or gives no number of a single node.

`docs/explanations/privacy_against_whom.md` says the same in sentences.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from client.secure_sums import secure_node as summing
from client.secure_sums.whole_question import WholeQuestion
from fedlearn import flower, wire
from fedlearn.config import config_from
from fedlearn.models.loaded import loaded
from fedlearn.plugins.tables import HANDLERS
from fedlearn.secure.key_agreement import Signer, fresh_secret
from fedlearn.secure.level import Level, chosen
from fedlearn.secure.protocol_messages import Roster, Survivors, Unmasking
from fedlearn.statistics.column_histograms import UNIT
from tests.adversary.lying_server import METRIC, At, Attempt, NodeApart, RealNode, changed, owners_of

VICTIM, NODES = 3, 5
TRAINED = {
    "data.dataset": "digits", "model.name": "linear", "training.local_epochs": 1, "training.batch_size": 32,
    "rounds.total": 2, "rounds.cohort": 0, "secure.sums": "masked", "clients": NODES,
}  # fmt: skip
NO_SUM = "sum-out-of-range"  # masks of different questions do not cancel: what is unmasked is noise
RUNS = count()


def asked(**settings):
    """The settings of a run that no node has met."""
    return changed(config_from({**TRAINED, "out": f"run-{next(RUNS)}"}), **settings)


@pytest.fixture
def nodes(tmp_path):
    return [RealNode(each, **owner) for each, owner in enumerate(owners_of(tmp_path, NODES, least=4))]


def to_one(change):
    """Tell the victim something else."""
    return lambda number, what: change(what) if number == VICTIM else what


def to_others(change):
    """Tell all but the victim something else."""
    return lambda number, what: what if number == VICTIM else change(what)


def dead(state):
    return {name: np.zeros_like(array) for name, array in state.items()}


def one_bit(state):
    name = next(iter(state))
    array = state[name].copy()
    array.reshape(-1).view(np.uint8)[0] ^= 1
    return {**state, name: array}


def with_record(key, record):
    def change(content):
        flower.filled(content, {key: record})
        return content

    return change


def with_config(**more):
    def change(content):
        content[wire.CONFIG].update(more)
        return content

    return change


def of_settings(**settings):
    return {"settings": to_one(lambda config: changed(config, **settings))}


def of_content(change):
    return {"content": to_one(change)}


UNEQUAL = {  # what was asked of one node is not what was asked of the others
    "a dead state to all but one": {"state": to_others(dead)},
    "a dead state to one": {"state": to_one(dead)},
    "one bit of the state": {"state": to_one(one_bit)},
    "another limit of work": of_content(with_record("work", ConfigRecord({"most_examples": 32}))),
    "a parcel more": of_content(with_record("control", wire.pack_arrays({"a": np.zeros(2)}))),
    "a setting of the strategy": of_content(with_config(lr=1.0)),
    "a record that no learner of ours reads": of_content(with_record("further", ConfigRecord({"a": 1}))),
    "training.lr": of_settings(training__lr=1e-9),
    "training.local_epochs": of_settings(training__local_epochs=2),
    "training.passes": of_settings(training__passes=0.01),
    "training.batch_size": of_settings(training__batch_size=500),
    "training.momentum": of_settings(training__momentum=0.0),
    "training.weight_decay": of_settings(training__weight_decay=0.5),
    "training.clip_norm": of_settings(training__clip_norm=1e-6),
    "training.proximal_mu": of_settings(training__proximal_mu=100.0),
    "training.optimizer": of_settings(training__optimizer="adam"),
    "training.lr_schedule": of_settings(training__lr_schedule="constant", training__lr_decay=0.0),
    "data.node_test_share": of_settings(data__node_test_share=0.9),
    "data.partition": of_settings(data__partition="dirichlet"),
    "secure.clip": of_settings(secure__clip=2.0),
    "rounds.total": of_settings(rounds__total=1000),
    "seed": of_settings(seed=7),
    "strategy.name": of_settings(strategy__name="fedavgm"),
}


@pytest.fixture(scope="module")
def run_of(tmp_path_factory):
    """Nodes and settings of one run, and its rounds."""
    owners = owners_of(tmp_path_factory.mktemp("run"), NODES, least=4)
    return [RealNode(each, **owner) for each, owner in enumerate(owners)], asked(rounds__total=99), count(1)


@pytest.mark.parametrize("lie", UNEQUAL.values(), ids=UNEQUAL)
def test_the_masks_of_nodes_that_were_asked_different_things_never_cancel(run_of, lie):
    nodes, config, rounds = run_of
    outcome = Attempt(config, nodes, At(next(rounds), 1), **lie).outcome()
    assert isinstance(outcome, str) and (NO_SUM in outcome or "bad-signature" in outcome), outcome


def test_a_node_that_was_asked_for_another_metric_has_none_and_the_others_are_summed(nodes):
    attempt = Attempt(asked(), nodes, metrics=to_one(lambda name: "secret"))
    assert attempt.outcome().nodes == NODES - 1 and "secret" in attempt.refusals[0]


def test_what_is_asked_of_all_alike_gives_their_sum(nodes):
    for run in range(2):  # and once more, in another run: the same question to the same nodes
        found = Attempt(asked(seed=99), nodes).outcome()
        assert not isinstance(found, str), (run, found)


FORGOTTEN = {
    "state": ({"state": ""}, "a dead state to all but one"),
    "limit of work, parcels, the strategy's settings": ({"records": {}}, "another limit of work"),
    "settings": ({"asked": {}}, "training.lr"),
    "seed": ({"asked": {}, "seed": 0}, "seed"),
}


@pytest.mark.parametrize(("without_part", "lie"), FORGOTTEN.values(), ids=FORGOTTEN)
def test_a_digest_without_a_part_of_the_question_is_found(nodes, without_part, lie, monkeypatch):
    whole = WholeQuestion.of
    monkeypatch.setattr(WholeQuestion, "of", lambda request, state: replace(whole(request, state), **without_part))
    outcome = Attempt(asked(), nodes, **UNEQUAL[lie]).outcome()
    assert not isinstance(outcome, str)  # a sum, of nodes that were asked different things


def test_least_peers_of_the_roster_alone_would_be_found(nodes, monkeypatch):
    demands = summing.demands_of
    monkeypatch.setattr(summing, "demands_of", lambda request: replace(demands(request), summed=0))
    outcome = Attempt(asked(), nodes, survivors=told(lambda number: (0, 1, 2))).outcome()
    assert "too-few-survivors" not in str(outcome)


@pytest.mark.parametrize("rounds", [6, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.parametrize("settings", [{}, {"training__batch_size": 10_000}], ids=["drawn", "one batch"])
def test_rounds_with_changing_cohorts_of_listed_nodes_train(nodes, rounds, settings):
    config, rng = asked(rounds__total=999, training__lr=0.002, **settings), np.random.default_rng(3)
    state = loaded(config)[1].initial_state(seed=config.seed)
    losses = []
    for number in range(1, rounds + 1):
        cohort = [nodes[each] for each in sorted(rng.permutation(NODES)[: rng.integers(4, NODES + 1)])]
        told = {name: array.copy() for name, array in state.items()}
        found = Attempt(config, cohort, At(number, 1), state=lambda number, sent, told=told: told).outcome()
        assert not isinstance(found, str), (number, found)
        means = {name: change / found.weight for name, change in found.changes.items()}
        state = {name: array + means[name].reshape(array.shape).astype(array.dtype) for name, array in state.items()}
        losses.append(found.metrics[METRIC])
    assert losses[-1] < losses[0]


def roster_of(change):
    return lambda number, roster: change(roster)


def without(number):
    return lambda roster: Roster(
        roster.question, Level(4, 3, 2), tuple(each for each in roster.members if each.node != number)
    )


def twice(roster):
    return replace(roster, members=(*roster.members[:4], roster.members[0]))


def fewer_than_wanted(roster):
    return Roster(roster.question, Level(3, 2, 2), tuple(each for each in roster.members if each.node < 3))


def forged(**keys):
    def change(roster):
        member = roster.members[VICTIM]
        members = [each if each is not member else replace(member, **keys) for each in roster.members]
        return replace(roster, members=tuple(members))

    return change


def of_the_server(roster):
    """A node that the server has made up, properly signed, in the place of a peer."""
    signer, member = Signer(fresh_secret()), roster.members[VICTIM]
    mine = replace(member, verify=signer.public)
    return forged(verify=signer.public, signature=signer.sign(mine.statement))(roster)


def told(reported):
    return lambda number, survivors: Survivors(survivors.question, survivors.sharers, reported(number))


PROTOCOL = {
    "fewer nodes than the owners want": ({"roster": roster_of(fewer_than_wanted)}, "too-few-nodes"),
    "a key of the server": ({"roster": roster_of(forged(cipher=bytes(32)))}, "bad-signature"),
    "another masking key": ({"roster": roster_of(forged(mask=bytes(range(32))))}, "bad-signature"),
    "an invented node": ({"roster": roster_of(of_the_server)}, "undecodable"),
    "a client twice": (
        {"roster": roster_of(lambda r: replace(r, members=(*r.members[:4], r.members[0])))},
        "wrong-roster",
    ),
    "two sets": ({"survivors": told(lambda number: (0, 1, 2, 3) if number < 3 else (0, 1, 2, 3, 4))}, "bad-signature"),
    "a set of three": ({"survivors": told(lambda number: (0, 1, 2))}, "too-few-survivors"),
    "no signatures": ({"unmasking": lambda number, said: Unmasking(said.question, {})}, "too-few-signatures"),
    "two signatures": (
        {"unmasking": lambda number, said: Unmasking(said.question, dict(list(said.signatures.items())[:2]))},
        "too-few-signatures",
    ),
    "signatures of others": (
        {"unmasking": lambda number, said: Unmasking(said.question, dict.fromkeys(range(5), said.signatures[0]))},
        "bad-signature",
    ),
}


@pytest.mark.parametrize(("lie", "reason"), PROTOCOL.values(), ids=PROTOCOL)
def test_a_lie_about_nodes_is_refused(nodes, lie, reason):
    outcome = Attempt(asked(seed=next(RUNS)), nodes, **lie).outcome()
    assert isinstance(outcome, str) and reason in outcome, outcome


def test_a_node_that_is_told_of_another_roster_is_in_no_sum(nodes):
    attempt = Attempt(asked(), nodes, roster=to_one(without(0)))
    assert attempt.outcome().nodes == NODES - 1 and "malformed-shares" in attempt.refusals[0]


def test_a_level_below_the_owners_colluders_is_refused(tmp_path):
    owners = owners_of(tmp_path, 7, least=7, colluding=2)
    listed = [RealNode(each, **owner) for each, owner in enumerate(owners)]
    config = asked(clients=7, secure__dropouts=0.1)
    of = {colluders: chosen(7, colluders=colluders, dropouts=0.1).level for colluders in (1, 2)}
    assert "level-too-low" in Attempt(config, listed, level=of[1]).outcome()
    assert not isinstance(Attempt(changed(config, out="b"), listed, level=of[2]).outcome(), str)


@pytest.mark.parametrize("kind", [kind for kind in HANDLERS if kind.startswith("evaluate")])
def test_a_state_is_not_measured_in_the_clear(nodes, kind):
    flower.enter_run()
    content = RecordDict({wire.ARRAYS: wire.pack_arrays({"a": np.zeros(1)}), wire.CONFIG: ConfigRecord({"round": 1})})
    assert nodes[0].ask(kind, Message(content, 100, kind).content, asked())[0].endswith("sums-not-masked")


@pytest.mark.parametrize("sums", ["off", "unmasked"])
def test_a_report_without_masks_is_refused(nodes, sums):
    assert "sums-not-masked" in Attempt(asked(secure__sums=sums), nodes).outcome()


def test_an_attempt_is_made_once_and_a_round_is_unmasked_once(nodes):
    config = asked(seed=5)
    assert not isinstance(Attempt(config, nodes).outcome(), str)
    assert "asked-before" in Attempt(config, nodes, At(1, 2)).outcome()
    assert "asked-before" in Attempt(config, nodes[:4], At(1, 2)).outcome()
    assert not isinstance(Attempt(config, nodes, At(2, 1)).outcome(), str)
    assert "round-is-over" in Attempt(config, nodes, At(1, 3)).outcome()


def test_a_second_report_of_an_attempt_with_another_state_is_refused(nodes):
    config = asked(seed=6)
    twice = {"content": lambda number, content: [again(number, content), content][1]}
    said = []

    def again(number, content):
        other = flower.from_bytes(flower.to_bytes(content))
        flower.filled(other, {wire.ARRAYS: wire.pack_arrays(dead(wire.read_state(content)))})
        said.append(nodes[number].ask("train", other, config)[0])
        return other

    assert "another-report" in Attempt(config, nodes, **twice).outcome() and said == [""] * NODES


FULL = {"training__batch_size": 10_000}  # one batch: neither round nor seed decide what a node sends


@pytest.mark.parametrize("other", [{}, {"seed": 4}, {"gate__max_norm": 9.0}, {"secure__bits": 20}], ids=str)
@pytest.mark.parametrize("others", [(0, 1, 2, 3), (0, 1, 2, 4)])
def test_the_same_question_is_not_answered_with_a_node_less(nodes, other, others):
    config = asked(**FULL)
    assert not isinstance(Attempt(config, nodes).outcome(), str)
    state = loaded(config)[1].initial_state(seed=config.seed)
    again = changed(config, out=f"run-{next(RUNS)}", **other)
    fewer = Attempt(again, [nodes[each] for each in others], At(2, 1), state=lambda number, sent: dict(state))
    outcome = fewer.outcome()
    assert isinstance(outcome, str) and "tells-of-one" in outcome


def test_a_refused_message_does_not_rename_the_question_of_the_report_that_was_sent(nodes):
    config, reported = asked(**FULL), {}

    def keep(number, content):
        reported[number] = flower.from_bytes(flower.to_bytes(content))
        return content

    def ask_again(number, survivors):
        other = reported[number]
        flower.filled(other, {wire.ARRAYS: wire.pack_arrays(dead(wire.read_state(other)))})
        assert nodes[number].ask("train", other, config)[0]
        return survivors

    assert not isinstance(Attempt(config, nodes, content=keep, survivors=ask_again).outcome(), str)
    again = changed(config, out=f"run-{next(RUNS)}")
    assert "tells-of-one" in Attempt(again, nodes[:4]).outcome()


def test_a_node_that_vanishes_before_the_sum_is_unmasked_ends_nothing(nodes):
    config = asked(**FULL)
    assert "signed" not in str(Attempt(config, nodes, signers=2).outcome())  # two of five sign: no sum
    assert not isinstance(Attempt(config, nodes[:4], At(1, 2)).outcome(), str)
    again = changed(config, out=f"run-{next(RUNS)}")
    assert not isinstance(Attempt(again, nodes[:4]).outcome(), str)
    assert "tells-of-one" in Attempt(changed(config, out=f"run-{next(RUNS)}"), nodes).outcome()


# --- exact sums of rows


TABLE = {
    "data.dataset": "t.toml", "model.name": "statistics", "strategy.name": "sums", "rounds.total": 1,
    "rounds.cohort": 0, "secure.sums": "masked", "clients": 4,
}  # fmt: skip


@contextmanager
def hospitals(folder, **policy):
    """Four nodes with tables of their own, and what their owners allow."""
    rng, owners, listed = np.random.default_rng(5), owners_of(folder, 4, least=3), []
    for number, size in enumerate((100, 140, 215, 330)):
        data = folder / f"data-{number}"
        data.mkdir()
        rows = np.column_stack([rng.integers(0, most, size) for most in (100, 2, 50)])
        lines = "\n".join(",".join(map(str, row)) for row in rows)
        (data / "t.csv").write_text(f"age,hiv,dose\n{lines}\n")
        (data / "t.toml").write_text(
            'data = "t.csv"\ntarget = "dose"\ntarget_bounds = [0, 100]\nbounds = { age = [0, 100] }\n'
            'categories = { hiv = ["0", "1"] }\n'
        )
        own = {"ledger": str(folder / f"ledger-{number}"), "data-name": "patients", "largest-epsilon": 1.0}
        own |= {"own-data": True, "declared": "t.toml" if number else "./t.toml", **policy}
        listed.append(NodeApart(number, data, folder / f"cache-{number}", **owners[number], **own))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDLEARN_DATA", str(folder / "data-0"))
        patch.setenv("FEDLEARN_CACHE", str(folder / "cache"))
        yield listed
    for node in listed:
        node.end()


@pytest.fixture(scope="module")
def hospital(tmp_path_factory):
    with hospitals(tmp_path_factory.mktemp("hospital"), models="statistics") as listed:
        yield listed


def of_table(**settings):
    return changed(config_from({**TABLE, "out": f"run-{next(RUNS)}"}), **settings)


def test_exact_sums_are_of_all_rows_whatever_the_seed_and_of_one_set_of_nodes(hospital):
    sums = [Attempt(of_table(seed=seed), hospital).outcome() for seed in (1, 2)]
    assert not any(isinstance(each, str) for each in sums) and (sums[0] == sums[1]).all()
    for others in (hospital[:3], hospital[1:]):
        fewer = Attempt(of_table(), others, level=Level(3, 2, 2))
        assert fewer.outcome() == "tells-of-one"


ROWS = {
    "a share of rows held out": {"data__node_test_share": 0.004},
    "numbers cut at 10": {"gate__max_examples": 10},
    "numbers cut at 11": {"gate__max_examples": 11},
}


def test_no_server_reads_single_values_by_several_grids_of_an_exact_sum(hospital):
    sums = [Attempt(of_table(**{"model__options": {"bins": bins}}), hospital).outcome() for bins in (20, 21, 1000)]
    assert not isinstance(sums[0], str)
    assert sums[1:] == ["bins-not-declared"] * 2


BY_HIV = {"model__name": "describe", "model__options": {"by": "hiv"}}


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        (BY_HIV, "group-not-allowed"),
        ({**BY_HIV, "model__options": '{"by": ["hiv"]}'}, "group-not-allowed"),
        ({**BY_HIV, "model__options": '{"by": "", "by": "hiv"}'}, "group-not-allowed"),
        ({**BY_HIV, "model__name": "kaplan-meier"}, "group-not-allowed"),
        ({"model__name": "cox", "model__options": {"strata": "hiv"}}, "group-not-allowed"),
    ],
    ids=str,
)
def test_no_server_groups_by_a_column_that_no_owner_names(tmp_path, settings, word):
    with hospitals(tmp_path, models="describe,kaplan-meier,cox", groups="age") as nodes:
        assert Attempt(of_table(**settings), nodes).outcome() == word


def test_records_are_grouped_by_a_column_that_all_owners_name(tmp_path):
    with hospitals(tmp_path, models="describe", groups="hiv") as nodes:
        assert not isinstance(Attempt(of_table(**BY_HIV), nodes).outcome(), str)


class AskedOtherwise:
    """A node that is asked with other settings whether it is ready."""

    def __init__(self, node, **settings):
        self.number, self._node, self._settings = node.number, node, settings

    def ask(self, kind, content, config):
        return self._node.ask(kind, content, changed(config, **self._settings) if kind == "query.ready" else config)


OTHER = {"model__name": "mlp", "strategy__name": "fedavg"}  # which owners allow, and no ledger pays


@pytest.mark.parametrize("other", [{}, OTHER], ids=str)
def test_a_node_of_few_records_is_in_no_exact_sum_whatever_it_was_asked_before(tmp_path, other):
    """The first of four has 100 records, and the others 685."""
    with hospitals(tmp_path, models="statistics,mlp", **{"least-records": 120}) as nodes:
        found = Attempt(of_table(), [AskedOtherwise(node, **other) for node in nodes]).outcome()
    assert found[0] / UNIT == 685 if other else found == "not-ready"


def test_a_node_of_enough_records_is_in_an_exact_sum(tmp_path):
    with hospitals(tmp_path, models="statistics", **{"least-records": 100}) as nodes:
        assert Attempt(of_table(), nodes).outcome()[0] / UNIT == 785


NAMED = [{"data__dataset": "t.csv"}, {"data__options": {"target": "age"}}, {"data__dir": "/"}]


@pytest.mark.parametrize("settings", NAMED, ids=str)
def test_no_server_names_the_file_or_the_columns_of_an_exact_sum(hospital, settings):
    declared = Attempt(of_table(), hospital).outcome()
    named = Attempt(of_table(), hospital, settings=lambda number, config: changed(config, **settings)).outcome()
    assert not isinstance(declared, str) and (declared == named).all()


@pytest.mark.parametrize("settings", ROWS.values(), ids=ROWS)
def test_no_server_chooses_or_cuts_the_rows_of_an_exact_sum(hospital, settings):
    outcome = Attempt(of_table(**settings), hospital).outcome()
    assert outcome in ("rows-chosen", "not-ready")


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"secure__sums": "off"}, "sums-not-masked"),
        ({"model__name": "dp-statistics", "privacy__noise": "seeded"}, "model-not-allowed"),
        ({"client__mods": ["evil:mod"]}, "code-not-allowed"),
        ({"strategy__name": "evil:Strategy"}, "code-not-allowed"),
    ],
    ids=str,
)
def test_other_ways_to_the_rows_are_refused(hospital, settings, word):
    node, config = hospital[0], of_table(**settings)
    query = wire.ready_query(0, round_number=1, attempt=1, ttl=60.0).content
    assert node.ask("query.ready", query, config)[1][wire.CONFIG]["why_not"] == word
