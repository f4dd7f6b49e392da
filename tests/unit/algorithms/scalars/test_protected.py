"""Derivatives of clients that noise protects: clipped vectors, noise on their sum, and what is refused.

`tests/end_to_end/test_audited_nodes.py` audits whole runs, and mistakes that are planted in them.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import server.features.privacy.node_privacy as node_privacy
from fedlearn.algorithms.scalars.decomfl import MOST_BITS, STEP, DeComFL
from fedlearn.algorithms.scalars.two_point import TwoPoint
from fedlearn.config import config_from
from fedlearn.core.errors import FedlearnError, Refused, SettingError
from fedlearn.core.state import layout_of
from strategies.masked_mean import MaskedSum
from strategies.sums_strategy import WholeSums
from tests.unit.algorithms.scalars.test_scalars import SIZES, Case, K, ran

CLIP = 2.0
PRIVATE = {"privacy.protects": "nodes", "privacy.delta": 1e-3, "privacy.epsilon": 8.0, "privacy.clip": CLIP}
MASKED = {"secure.sums": "masked", "secure.dropouts": 0.0}


def private_case(**settings):
    return Case(**{**PRIVATE, "strategy.weighting": "uniform", "privacy.trust": "central", **settings})


def test_without_noise_a_mean_is_that_of_clipped_vectors_over_the_expected_clients(monkeypatch):
    sent, honest = [], TwoPoint.fit
    monkeypatch.setattr(node_privacy, "gaussian", lambda values, **_: np.asarray(values))

    def fit(self, state, task):
        found = honest(self, state, task)
        sent.append(found.arrays["sums"])
        return found

    monkeypatch.setattr(TwoPoint, "fit", fit)
    run = ran(rounds=2, settings=PRIVATE)
    assert all(each[0] == 1 << MOST_BITS for each in sent)  # the examples of a client make no difference
    vectors = np.array([each[1:] * STEP for each in sent]).reshape(2, len(SIZES), K)
    lengths = np.linalg.norm(vectors, axis=2)
    assert lengths.max() <= CLIP and (lengths > CLIP * 0.999).any()  # some are clipped
    np.testing.assert_allclose(run.state["scalars"], vectors.mean(1).ravel(), rtol=1e-6)


def test_the_noise_has_the_deviation_of_the_promise():
    config = config_from({**PRIVATE, "training.options": {"directions": 4000}, "strategy.name": "decomfl"})
    noise = node_privacy.NodePrivacy(config, {})
    from fedlearn.privacy import seeded_noise

    def release(total):
        return noise.released({node_privacy.STATE: total}, seeded_noise(3), 1)

    for total in (WholeSums({}), WholeSums({"sums": np.zeros(4001, np.int64), "reports": np.ones(1, np.int64)})):
        found = DeComFL().released(total, config, release).totals["sums"]  # nobody came: there is noise all the same
        assert found[0] == config.goal_count << MOST_BITS and found.dtype == np.int64
        deviation = noise.plan.noise_multiplier * CLIP
        assert (found[1:] * STEP).std() == pytest.approx(deviation, rel=0.05)


@pytest.mark.parametrize("found", [[9.0] * K, [1e300, 0, 0], [np.nan, 1, 1], [np.inf, 0, 1], [1e-3, 0, 0]])
def test_whatever_a_client_measures_its_vector_is_within_the_norm(found):
    case = private_case()
    arrays = case.model.report_of(np.array(found, float), 50)
    assert np.linalg.norm(arrays["sums"][1:] * STEP) <= CLIP
    about = {"before": layout_of(case.state), "max_examples": 1}
    case.model.check_sums(arrays, **about)
    assert case.fit(case.state).arrays["sums"][0] == 1 << MOST_BITS


def test_a_longer_vector_and_a_heavier_one_are_refused():
    case = private_case()
    about = {"before": layout_of(case.state), "max_examples": 10}
    reach = case.model.reach
    exact = np.array([1 << MOST_BITS, reach, 0, 0])
    case.model.check_sums({"sums": exact, "reports": np.ones(1, np.int64)}, **about)
    for more in ([0, 0, 1, 0], exact, [0, 1, 0, 0]):
        with pytest.raises(Refused, match="norm-too-large"):
            case.model.check_sums({"sums": exact + np.array(more), "reports": np.ones(1, np.int64)}, **about)


def test_a_run_says_its_promise_and_is_the_same_again():
    run = ran(settings=PRIVATE)
    assert run.sha256 == ran(settings=PRIVATE).sha256
    assert run.history["epsilon"].iloc[-1] == pytest.approx(8.0)
    assert "add or remove one client" in run.summary["protects"]
    assert "train_loss" not in run.history or run.history["train_loss"].isna().all()  # no noise covers it


@pytest.mark.long
@pytest.mark.parametrize(
    "further",
    [{"privacy.separation": 3}, {"rounds.selector": "poisson", "privacy.epsilon": 20.0}],
    ids=["correlated", "sampled"],
)
def test_correlated_noise_and_poisson_sampling_go_with_it(further):
    cohort = {"cohort": 1}
    run = ran(rounds=6, settings={**PRIVATE, **further}, **cohort)
    assert len(run.state["scalars"]) == 6 * K  # a round without a client is a release, too
    resumed = ran(rounds=6, settings={**PRIVATE, **further}, **cohort)
    assert resumed.sha256 == run.sha256


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"privacy.trust": "local"}, "privacy.trust"),
        ({"privacy.trust": "distributed", **MASKED}, "privacy.trust"),
        ({"privacy.clip_quantile": 0.5}, "privacy.clip_quantile"),
        (MASKED, "secure.sums"),
        ({"strategy.weighting": "examples"}, "strategy.weighting"),
        ({"privacy.clip": 2000.0}, "privacy.clip"),
        ({"privacy.delta": 0.0}, "privacy.delta"),
    ],
)
def test_what_no_proof_covers_is_refused(settings, said):
    with pytest.raises(FedlearnError, match=said.replace(".", r"\.")):
        ran(rounds=1, settings={**PRIVATE, **settings})


def test_a_clip_that_steps_cannot_have_is_refused():
    for clip in (1e-9, 1025.0):
        with pytest.raises(SettingError, match=r"privacy\.clip"):
            private_case(**{"privacy.clip": clip})


def test_a_strategy_that_clips_nothing_releases_nothing():
    from strategies.fedavg import FedAvg

    with pytest.raises(NotImplementedError, match="FedAvg clips no reports"):
        FedAvg().released(MaskedSum.empty({}), SimpleNamespace(), None)
