"""Means of groups in the place of reports: an entry that too few groups sent is null in all of them."""

from __future__ import annotations

import numpy as np
import pytest

from fedlearn.config import RunConfig
from fedlearn.core.state import Sends, layout_of
from fedlearn.secure.summands import Summands, Total
from server.features.secure_sums.group_means import group_means
from strategies.base import Turn
from strategies.median import Median

STATE = {"w": np.zeros(200, np.float32), "count": np.array(3)}
GROUPS = 5


def sums_of(**compression):
    """Return what each of five groups of three nodes adds up, and sums in which all nodes sent their group's number."""
    config = RunConfig.model_validate({"secure": {"sums": "masked", "group_size": 3}, "compression": compression})
    found = []
    for group in range(GROUPS):
        summands = Summands(config, layout_of(STATE), [], seed=group)
        changes = {name: np.full(length, 3.0 * group) for name, length in summands.lengths.items()}
        found.append((summands, Total(3, 3, changes, {})))
    return found


def sent_by(found):
    sent = np.zeros((GROUPS, 200), bool)
    for group, (summands, _) in enumerate(found):
        positions = summands.kept["w"]
        sent[group, slice(None) if positions is None else positions] = True
    return sent


def test_mean_of_a_group_is_its_sum_by_its_weight_and_whole_numbers_are_not_in_it():
    means = group_means(sums_of(codec="identity"), layout_of(STATE), senders=1)
    assert [(weight, list(update)) for weight, update in means.updates] == [(1.0, ["w"])] * GROUPS
    assert all((update["w"].values == group).all() for group, (_, update) in enumerate(means.updates))


@pytest.mark.parametrize("senders", [1, 3, 5])
def test_entry_that_too_few_groups_sent_keeps_its_value_under_any_rule(senders):
    found = sums_of(codec="drop", keep_ratio=0.5)
    sent = sent_by(found)
    means = group_means(found, layout_of(STATE), senders=senders)
    after = Median().next_state(Turn(STATE, means, Sends.UPDATE)).state["w"]
    enough = sent.sum(axis=0) >= senders
    assert 0 < enough.mean() < 1
    expected = np.where(sent, np.arange(GROUPS)[:, np.newaxis], np.nan)[:, enough]
    np.testing.assert_array_equal(after[enough], np.nanmedian(expected, axis=0))
    assert (after[~enough] == 0).all()
