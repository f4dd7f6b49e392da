"""Correlated noise is C^-1 z, comes to the same after a resume, and covers all rounding."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fedlearn.privacy import seeded_noise
from fedlearn.privacy.factorization import CorrelatedNoise, independent, optimal, square_root


class Fixed:
    """A source of noise that says what it was asked, and answers with chosen numbers."""

    is_secure, notice = False, ""

    def __init__(self, drawn):
        self.drawn, self.scales = list(drawn), []

    def discrete_gaussian(self, scale, shape):
        self.scales.append(float(scale))
        return np.asarray(self.drawn.pop(0), np.int64).reshape(shape)


def of(factorization, separation=None, **more):
    wait = factorization.rounds if separation is None else separation
    return CorrelatedNoise(factorization, wait, **{"clip": 1.0, "noise_multiplier": 2.0} | more)


@pytest.mark.parametrize("factorization", [square_root(12, 4), optimal(12, 4), independent(12)])
def test_rows_are_the_inverse_of_the_matrix_times_independent_noise(factorization):
    fresh = np.random.default_rng(1).integers(-(2**40), 2**40, size=(12, 5))
    source, state = Fixed(fresh), of(factorization)
    drawn = np.array([state.draw(5, source) for _ in range(12)])
    expected = np.linalg.inv(factorization.matrix()) @ (factorization.rows[:, :1] * fresh)
    assert np.abs(drawn - expected).max() < 12
    assert np.allclose(np.array(source.scales) * factorization.rows[:, 0], source.scales[0] * factorization.rows[0, 0])


def test_the_noise_of_prefix_sums_has_the_error_that_is_planned(noise):
    state = of(square_root(20, 5), clip=0.5)
    rows = np.array([state.added(np.zeros(3000), state.draw(3000, noise)) for _ in range(20)])
    measured = math.sqrt((np.cumsum(rows, axis=0) ** 2).mean())
    planned = 2.0 * 0.5 * square_root(20, 5).sensitivity(20) * square_root(20, 5).error()
    assert measured == pytest.approx(planned, rel=0.03)


def test_only_earlier_rows_within_the_bands_are_kept_and_a_resume_goes_on_with_them():
    state, source = of(square_root(10, 4)), seeded_noise(3)
    whole = [state.draw(6, source).tolist() for _ in range(10)]
    again, source = of(square_root(10, 4)), seeded_noise(3)
    first = [again.draw(6, source).tolist() for _ in range(7)]
    resumed = replace(again, rows=[row.copy() for row in again.rows])
    assert len(resumed.rows) == 3
    assert first + [resumed.draw(6, source).tolist() for _ in range(3)] == whole
    with pytest.raises(ValueError, match="each one row"):
        resumed.draw(6, source)


@pytest.mark.parametrize("factorization", [square_root(9, 3), optimal(9, 3)])
def test_another_vector_is_hidden_by_noise_that_the_scale_covers(factorization):
    """Find the noise that gives a neighbor the same answers; its distance must be within what the scale is made for."""
    numbers, clip, rng = 40, 1.0, np.random.default_rng(5)
    for participations in ([0, 3, 6], [2, 5, 8], [1, 7], [8]):
        base = of(factorization, 3, clip=clip)
        fresh = [rng.integers(-(2**41), 2**41, size=numbers) for _ in range(9)]
        source = Fixed(fresh)
        rows = [base.draw(numbers, source) for _ in range(9)]
        sums = rng.normal(size=(9, numbers))
        moved = sums.copy()
        for at in participations:
            vector = rng.normal(size=numbers)
            moved[at] += vector / np.linalg.norm(vector) * clip
        answers = [base.added(each, row) for each, row in zip(sums, rows, strict=True)]
        steps = [np.rint(np.ldexp(each, -base.exponent)).astype(np.int64) for each in moved]
        others = [
            np.ldexp(each, -base.exponent).astype(np.int64) - step for each, step in zip(answers, steps, strict=True)
        ]
        replayed, distance = of(factorization, 3, clip=clip), 0.0
        for at in range(9):
            correction = replayed.draw(numbers, Fixed([np.zeros(numbers, np.int64)]))  # by the neighbor's rows
            replayed.rows[-1:] = [others[at]]
            distance += float((((others[at] - correction - fresh[at]) / source.scales[at]) ** 2).sum())
        assert math.sqrt(distance) <= 1 / base.noise_multiplier
    assert math.sqrt(distance) > 0.3 / base.noise_multiplier, "even one vector is not far below"


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"clip": 0.0}, "clip"),
        ({"noise_multiplier": math.inf}, "noise_multiplier"),
        ({"separation": 2}, "separation"),
        ({"done": 2}, "state of another run"),
        ({"rows": [np.zeros(3, np.int64)]}, "state of another run"),
    ],
)
def test_what_promises_nothing_is_refused(more, word):
    with pytest.raises(ValueError, match=word):
        CorrelatedNoise(
            **{"factorization": square_root(9, 3), "separation": 3, "clip": 1.0, "noise_multiplier": 1.0} | more
        )


def test_rows_of_another_length_are_refused():
    state = of(square_root(9, 3))
    state.draw(4, seeded_noise(0))
    with pytest.raises(ValueError, match="earlier rows have 4"):
        state.draw(5, seeded_noise(0))
