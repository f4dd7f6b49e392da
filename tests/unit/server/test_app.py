"""What the server finds out before the first round."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fedlearn.config import to_flower
from fedlearn.errors import SettingError
from fedlearn.models.presets import settings_from
from fedlearn.registry import load_reference
from server.app import has_private_learner

PRIVATE = "tests.end_to_end.plugins.noisy_counts:NoisyCounts"
UNKNOWN = "known_to_the_nodes_alone:Learner"


def exchange(learner, *, is_virtual):
    settings = to_flower(settings_from({"model.name": "linear", "data.dataset": "digits", "training.learner": learner}))
    return SimpleNamespace(
        is_virtual=is_virtual, compute=lambda what, state, each: [load_reference(what)(settings, state)]
    )


@pytest.mark.parametrize("is_virtual", [True, False])
@pytest.mark.parametrize(("learner", "is_private"), [(PRIVATE, True), ("sgd", False)])
def test_the_server_asks_the_learner_whether_it_is_private_on_a_network_too(learner, is_private, is_virtual):
    assert has_private_learner(exchange(learner, is_virtual=is_virtual)) is is_private


def test_a_learner_that_the_nodes_of_a_network_alone_know_is_no_error():
    assert not has_private_learner(exchange(UNKNOWN, is_virtual=False))
    with pytest.raises(SettingError, match=r"training\.learner"):
        has_private_learner(exchange(UNKNOWN, is_virtual=True))
