"""Clipping norms that follow a quantile: one Gaussian answer, the paper's noise, and where the norm goes."""

from __future__ import annotations

import numpy as np
import pytest

from fedlearn.privacy import gaussian, seeded_noise
from fedlearn.privacy.adaptive_clip import FRACTION, MOST_SHARE, AdaptiveClip
from fedlearn.privacy.clipping import clipped, within


@pytest.mark.parametrize(("noise", "expected"), [(0.6, 1000), (1.0, 100), (3.0, 100), (2.0, 80)])
def test_noise_of_changes_and_of_the_number_are_those_of_the_paper(noise, expected):
    steps = AdaptiveClip(0.5, noise, expected, first=1.0)
    of_number = noise / (2 * steps.share)  # sigma_b
    assert of_number == pytest.approx(expected / FRACTION)
    assert steps.growth * noise == pytest.approx((noise**-2 - (2 * of_number) ** -2) ** -0.5)


def test_few_nodes_do_not_pay_more_than_a_twentieth():
    steps = AdaptiveClip(0.5, 10.0, 5, first=1.0)
    assert steps.share == MOST_SHARE and steps.growth < 1.05


@pytest.mark.parametrize("change", [[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [1e30, 0.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_whatever_a_node_sends_its_vector_is_no_longer_than_one(change):
    steps, clip = AdaptiveClip(0.5, 2.0, 20, first=1.0), 0.7
    state = {"w": np.array(change)}
    vector = steps.joined(clipped(state, clip)["w"], float(within(state, clip)[0]), clip)
    assert np.linalg.norm(vector) <= 1 + 1e-9


def test_parting_gives_back_what_was_joined():
    steps = AdaptiveClip(0.3, 2.0, 20, first=1.0)
    changes, share = steps.parted(steps.joined(np.array([5.0, -2.0]), 4.0, 0.3), 0.3)
    np.testing.assert_allclose(changes, [5.0, -2.0])
    assert share == pytest.approx(4.0 / 20 + 0.5)


@pytest.mark.parametrize("quantile", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("first", [0.01, 30.0])
def test_the_norm_comes_to_the_quantile(quantile, first):
    rng, noise = np.random.default_rng(1), seeded_noise(2)
    norms = np.exp(rng.normal(size=400))
    steps, clip = AdaptiveClip(quantile, 1.0, 100, first), first
    clips = []
    for _ in range(200):
        drawn = rng.choice(norms, 100)
        vector = steps.joined(np.zeros(1), float(np.where(drawn <= clip, 0.5, -0.5).sum()), clip)
        _, share = steps.parted(gaussian(vector, clip=1.0, noise_multiplier=1.0, noise=noise), clip)
        clip = steps.next(clip, share)
        clips.append(clip)
    assert np.mean(norms <= np.median(clips[150:])) == pytest.approx(quantile, abs=0.05)


def test_no_noise_drives_the_norm_out_of_all_bounds():
    steps, clip = AdaptiveClip(0.5, 1.0, 10, first=2.0), 2.0
    for _ in range(1000):
        clip = steps.next(clip, -1e9)
    assert clip == pytest.approx(2e6)
    assert steps.next(1.0, 1e9) == steps.next(1.0, 1.0)
