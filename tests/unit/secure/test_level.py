"""The graph and the drop-out level, beside counts of all cases."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import hypergeom

from fedlearn.core.errors import UsageError
from fedlearn.secure.graph import Graph
from fedlearn.secure.level import Level, chosen, tail
from fedlearn.secure.question import bits_of


def parts_of(graph, among):
    """Return the connected parts that the graph falls into on a set of nodes."""
    left, parts = set(among), []
    while left:
        part, new = set(), {left.pop()}
        while new:
            part |= new
            new = {other for each in new for other in graph.neighbors(each, among=bits_of(left))}
            left -= new
        parts.append(part)
    return parts


@pytest.mark.parametrize(("nodes", "neighbors"), [(3, 2), (5, 4), (6, 5), (9, 4), (40, 12), (41, 40), (100, 32)])
def test_each_node_has_so_many_neighbors_and_is_theirs(nodes, neighbors):
    graph = Graph.drawn(b"seed", nodes=nodes, neighbors=neighbors)
    assert {bits.bit_count() for bits in graph.beside} == {neighbors}
    for each in range(nodes):
        assert each not in graph.neighbors(each)
        assert all(each in graph.neighbors(other) for other in graph.neighbors(each))
    assert len(parts_of(graph, range(nodes))) == 1


def test_the_graph_follows_from_its_seed_and_neighbors_are_anyone():
    first, again, other = (Graph.drawn(seed, nodes=30, neighbors=6) for seed in (b"a", b"a", b"b"))
    assert first == again != other
    seen = np.zeros((12, 12))
    for seed in range(3000):
        for each, bits in enumerate(Graph.drawn(str(seed).encode(), nodes=12, neighbors=4).beside):
            seen[each] += [bits >> other & 1 for other in range(12)]
    share = seen[~np.eye(12, dtype=bool)] / 3000
    assert abs(share - 4 / 11).max() < 5 * math.sqrt(4 / 11 * 7 / 11 / 3000)


@pytest.mark.parametrize(("nodes", "neighbors", "threshold"), [(9, 4, 3), (10, 6, 4), (11, 4, 3), (10, 4, 4)])
def test_survivors_hang_together_whomever_a_server_calls_lost(nodes, neighbors, threshold):
    """All sets in which each survivor keeps its threshold; all colluders up to what the threshold stands."""
    graph = Graph.drawn(b"x", nodes=nodes, neighbors=neighbors)
    stands = 2 * threshold - neighbors - 1
    looked = 0
    for bits in range(1, 1 << nodes):
        among = [each for each in range(nodes) if bits >> each & 1]
        if all(graph.degree(each, among=bits) >= threshold for each in among):
            for colluders in itertools.combinations(among, stands):
                looked += 1
                assert len(parts_of(graph, set(among) - set(colluders))) == 1
    assert looked > 10


def test_a_lower_threshold_than_the_rule_lets_survivors_fall_apart():
    graph = Graph.drawn(b"x", nodes=11, neighbors=4)
    apart = [
        bits
        for bits in range(1, 1 << 11)
        if all(graph.degree(each, among=bits) >= 2 for each in range(11) if bits >> each & 1)
        and len(parts_of(graph, [each for each in range(11) if bits >> each & 1])) > 1
    ]
    assert apart  # t = k/2


@pytest.mark.parametrize(
    ("draws", "marked", "of", "least"), [(32, 10, 99, 5), (64, 200, 999, 33), (4, 4, 5, 4), (5, 3, 9, 0)]
)
def test_tails_are_those_of_the_hypergeometric_distribution(draws, marked, of, least):
    assert 2 ** tail(draws, marked=marked, of=of, least=least) == pytest.approx(
        hypergeom(of, marked, draws).sf(least - 1)
    )


def test_tails_at_their_ends():
    assert tail(4, marked=3, of=9, least=4) == -math.inf
    assert tail(4, marked=3, of=9, least=0) == pytest.approx(0)
    assert tail(6, marked=8, of=9, least=-3) == pytest.approx(0)


@pytest.mark.parametrize(
    ("level", "lost", "probability"),
    [
        ((1000, 64, 32), 100, 8.95e-16),
        ((1000, 64, 32), 300, 0.158),
        ((100, 32, 16), 30, 0.086),
        ((10_000, 80, 40), 3000, 0.531),
    ],
)
def test_what_the_literature_takes_fails_at_thirty_percent(level, lost, probability):
    """The check values of a threshold of half, which no `Level` takes, and the same with one more."""
    nodes, neighbors, half = level
    at_one = tail(neighbors, marked=lost, of=nodes - 1, least=neighbors - half + 1)
    assert nodes * 2**at_one == pytest.approx(probability, rel=0.01)
    assert 2 ** Level(nodes, neighbors, half + 1).spoiled(lost) > min(2 * probability, 0.99)
    with pytest.raises(UsageError, match="more than half"):
        Level(nodes, neighbors, half)


def test_what_is_said_of_success_holds_over_all_losses():
    level, lost = Level(9, 4, 3), 2
    graph = Graph.drawn(b"x", nodes=9, neighbors=4)
    fails = [
        any(graph.degree(each, among=bits_of(set(range(9)) - set(gone))) < 3 for each in range(9))
        for gone in itertools.combinations(range(9), lost)
    ]
    assert sum(fails) / len(fails) <= 2 ** level.spoiled(lost)
    assert level.spoiled(0) == -math.inf and level.spoiled(5) == 0.0


def test_what_is_said_of_colluders_holds_over_all_places():
    level = Level(12, 6, 4, colluders=3)
    graph = Graph.drawn(b"x", nodes=12, neighbors=6)
    order = list(itertools.combinations(range(12), 3))
    opened = [
        any((graph.beside[each] & bits_of(some)).bit_count() >= 2 * 4 - 6 for each in set(range(12)) - set(some))
        for some in order
    ]
    assert sum(opened) / len(order) <= 2**level.opened
    assert Level(12, 6, 5, colluders=3).opened == -math.inf  # 2 t > k + c: wherever they are


@pytest.mark.parametrize("nodes", [3, 4, 5, 8, 20, 100, 1000])
@pytest.mark.parametrize("colluders", [0, 1, 2, 7, 90])
@pytest.mark.parametrize("dropouts", [0.0, 0.1, 0.3])
def test_what_is_chosen_stands_and_one_step_lower_does_not(nodes, colluders, dropouts):
    try:
        found = chosen(nodes, colluders=colluders, dropouts=dropouts)
    except UsageError as error:
        assert "\n" not in str(error) and str(error).startswith("secure")
        return
    level = found.level
    assert level.opened <= -40 and level.spoiled(found.lost) <= -20
    assert 2 * level.threshold > level.neighbors and level.signers > (nodes + colluders) / 2
    assert found.lost >= nodes * dropouts - 1e-9
    if 2 * (level.threshold - 1) > level.neighbors and not level.is_complete:
        assert Level(nodes, level.neighbors, level.threshold - 1, colluders).opened > -40


def test_levels_of_use_are_said_in_one_line():
    neighbors, promise = str(chosen(100, colluders=10, dropouts=0.1)).split(": ")
    assert neighbors == "32 neighbors, threshold 22"
    assert promise == "100 clients, 10 colluders never open an update; 10 lost clients never spoil the sum"
    assert "colluders open an update with at most 2^-4" in str(chosen(1000, colluders=200, dropouts=0.1))


@pytest.mark.parametrize(
    "wrong",
    [
        (2, 1, 1),
        (5, 3, 2),
        (5, 4, 2),
        (5, 4, 5),
        (9, 4, 2),
        (5, 4, 3, 2),
        (5, 4, 4, 4),
        (9, 0, 1),
        (9, 10, 6),
        (9, 4, 3, -1),
    ],
)
def test_a_level_that_protects_no_node_is_refused(wrong):
    with pytest.raises(UsageError, match=r"neighbors = |threshold = |secure"):
        Level(*wrong)


def test_a_level_that_cannot_stand_is_refused_in_one_line():
    with pytest.raises(UsageError, match=r"no threshold above half stands 4 lost clients and 4 colluders of 10"):
        chosen(10, colluders=4, dropouts=0.4)
    for wrong in ({"nodes": 2}, {"nodes": 5, "colluders": 4}, {"nodes": 5, "dropouts": 1.0}):
        with pytest.raises(UsageError, match="secure"):
            chosen(**wrong)
