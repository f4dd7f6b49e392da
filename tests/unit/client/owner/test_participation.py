"""A node's separation: its memory alone decides, whatever a server asks, says or forgets."""

from __future__ import annotations

import pytest
from flwr.app import ConfigRecord, Context, RecordDict

from client.handlers.selection_handler import round_over
from client.owner.error_disclosure import Withheld
from client.owner.memory_file import memory_at_home
from client.owner.owner_refusals import refused
from client.owner.participation import LAST, check_separated, count_participation, why_not
from client.request import Request
from fedlearn import flower
from fedlearn.config import config_from, to_flower
from fedlearn.config.policy import SIMULATED

SEPARATED = {"privacy.protects": "nodes", "privacy.delta": 1e-6, "privacy.separation": 5}


def request(round_number=1, *, settings=SEPARATED, context=None, attempt=1, **node_config):
    about = {"round_number": round_number, "attempt": attempt, "position": 0}
    content = flower.filled(RecordDict(), {"instruction": flower.filled(ConfigRecord(), about)})
    message = flower.received(content, node_id=7, message_type="train", message_id="1", ttl=60.0)
    flat = to_flower(config_from(settings))
    return Request.of(message, context or Context(1, 7, {"partition-id": 3, **node_config}, RecordDict(), flat))


def reported(in_round, context):
    with memory_at_home(now := request(in_round, context=context)):
        check_separated(now)
        count_participation(now)
        now.keep_memory()


@pytest.fixture
def context(tmp_path):
    """Return that of a node on a network, with a folder for its memory."""
    node_config = {"partition-id": 3, "memory": str(tmp_path)}
    return Context(1, 7, node_config, RecordDict(), to_flower(config_from(SEPARATED)))


def is_refused(round_number, context, attempt=1):
    with memory_at_home(now := request(round_number, context=context, attempt=attempt)):
        if not why_not(now, round_number):
            return False
        with pytest.raises(Withheld, match=r"^not-ready$"):
            check_separated(now)
        return True


def test_a_node_takes_part_again_after_the_separation(context):
    reported(4, context)
    assert [number for number in range(1, 12) if not is_refused(number, context)] == [9, 10, 11]


@pytest.mark.parametrize("asked", [1, 3, 4, 5, 8, -1, 0])
def test_no_other_attempt_earlier_round_or_early_round_is_answered(context, asked):
    reported(4, context)
    assert is_refused(asked, context, attempt=2)


def test_a_notice_that_the_round_was_abandoned_changes_nothing(context):
    reported(4, context)
    told = flower.filled(ConfigRecord(), {"round_number": 4, "attempt": 1, "why": "abandoned"})
    message = flower.received(
        flower.filled(RecordDict(), {"config": told}), node_id=7, message_type="query", message_id="2", ttl=60.0
    )
    round_over(Request.of(message, context))
    assert is_refused(4, context) and is_refused(8, context)


def test_the_memory_outlasts_the_supernode(context, tmp_path):
    reported(4, context)
    anew = Context(2, 8, dict(context.node_config), RecordDict(), context.run_config)
    assert is_refused(8, anew) and not is_refused(9, anew)


def test_nothing_is_kept_where_no_noise_is_correlated():
    plain = request(4, settings={**SEPARATED, "privacy.separation": 1})
    count_participation(plain)
    assert LAST not in plain.memory.texts and not why_not(plain, 1)


def test_a_node_of_a_network_without_a_folder_takes_no_part(tmp_path):
    assert refused(request()) == "no-memory-folder"
    assert refused(request(memory=str(tmp_path))) == refused(request(**{SIMULATED: True})) == ""
