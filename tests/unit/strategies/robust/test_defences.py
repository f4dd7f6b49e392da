"""Defences equal their papers on dense changes; with null entries they keep what their page says."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.config.tables.reports import StrategySettings
from fedlearn.core.errors import SettingError
from fedlearn.core.state import Entries, Sends, layout_of
from strategies import load_strategy
from strategies.base import Turn
from strategies.collected import Collected
from strategies.robust.geometry import Changes, squared_distances
from strategies.robust.krum import scores
from strategies.robust.mixing import mixed, nearest_means
from tests.marked import some_long
from tests.oracles import defences as oracle

FIVE = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [1.0, 2.0], [10.0, -10.0]])


def made(name, **options):
    return load_strategy(StrategySettings.model_validate({"name": name, "options": options}))


def turn_of(rows, *, state=None, sends=Sends.UPDATE):
    """Return the turn of nodes that sent these rows; NaN is null."""
    state = state if state is not None else {"x": np.zeros(rows.shape[1])}
    updates = []
    for row in rows:
        sent = ~np.isnan(row)
        entries = Entries(row) if sent.all() else Entries(row[sent], np.flatnonzero(sent))
        updates.append((1.0, {"x": entries}))
    return Turn(state, Collected(layout_of(state), updates), sends)


def change_by(name, rows, **options):
    return made(name, **options).next_state(turn_of(rows)).state["x"]


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("krum", {}, (1, 0)),  # all four honest score 4: the lowest partition
        ("multi-krum", {"chosen": 2}, (0.5, 0.5)),
        ("multi-krum", {"chosen": 3}, (1, 2 / 3)),
        ("multi-krum", {}, (1, 1)),
        ("geometric-median", {}, (1.26326603, 0.63857388)),
        ("centered-clipping", {"radius": 1.0}, (0.60974951, 0.32690681)),
        ("centered-clipping", {"radius": 1.0, "iterations": 3}, (1.08620081, 0.64299121)),
        ("centered-clipping", {"radius": 1.0, "iterations": 1000}, (1.23799034, 0.71624706)),
        ("median", {}, (1, 1)),
        ("trimmed-mean", {"trim": 0.2}, (4 / 3, 2 / 3)),
        ("trimmed-mean", {"trim": 0.2, "mixing": True, "attackers": 1}, (1, 1)),
        ("krum", {"mixing": True}, (1, 1)),
    ],
)  # fmt: skip
def test_five_vectors_give_the_published_values(name, options, expected):
    np.testing.assert_allclose(change_by(name, FIVE, **options), expected, atol=1e-6)


def test_krum_counts_n_minus_f_minus_2_neighbors():
    points = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 2.0], [3.0, 0.0], [3.0, 2.0]])
    assert scores(points @ points.T, 1).tolist() == [6, 3, 6, 12, 8]
    assert change_by("krum", points).tolist() == [0, 1]  # with n - f - 1 neighbors it would be (1, 2)


def test_mixing_gives_the_published_rows():
    rows = nearest_means(FIVE @ FIVE.T, 1) @ FIVE
    np.testing.assert_allclose(rows, [[1, 1], [1, 1], [1, 1], [1, 1], [3.25, -2]])


RULES = {
    "krum": oracle.krum,
    "multi-krum": lambda X, f: oracle.multi_krum(X, f, len(X) - f),
    "geometric-median": lambda X, f: oracle.geometric_median(X, 3000),
    "centered-clipping": lambda X, f: oracle.centered_clipping(X, np.zeros(X.shape[1]), 1.0, 1),
    "bulyan": oracle.bulyan,
}
seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("name", some_long(RULES, "geometric-median"))
@given(seed=seeds)
def test_dense_changes_give_what_the_paper_says(name, seed):
    rng = np.random.default_rng(seed)
    f = int(rng.integers(0, 3))
    rows = rng.normal(size=(int(rng.integers(4 * f + 3, 14)), 6))
    rows[:f] *= 50
    rule = RULES[name]
    np.testing.assert_allclose(change_by(name, rows, attackers=f), rule(rows, f), rtol=1e-6, atol=1e-6)
    if name != "centered-clipping":
        mixed = change_by(name, rows, attackers=f, mixing=True)
        np.testing.assert_allclose(mixed, rule(oracle.nnm(rows, f), f), rtol=1e-6, atol=1e-6)


@pytest.mark.long
@given(seed=seeds)
def test_weights_and_changes_are_the_same_to_a_defence(seed):
    rng = np.random.default_rng(seed)
    old = {"x": rng.normal(size=5)}
    rows = rng.normal(size=(7, 5))
    for name in RULES:
        by_change = made(name).next_state(turn_of(rows, state=old)).state["x"]
        by_weights = made(name).next_state(turn_of(rows + old["x"], state=old, sends=Sends.WEIGHTS)).state["x"]
        np.testing.assert_allclose(by_change, by_weights, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [1e4, 1e8, 1e15, 1e30])
@pytest.mark.parametrize("name", RULES)
def test_a_huge_change_does_not_blur_the_distances_of_the_others(name, size):
    rng = np.random.default_rng(1)
    honest = rng.normal(size=(9, 40)) * 1e-4
    lies = np.full((1, 40), size)
    change = change_by(name, np.vstack([lies, honest]), radius=1e-3) if name == "centered-clipping" else change_by(
        name, np.vstack([lies, honest])
    )  # fmt: skip
    assert np.linalg.norm(change - honest.mean(0)) < 3e-3


def test_distances_are_taken_over_common_entries_and_scaled():
    rows = np.array([[1.0, 2.0, np.nan, np.nan], [3.0, np.nan, 5.0, np.nan], [np.nan, np.nan, np.nan, 7.0]])
    turn = turn_of(rows)
    changes = Changes(turn.state, [update for _, update in turn.total.updates], Sends.UPDATE)
    gram = changes.gram()
    assert gram[0, 1] == 4 * (1.0 * 3.0)  # one of four entries is common
    assert gram[0, 0] == 2 * (1 + 4)  # two of four were sent
    assert gram[0, 2] == 0  # nothing in common
    assert squared_distances(gram)[0, 1] == gram[0, 0] + gram[1, 1] - 2 * gram[0, 1]


@pytest.mark.long
def test_scaled_distances_have_no_bias_over_random_drops():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(2, 400))
    found = []
    for _ in range(400):
        rows = np.where(rng.random((2, 400)) < 0.3, np.array([x, y]), np.nan)
        turn = turn_of(rows)
        gram = Changes(turn.state, [update for _, update in turn.total.updates], Sends.UPDATE).gram()
        found.append(squared_distances(gram)[0, 1])
    exact = float(((x - y) ** 2).sum())
    assert abs(np.mean(found) - exact) < 4 * np.std(found) / 20


@pytest.mark.parametrize("name", RULES)
def test_an_entry_that_no_node_sent_keeps_its_value(name):
    rows = np.random.default_rng(2).normal(size=(9, 6))
    rows[:, 2] = np.nan
    state = {"x": np.full(6, 0.1)}
    after = made(name).next_state(turn_of(rows, state=state)).state["x"]
    assert after[2] == 0.1
    assert np.count_nonzero(after != 0.1) == 5


def test_bulyan_keeps_an_entry_that_too_few_selected_nodes_sent():
    rows = np.random.default_rng(2).normal(size=(7, 6))
    rows[1:, 3] = np.nan
    assert change_by("bulyan", rows, attackers=1)[3] == 0


def nearest_mean(column, kept):
    middle = np.median(column)
    return np.mean(sorted(column, key=lambda value: (abs(value - middle), value))[:kept]) if kept > 0 else 0.0


@pytest.mark.parametrize("mixing", [False, True])
def test_bulyan_means_the_sent_values_nearest_to_the_median(mixing):
    rng = np.random.default_rng(4)
    rows = np.where(rng.random((15, 4200)) < 0.8, rng.normal(size=(15, 4200)).round(1), np.nan)  # with ties
    turn = turn_of(rows)
    gram = Changes(turn.state, [update for _, update in turn.total.updates], Sends.UPDATE).gram()
    matrix = nearest_means(gram, 2) if mixing else np.eye(15)
    chosen, left = [], list(range(15))
    gram = matrix @ gram @ matrix.T
    while len(chosen) < 15 - 4:
        chosen.append(left.pop(int(np.argmin(scores(gram[np.ix_(left, left)], 2)))))
    values = [[v for v in column if not np.isnan(v)] for column in mixed(rows, matrix)[sorted(chosen)].T]
    expected = [nearest_mean(column, len(column) - 4) for column in values]
    np.testing.assert_allclose(change_by("bulyan", rows, attackers=2, mixing=mixing), expected, atol=1e-12)


@pytest.mark.parametrize("name", [*RULES, "median", "trimmed-mean"])
def test_memory_is_little_more_than_the_changes_themselves(name):
    rows = np.random.default_rng(1).normal(size=(50, 100_000)).astype(np.float32)
    turn = turn_of(rows, state={"x": np.zeros(100_000, np.float32)})
    tracemalloc.start()
    try:
        made(name).next_state(turn)
        more = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert more < 0.8 * rows.nbytes  # of which blocks are the most: they do not grow with the model


@pytest.mark.parametrize(("name", "needed"), [("krum", 7), ("multi-krum", 7), ("geometric-median", 5), ("bulyan", 11)])
def test_too_few_reports_change_nothing_and_too_small_cohorts_are_refused(name, needed):
    strategy = made(name, attackers=2)
    assert strategy.fewest_reports == needed
    rows = np.ones((needed - 1, 2))
    assert strategy.next_state(turn_of(rows)).state["x"].tolist() == [0, 0]
    strategy.check_cohort(needed)
    with pytest.raises(SettingError, match=f"needs {needed} reports to stand 2 attackers"):
        strategy.check_cohort(needed - 1)


def test_the_center_of_clipping_is_the_change_of_the_round_before():
    strategy = made("centered-clipping", radius=1.0)
    first = strategy.next_state(turn_of(FIVE)).state["x"]
    second = strategy.next_state(turn_of(FIVE)).state["x"]
    np.testing.assert_allclose(first, oracle.centered_clipping(FIVE, np.zeros(2), 1.0, 1))
    np.testing.assert_allclose(second, oracle.centered_clipping(FIVE, first, 1.0, 1))


def test_same_bytes_whatever_number_of_threads():
    from threadpoolctl import threadpool_limits

    rows = np.random.default_rng(3).normal(size=(20, 30_000)).astype(np.float32)
    state = {"x": np.zeros(30_000, np.float32)}
    found = set()
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.add(made("geometric-median", mixing=True).next_state(turn_of(rows, state=state)).state["x"].tobytes())
    assert len(found) == 1
