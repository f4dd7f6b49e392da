"""Replies come when the devices have done their work, however fast the nodes really ran."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from flwr.app import ConfigRecord, Error, Message, RecordDict

from fedlearn import flower, wire
from fedlearn.config import config_from
from fedlearn.core.errors import SettingError
from fedlearn.devices import Fleet
from fedlearn.engine.virtual_nodes import PromptNodes
from fedlearn.engine.virtual_time.setup import with_devices
from fedlearn.engine.virtual_time.timed_grid import VirtualTimeGrid
from fedlearn.engine.virtual_time.trips import Batches

NODES = 6
FIRST = 2


class Echo(PromptNodes):
    """Nodes that answer at once, with as many letters as they are asked for; they remember which of them ran."""

    def __init__(self) -> None:
        super().__init__(NODES, {})
        self.ran: list[int] = []
        self.limits: list[int | None] = []

    def answer(self, messages: Sequence[Message], *, seconds: float) -> Iterable[Message]:
        for message in reversed(messages):  # no order of theirs counts
            about = message.metadata
            self.ran.append(about.dst_node_id)
            self.limits.append(wire.most_examples(message.content))
            letters = int(message.content["config"]["letters"])
            content = RecordDict({"said": ConfigRecord({"text": "x" * letters})})
            error = Error(2, "no") if letters < 0 else None
            yield flower.reply_from(
                node_id=about.dst_node_id, message_type=about.message_type, reply_to=about.message_id,
                content=None if error else content, error=error,
            )  # fmt: skip


def made(*, batches: Batches | None = None, **numbers: object) -> tuple[VirtualTimeGrid, Echo]:
    inner = Echo()
    return VirtualTimeGrid(inner, Fleet.of(NODES, 1, **numbers), np.full(NODES, 10), batches), inner


def message(node: int, kind: str = "train", *, ttl: float = 100.0, letters: int = 0) -> Message:
    return Message(RecordDict({"config": ConfigRecord({"letters": letters})}), node, kind, ttl=ttl)


def arrivals(grid: VirtualTimeGrid, ids: Iterable[str], *, until: float) -> dict[int, float]:
    """Return when each node's reply came."""
    clock, came = grid.offers.clock, {}
    ids = list(ids)
    while True:
        came |= {reply.metadata.src_node_id: clock.now() for reply in grid.pull_messages(ids)}
        if clock.now() >= until:
            return came
        grid.wait(until - clock.now())


def test_a_report_arrives_at_start_download_work_and_upload():
    grid, _ = made(startup=3.0, down=50.0, up=20.0, seconds_per_example=0.5)
    sent = message(2, letters=100)
    down = wire.bytes_of(sent.content)
    came = arrivals(grid, grid.push_messages([sent]), until=100.0)
    up = wire.bytes_of(RecordDict({"said": ConfigRecord({"text": "x" * 100})}))
    assert came == {2: pytest.approx(3.0 + down / 50.0 + 10 * 0.5 + up / 20.0)}


def test_replies_come_in_the_order_of_their_arrival():
    grid, _ = made(startup=[5.0, 1.0, 3.0, 9.0, 7.0, 1.0])
    ids = list(grid.push_messages([message(node) for node in range(2, 8)]))
    grid.offers.clock.sleep(50.0)
    assert [reply.metadata.src_node_id for reply in grid.pull_messages(ids)] == [3, 7, 4, 2, 6, 5]
    assert list(grid.pull_messages(ids)) == []


def test_time_moves_to_the_next_arrival_and_no_further():
    grid, _ = made(startup=[5.0, 2.0, 90.0, 90.0, 90.0, 90.0])
    grid.push_messages([message(2), message(3)])
    seen = []
    for _ in range(4):
        grid.wait(10.0)
        seen.append(round(grid.offers.clock.now(), 3))
    assert seen == [2.0, 5.0, 15.0, 25.0]


def test_who_cannot_be_in_time_is_not_run_at_all():
    grid, inner = made(startup=[1.0, 100.0, 99.0, 200.0, 1.0, 1.0])
    came = arrivals(grid, grid.push_messages([message(node) for node in range(2, 6)]), until=300.0)
    assert sorted(inner.ran) == [2, 4]
    assert sorted(came) == [2, 4]


@pytest.mark.parametrize(
    ("ttl", "done"), [(100.0, 10), (10.1, 10), (9.9, 8), (8.1, 8), (7.9, 5), (3.1, 3), (2.9, None)]
)
def test_who_would_be_late_takes_the_steps_that_fit(ttl, done):
    grid, inner = made(seconds_per_example=1.0, batches=Batches(np.full(NODES, 5), size=3))
    came = arrivals(grid, grid.push_messages([message(FIRST, ttl=ttl)]), until=200.0)
    assert came == ({} if done is None else {FIRST: pytest.approx(done, abs=1e-3)})
    assert inner.limits == ([] if done is None else [None if done == 10 else done])


