from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from fedlearn.config.tables.reports import StrategySettings
from fedlearn.core.state import Entries, Sends, layout_of
from strategies import load_strategy
from strategies.masked_mean import MaskedSum
from strategies.spatial import unbiased_factor
from tests.oracles.cohorts import after


def next_of(state, reports, name="fedavg", decoder="spatial"):
    total = MaskedSum.empty(layout_of(state))
    for report in reports:
        total.add([report])
    strategy = load_strategy(StrategySettings(name=name, options={"decoder": decoder}))
    return after(strategy, state, total, sends=Sends.UPDATE)


@pytest.mark.parametrize(("nodes", "share"), [(2, 0.5), (3, 0.5), (4, 0.25)])
def test_the_expectation_over_all_masks_is_the_mean(nodes, share):
    # Every node sends `share` of four entries, so that each has the same share for sure; all masks are equally likely.
    size = 4
    rng = np.random.default_rng(1)
    changes = rng.standard_normal((nodes, size))
    state = {"w": np.zeros(size)}
    masks = [np.flatnonzero(bits) for bits in product([0, 1], repeat=size) if sum(bits) == share * size]
    results = []
    for chosen in product(masks, repeat=nodes):
        reports = [(1, {"w": Entries(change[mask], mask)}) for change, mask in zip(changes, chosen, strict=True)]
        results.append(next_of(state, reports)["w"])
    np.testing.assert_allclose(np.mean(results, axis=0), changes.mean(axis=0), atol=1e-12)


def test_all_nodes_that_send_all_entries_give_the_mean():
    changes = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float32)
    state = {"w": np.ones(7, np.float32)}
    reports = [(weight + 1, {"w": Entries(change)}) for weight, change in enumerate(changes)]
    spatial, plain = (next_of(state, reports, decoder=decoder)["w"] for decoder in ("spatial", "survivors"))
    np.testing.assert_allclose(spatial, plain, rtol=1e-5)


def test_an_entry_of_many_senders_counts_for_more_but_not_for_so_many_times_more():
    state = {"w": np.zeros(4)}
    senders = [[0], [1], [1], [1]]  # of each node's one entry
    after = next_of(state, [(1, {"w": Entries(np.ones(1), np.array(entry))}) for entry in senders])["w"]
    assert 1 < after[1] / after[0] < 3  # the senders' mean takes no notice of their number, rescaling is linear in it
    np.testing.assert_array_equal(after[2:], 0)


@pytest.mark.parametrize("nodes", [1, 2, 10, 1000])
def test_factor_is_finite_for_any_cohort(nodes):
    assert all(np.isfinite(unbiased_factor(nodes, share)) for share in (0.001, 0.5, 1.0))


def test_server_optimizers_take_it_too():
    reports = [(1, {"w": Entries(np.ones(2), np.array([0, 1]))}), (1, {"w": Entries(np.ones(2), np.array([1, 2]))})]
    state = {"w": np.zeros(4)}
    for name in ("fedavgm", "fedadam"):
        assert not np.array_equal(*(next_of(state, reports, name, each)["w"] for each in ("spatial", "survivors")))
