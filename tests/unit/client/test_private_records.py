"""A node whose records DP-SGD protects: what leaves it, what its ledger holds, and what a hostile server gets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flwr.app import Context, Message, MetricRecord, RecordDict

from fedlearn import flower, wire
from fedlearn.config import RunConfig, config_from, to_flower
from fedlearn.core.cohort import At, Instruction
from fedlearn.core.refusals import NOT_READY, REFUSALS
from fedlearn.core.state import State
from fedlearn.engine.apps import load_client_app
from fedlearn.models.loaded import initial_state
from fedlearn.models.presets import with_presets
from fedlearn.privacy.accounts import epsilon_of
from fedlearn.privacy.bookings import bookings
from fedlearn.privacy.ledger import Ledger
from fedlearn.runs.ledgers import LedgerFile
from server.features.downlink.anchors import Anchors
from tests.unit.client.test_ledger import logged, said_to_owner

NODE = 5
RUN = {
    "clients": 3, "data.dataset": "digits", "model.name": "linear", "privacy.protects": "records",
    "privacy.epsilon": 2.0, "privacy.delta": 1e-6, "privacy.noise": "secure", "privacy.records": 400,
    "training.batch_size": 100, "training.local_epochs": 1, "rounds.total": 2,
}  # fmt: skip


def config_of(**changes: object) -> RunConfig:
    changed = {name.replace("__", "."): value for name, value in changes.items()}
    return config_from(with_presets(RUN | changed))


class Hospital:
    """A node with data of its own, and an observer of all that it says."""

    def __init__(self, folder: Path, **policy: object) -> None:
        about = {"ledger": str(folder), "data-name": "patients", "own-data": True, "largest-epsilon": 4.0}
        self.about = {"partition-id": 1, **about, "delta": 1e-6, **{k.replace("_", "-"): v for k, v in policy.items()}}
        self.folder = folder

    def hears(self, message: Message, **changes: object) -> Message | str:
        """Return its reply, or the word that its own log has."""
        context = Context(1, NODE, dict(self.about), RecordDict(), to_flower(config_of(**changes)))
        with logged("fedlearn.node") as lines:
            reply: Message = load_client_app()(flower.with_id(message), context)
        word = wire.read_ready_answer(reply)[1]
        if reply.has_content() and word not in REFUSALS:
            return reply
        return str(said_to_owner(lines)) if word == NOT_READY else str(word)

    def ready(self, round_number: int = 1, **changes: object) -> str:
        reply = self.hears(wire.ready_query(NODE, round_number=round_number, attempt=1, ttl=60.0), **changes)
        return reply if isinstance(reply, str) else wire.read_ready_answer(reply)[1]

    def trains(self, *, round_number: int = 1, state: State | None = None, **changes: object) -> Message | str:
        sent = state or initial_state(to_flower(config_of()), {})
        message = Message(RecordDict({wire.ARRAYS: wire.pack_arrays(sent)}), NODE, "train")
        return self.hears(wire.with_instruction(message, Instruction(round_number, 1, 2), ttl=60.0), **changes)

    @property
    def ledger(self) -> Ledger:
        return Ledger(LedgerFile(self.folder, "patients"), most=4.0, delta=1e-6)


@pytest.fixture
def hospital(tmp_path: Path) -> Iterator[Hospital]:
    yield Hospital(tmp_path)


def arrays_of(reply: Message | str) -> tuple[bytes, ...]:
    assert isinstance(reply, Message), reply
    return tuple(packed.data for _, packed in sorted(wire.state_record(reply.content).items()))


def test_a_report_has_arrays_weight_1_and_epsilon_and_the_ledger_the_mechanism(hospital: Hospital) -> None:
    assert hospital.ready() == ""
    reply = hospital.trains()
    assert isinstance(reply, Message)
    assert set(wire.only(reply.content, MetricRecord)) == {"num-examples", "epsilon"}
    assert wire.read_num_examples(reply.content) == 1
    (line,) = bookings(hospital.ledger.entries())
    assert line.mechanism is not None and line.epsilon == 0 and line.is_secure and line.planned == 8
    assert (line.mechanism.rounds, line.mechanism.sampling_rate) == (4, 0.25)
    assert str(line.relation) == "add or remove one record" and str(line.unit) == "record"
    whole = line.plan
    assert whole is not None and 1.99 < epsilon_of([whole], delta=1e-6) <= 2.0


def test_a_question_that_comes_again_gets_the_same_bytes_and_costs_nothing(hospital: Hospital) -> None:
    first, again = arrays_of(hospital.trains()), arrays_of(hospital.trains())
    assert first == again and len(bookings(hospital.ledger.entries())) == 1


def test_after_the_planned_rounds_the_run_is_spent_whatever_the_server_asks(hospital: Hospital) -> None:
    for round_number in (1, 2):
        arrays_of(hospital.trains(round_number=round_number))
    assert hospital.ready(3) == "budget spent: 1.99997 of epsilon 2"
    assert hospital.trains(round_number=3) == "budget-spent"
    assert hospital.ready(2) == ""  # it is sent again
    assert hospital.ready(1, rounds__total=50, seed=2) == ""  # another run, with noise for 50 rounds, has a budget


def test_the_owners_ceiling_holds_over_runs_and_servers(hospital: Hospital) -> None:
    seen, seed = 0, 0
    for seed in range(1, 12):
        reply = hospital.trains(seed=seed)
        if isinstance(reply, str):
            assert reply == "budget-spent"
            break
        seen += 1
    assert 1 <= seen < 10 and hospital.ready(1, seed=seed) == "budget-spent"
    assert hospital.ledger.spent().epsilon <= 4.0


@pytest.mark.parametrize(
    ("policy", "changes", "why"),
    [
        ({"delta": 0.0}, {}, "delta-too-large"),
        ({"delta": 1e-9}, {}, "delta-too-large"),
        ({}, {"privacy__delta": 1e-3}, "delta-too-large"),
        ({}, {"privacy__epsilon": 5.0}, "epsilon-too-large"),
        ({}, {"privacy__noise": "seeded"}, "noise-not-secure"),
        ({}, {"privacy__public_sizes": True}, "sizes-not-public"),
        ({}, {"training__learner": "sgd"}, "model-not-allowed"),
        ({}, {"privacy__protects": "", "training__learner": "dp-sgd"}, "model-not-allowed"),
        ({}, {"training__learner": "mine.code:Learner"}, "model-not-allowed"),
        ({}, {"training__optimizer": "mine.code:Step"}, "code-not-allowed"),
        ({}, {"model__name": "mine.nets:Net"}, "model-not-allowed"),
        ({}, {"privacy__noise_multiplier": 0.01}, "node-failed"),
        ({}, {"compression__codec": "top-k"}, "code-not-allowed"),
        ({}, {"compression__downlink": "anchor:9:4,mine.code:Stage"}, "code-not-allowed"),
        ({"models": "dp-forest"}, {}, "model-not-allowed"),
    ],
)
def test_what_a_hostile_server_asks_is_refused_and_costs_nothing(
    tmp_path: Path, policy: dict[str, object], changes: dict[str, object], why: str
) -> None:
    hospital = Hospital(tmp_path, **policy)
    assert hospital.trains(**changes) == why
    assert hospital.ledger.entries() == []


def test_a_node_that_is_spent_and_one_that_may_not_say_the_same_word_to_a_server(hospital: Hospital) -> None:
    words = set()
    for changes in ({"privacy__delta": 1e-3}, {"privacy__epsilon": 5.0}, {"privacy__noise_multiplier": 0.01}):
        context = Context(1, NODE, dict(hospital.about), RecordDict(), to_flower(config_of(**changes)))
        query = wire.ready_query(NODE, round_number=1, attempt=1, ttl=60.0)
        words.add(wire.read_ready_answer(load_client_app()(flower.with_id(query), context))[1])
    assert words == {NOT_READY}


def test_nothing_is_measured_on_such_a_node(hospital: Hospital) -> None:
    state = initial_state(to_flower(config_of()), {})
    message = Message(RecordDict({wire.ARRAYS: wire.pack_arrays(state)}), NODE, "evaluate")
    assert hospital.hears(wire.with_instruction(message, Instruction(1, 1, 2), ttl=60.0)) == "private-model"


def test_the_number_of_rounds_belongs_to_the_run_unless_participations_are_said() -> None:
    from client.node_ledger import run_of

    base = config_of()
    assert run_of(base) != run_of(config_of(rounds__total=3))
    fixed = config_of(privacy__participations=2)
    assert run_of(fixed) == run_of(config_of(privacy__participations=2, rounds__total=30))


def test_a_state_that_comes_coded_is_the_same_question_with_its_anchor_and_without(hospital: Hospital) -> None:
    config = config_of(compression__downlink="anchor:9:2,eden", compression__send="update")
    state = initial_state(to_flower(config), {})
    anchors = Anchors.of(config, state, {})
    assert anchors is not None
    context = Context(1, NODE, dict(hospital.about), RecordDict(), to_flower(config))
    published = []
    for has in ("", "", "its own"):
        record = wire.pack_arrays(state)
        message = Message(RecordDict({wire.ARRAYS: record}), NODE, "train")
        anchors.correct([message], record, At(1, 1), {NODE: anchors.names[0] if has else ""})
        assert (wire.ANCHOR in message.content) is (not has)
        sent = flower.with_id(wire.with_instruction(message, Instruction(1, 1, 2), ttl=60.0))
        published.append(arrays_of(load_client_app()(sent, context)))
    assert published[0] == published[1] == published[2]
    assert len(bookings(hospital.ledger.entries())) == 1