def test_an_upload_that_is_not_over_in_time_is_cut_off():
    grid, inner = made(up=[1.0, 1e9, 1e9, 1e9, 1e9, 1e9])
    came = arrivals(grid, grid.push_messages([message(2, letters=500), message(3, letters=500)]), until=1000.0)
    assert sorted(inner.ran) == [2, 3]
    assert sorted(came) == [3]


def test_a_training_that_is_lost_is_not_run():
    grid, inner = made(dropout=[1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    came = arrivals(grid, grid.push_messages([message(2), message(3)]), until=200.0)
    assert inner.ran == [3] == sorted(came)


def test_an_error_comes_when_the_work_would_have_been_done():
    grid, _ = made(startup=4.0)
    (key,) = grid.push_messages([message(2, letters=-1)])
    grid.wait(50.0)
    (reply,) = grid.pull_messages([key])
    assert reply.has_error()
    assert grid.offers.clock.now() == pytest.approx(4.0, abs=1e-3)


def test_who_trains_cannot_be_reached_until_it_is_done():
    grid, _ = made(startup=5.0)
    grid.push_messages([message(3)])
    assert list(grid.reachable()) == [2, 4, 5, 6, 7]
    grid.offers.clock.sleep(4.9)
    assert 3 not in grid.reachable()
    grid.offers.clock.sleep(0.2)
    assert list(grid.reachable()) == [2, 3, 4, 5, 6, 7]


def test_the_grid_says_which_messages_are_answered():
    grid, _ = made(startup=[5.0, 4.0, 90.0, 0.0, 0.0, 0.0])
    first, second, late = grid.push_messages([message(2), message(3), message(4)])
    assert list(grid.arrived()) == []
    grid.wait(50.0)
    assert list(grid.arrived()) == [second]
    grid.offers.clock.sleep(50.0)
    assert list(grid.arrived()) == [second, first]
    assert len(list(grid.pull_messages([second, late]))) == 1
    assert list(grid.arrived()) == [first]


def test_who_is_told_that_a_round_is_over_sends_nothing_more():
    grid, _ = made(startup=5.0)
    ids = list(grid.push_messages([message(2), message(3)]))
    grid.push_messages([message(3, wire.ROUND_OVER)])
    assert list(grid.reachable()) == [3, 4, 5, 6, 7]
    assert sorted(arrivals(grid, ids, until=50.0)) == [2]


def test_who_cannot_be_reached_is_not_among_those_that_can():
    grid, _ = made(available=[0.0, 1.0, 0.0, 1.0, 1.0, 0.0])
    assert list(grid.reachable()) == [3, 5, 6]


def test_measuring_takes_no_time():
    grid, _ = made(startup=5.0, up=1.0, down=1.0, seconds_per_example=100.0)
    (key,) = grid.push_messages([message(2, "evaluate", letters=500)])
    assert len(list(grid.pull_messages([key]))) == 1
    assert grid.offers.clock.now() == 0.0


def test_a_node_that_is_not_there_gets_no_id():
    grid, _ = made()
    assert [bool(key) for key in grid.push_messages([message(1), message(5), message(FIRST + NODES)])] == [
        False,
        True,
        False,
    ]


class Diary(Echo):
    """Each node keeps how often it was run; and it is known who was run together."""

    def __init__(self) -> None:
        super().__init__()
        self.together: list[list[int]] = []

    def answer(self, messages: Sequence[Message], *, seconds: float) -> Iterable[Message]:
        self.together.append([message.metadata.dst_node_id for message in messages])
        for node in self.together[-1]:
            self.keep({node: bytes([self.kept_by(node)[0] + 1 if self.kept_by(node) else 1])})
        return super().answer(messages, seconds=seconds)


def kept_by(inner: Diary) -> list[int]:
    return [inner.kept_by(node)[0] if inner.kept_by(node) else 0 for node in range(FIRST, FIRST + NODES)]


def diary(**numbers: object) -> tuple[VirtualTimeGrid, Diary]:
    inner = Diary()
    return VirtualTimeGrid(inner, Fleet.of(NODES, 1, **numbers), np.full(NODES, 10)), inner


def test_who_is_written_to_one_by_one_is_run_together():
    grid, inner = diary(startup=[5.0, 6.0, 1.0, 9.0, 1.0, 1.0])
    for node in (2, 3, 5):
        grid.push_messages([message(node)])
        grid.wait(0.5)
    assert inner.together == []  # nothing is done yet
    grid.wait(50.0)
    assert inner.together == [[2, 3, 5]]
    assert grid.offers.clock.now() == pytest.approx(5.0, abs=1e-3)


def test_what_a_node_keeps_changes_when_its_reply_arrives():
    grid, inner = diary(startup=[1.0, 5.0, 9.0, 1.0, 1.0, 1.0])
    grid.push_messages([message(node) for node in (2, 3, 4)])
    grid.wait(50.0)
    assert inner.together == [[2, 3, 4]]
    assert kept_by(inner) == [0, 0, 0, 0, 0, 0]  # run, and still under way
    grid.wait(50.0)
    assert kept_by(inner) == [1, 0, 0, 0, 0, 0]
    grid.wait(50.0)
    grid.wait(50.0)
    assert kept_by(inner) == [1, 1, 1, 0, 0, 0]


def test_who_is_stopped_keeps_what_it_kept_whether_or_not_it_was_run():
    grid, inner = diary(startup=[1.0, 5.0, 9.0, 1.0, 1.0, 1.0])
    grid.push_messages([message(node) for node in (2, 3)])
    grid.wait(50.0)
    grid.push_messages([message(4)])
    grid.push_messages([message(node, wire.ROUND_OVER) for node in (3, 4)])  # one was run, the other was not
    told = kept_by(inner)
    arrivals(grid, [], until=50.0)
    assert kept_by(inner) == [1, *told[1:]] == [1, 1, 1, 0, 0, 0]  # the notice itself


def test_whose_upload_is_cut_off_keeps_what_it_has_learned():
    grid, inner = diary(up=1.0)
    grid.push_messages([message(2, letters=500, ttl=20.0)])
    assert arrivals(grid, [], until=19.0) == {}
    assert kept_by(inner)[0] == 0
    arrivals(grid, [], until=20.0)
    assert kept_by(inner)[0] == 1


def test_two_trainings_of_one_node_are_run_one_after_the_other():
    grid, inner = diary(startup=2.0)
    ids = [*grid.push_messages([message(2), message(3)]), *grid.push_messages([message(2)])]
    assert sorted(arrivals(grid, ids, until=50.0)) == [2, 3]
    assert inner.together == [[2, 3], [2]]
    assert kept_by(inner)[0] == 1


def test_what_was_sent_before_a_stop_arrives_when_it_would_have():
    whole, _ = made(startup=[5.0, 7.0, 1.0, 1.0, 1.0, 1.0], up=20.0)
    expected = arrivals(whole, whole.push_messages([message(2, letters=40), message(3, letters=10)]), until=50.0)
    again, _ = made(startup=[5.0, 7.0, 1.0, 1.0, 1.0, 1.0], up=20.0)
    again.offers.clock.sleep(4.5)
    ids = again.push_again([message(2, letters=40), message(3, letters=10)], [0.0, 0.0])
    assert arrivals(again, ids, until=50.0) == expected


@pytest.mark.parametrize("available", [1.0, 0.5])
def test_one_node_can_be_reached_if_it_is_among_those_that_can(available):
    grid, _ = made(startup=5.0, available=available)
    grid.push_messages([message(3)])
    for _ in range(4):
        assert [node for node in range(2, 8) if grid.is_reachable(node)] == list(grid.reachable())
        grid.offers.clock.sleep(2.0)


def test_all_that_is_sent_at_once_can_be_waited_for():
    grid, _ = made(startup=[5.0, 2.0, 90.0, 9.0, 90.0, 90.0])
    replies = grid.send_and_receive([message(2), message(3), message(4)], timeout=20.0)
    assert [reply.metadata.src_node_id for reply in replies] == [3, 2]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"rounds.reporting_deadline": 0.01},
            "rounds.reporting_deadline = 0.01: the fastest of the devices 'alike' trains for",
        ),
        (
            {"devices.options.available": 0.0},
            "devices.name = 'alike': no device can ever be reached: available is 0 for all",
        ),
        (
            {"devices.options.dropout": 1.0},
            "devices.name = 'alike': every training is lost: dropout is 1 for all",
        ),
    ],
)
def test_devices_of_which_none_can_ever_report_are_refused(settings, text):
    config = config_from({"clients": 10, "data.dataset": "digits", "devices.name": "alike", **settings})
    with pytest.raises(SettingError) as error:
        with_devices(Echo(), config)
    assert str(error.value).startswith(text)


def test_without_devices_the_grid_is_the_engines_own():
    inner = Echo()
    assert with_devices(inner, config_from({"data.dataset": "digits"})) is inner
