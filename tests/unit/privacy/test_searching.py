"""The best of a random number of runs: its law, and that it costs (2 + eta) runs."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.privacy.searching import best_of, continuation, cost_of_search, number_of_runs

MEANS = [1.5, 10.0, 200.0]


def generating(x, going_on, eta):
    """Return E[x^K]."""
    return math.log1p(-going_on * x) / math.log1p(-going_on) if eta == 0 else (1 - going_on) * x / (1 - going_on * x)


def law(outcomes, going_on, eta):
    """Return the probability that each outcome is published; those of a run come worst first."""
    below = np.concatenate([[0.0], np.cumsum(outcomes)])
    below[-1] = 1.0
    return [generating(b, going_on, eta) - generating(a, going_on, eta) for a, b in pairwise(below)]


@pytest.mark.parametrize("eta", [0, 1])
@pytest.mark.parametrize("mean", MEANS)
def test_the_number_of_runs_has_its_mean_and_its_law(eta, mean):
    going_on = continuation(mean, eta=eta)
    slope = (generating(1.0, going_on, eta) - generating(1 - 1e-7, going_on, eta)) / 1e-7
    assert slope == pytest.approx(mean, rel=1e-3)
    rng = np.random.default_rng(0)
    runs = np.array([number_of_runs(mean, eta=eta, rng=rng) for _ in range(20_000)])
    assert runs.min() >= 1
    for x in (0.3, 0.9):  # x^K lies in [0, 1]: its mean errs by more than 0.02 with a probability below 1e-6
        assert (x**runs).mean() == pytest.approx(generating(x, going_on, eta), abs=0.02)


@pytest.mark.parametrize("eta", [0, 1])
@given(seed=st.integers(0, 2**32), epsilon=st.sampled_from([0.1, 1.0, 3.0]), mean=st.sampled_from(MEANS))
def test_no_outcome_of_a_search_tells_neighbors_apart_by_more_than_it_costs(eta, seed, epsilon, mean):
    rng = np.random.default_rng(seed)
    first = rng.dirichlet(np.full(4, 0.3)) + 1e-9
    second = first * np.exp(rng.choice([-1, 1], size=4) * epsilon / 2)
    first, second = first / first.sum(), second / second.sum()
    runs_lose = np.abs(np.log(first / second)).max()
    going_on = continuation(mean, eta=eta)
    for one, other in zip(law(first, going_on, eta), law(second, going_on, eta), strict=True):
        if min(one, other) > 1e-12:  # below, the difference of two numbers near 1 is rounding
            assert abs(math.log(one / other)) <= cost_of_search(runs_lose, eta=eta) + 1e-3


@pytest.mark.parametrize("eta", [0, 1])
def test_a_search_may_lose_nearly_all_that_it_costs(eta):
    """An outcome that gets likelier, while what is better gets rarer: all factors of the proof at once."""
    going_on, grows = continuation(1e5, eta=eta), math.e
    runs = [[1 - 1e-6 - 1e-3 * grows, 1e-6, 1e-3 * grows], [1 - 1e-6 * grows - 1e-3, 1e-6 * grows, 1e-3]]
    before, after = (law(outcomes, going_on, eta)[1] for outcomes in runs)
    assert 0.95 * cost_of_search(1.0, eta=eta) <= math.log(after / before) <= cost_of_search(1.0, eta=eta)


def test_the_best_run_is_kept_of_equal_ones_the_first():
    runs = iter([(1.0, "a"), (3.0, "b"), (3.0, "c"), (2.0, "d")])
    assert best_of(lambda: next(runs), runs=4) == (3.0, "b")
    assert best_of(lambda: (0.0, "only"), runs=1) == (0.0, "only")


@pytest.mark.parametrize("wrong", [{"mean": 1.0}, {"mean": math.inf}, {"eta": 2}])
def test_distributions_that_there_are_not_are_refused(wrong):
    with pytest.raises(ValueError, match="eta = "):
        continuation(**{"mean": 10.0, "eta": 0} | wrong)
