"""Attacks equal their papers: the published values of four vectors, and oracles on random changes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlearn.attacks import Claim, attackers_of, load_attack
from fedlearn.config import RunConfig
from fedlearn.core.errors import SettingError
from fedlearn.core.seeding import rng_for
from fedlearn.data.data_spec import Examples
from tests.oracles import attacks as oracle

FOUR = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [1.0, 2.0]])
STATE = {"w": np.array([1.0, 2.0], np.float32), "count": np.array(7)}
TRAINED = {"w": np.array([1.5, 1.0], np.float32), "count": np.array(8)}


def made(name, **options):
    return load_attack(name, json.dumps(options) if options else "")


def rng():
    return rng_for(1, purpose="attack")


def lie_of(name, changes, *, attackers=1, **options):
    lies = made(name, **options).lies(changes, attackers=attackers, rng=rng())
    assert lies.shape == (attackers, changes.shape[1])
    assert (lies == lies[0]).all()
    return lies[0]


def claim_of(name, claim=None, *, memory=None, **options):
    memory = {} if memory is None else memory
    return made(name, **options).reported(claim or Claim(STATE, TRAINED, 40), memory=memory, rng=rng())


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("alie", {"z": 1.5}, (-0.060660, -0.060660)),
        ("ipm", {"tau": 2}, (-2, -2)),
        ("min-max", {}, (1 - 1.163722 * 0.707107, 1 - 1.163722 * 0.707107)),
        ("min-sum", {}, (1 - 0.707107, 1 - 0.707107)),
    ],
)
def test_four_vectors_give_the_published_values(name, options, expected):
    np.testing.assert_allclose(lie_of(name, FOUR, **options), expected, atol=1e-6)


@pytest.mark.parametrize("name", ["alie", "ipm", "min-max", "min-sum", "mimic"])
@given(seed=st.integers(0, 2**32 - 1))
def test_random_changes_give_what_the_paper_says(name, seed):
    random = np.random.default_rng(seed)
    fewest = 3 if name == "mimic" else 2  # two changes are equally far from their mean: rounding would decide
    changes = random.normal(size=(int(random.integers(fewest, 12)), 5)) * random.uniform(1e-4, 1e2)
    attackers = int(random.integers(1, 5))
    expected = getattr(oracle, name.replace("-", "_"))(changes, attackers)
    np.testing.assert_allclose(
        lie_of(name, changes, attackers=attackers), expected, rtol=1e-6, atol=1e-6 * np.abs(changes).max()
    )


@pytest.mark.parametrize("name", ["alie", "ipm", "min-max", "min-sum", "mimic"])
@pytest.mark.parametrize("changes", [FOUR[:1], np.ones((5, 3)), np.zeros((3, 2))])
def test_one_honest_node_or_equal_ones_give_a_lie_that_is_a_number(name, changes):
    lie = lie_of(name, changes, attackers=3)
    assert np.isfinite(lie).all()
    if name != "ipm":
        np.testing.assert_array_equal(lie, changes[0])  # nothing to hide behind


def test_the_lie_of_min_max_is_no_farther_than_two_honest_changes():
    changes = np.random.default_rng(1).normal(size=(9, 50))
    lie = lie_of("min-max", changes)
    far = max(np.linalg.norm(a - b) for a in changes for b in changes)
    assert max(np.linalg.norm(lie - each) for each in changes) == pytest.approx(far, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "options", "change"),
    [
        ("sign-flip", {}, (-0.5, 1)),
        ("sign-flip", {"scale": 2}, (-1, 2)),
        ("scaled", {}, (5, -10)),
        ("zero", {}, (0, 0)),
    ],
)
def test_changes_are_turned_scaled_or_left_out(name, options, change):
    claim = claim_of(name, **options)
    np.testing.assert_array_equal(claim.arrays["w"] - STATE["w"], np.float32(change))
    assert claim.arrays["w"].dtype == np.float32
    assert claim.arrays["count"] == 8  # no float: stays honest
    assert claim.num_examples == 40


def test_noise_is_as_long_as_the_change_on_average():
    state = {"w": np.zeros(40_000, np.float32)}
    claim = claim_of("gaussian", Claim(state, {"w": np.full(40_000, 0.5, np.float32)}, 1), factor=2)
    assert claim.arrays["w"].std() == pytest.approx(1.0, rel=0.02)
    assert abs(claim.arrays["w"].mean()) < 0.02


def test_noise_of_a_parameter_without_entries_or_without_a_change_is_nothing():
    state = {"a": np.zeros(0, np.float32), "b": np.float32(3.0) * np.ones(())}
    claim = claim_of("gaussian", Claim(state, state, 1))
    assert claim.arrays["a"].shape == (0,)
    assert claim.arrays["b"] == 3


def test_a_node_claims_ten_times_its_examples_or_a_tenth_but_at_least_one():
    assert claim_of("examples").num_examples == 400
    assert claim_of("examples", factor=0.1).num_examples == 4
    assert claim_of("examples", factor=1e-9).num_examples == 1


def test_the_first_change_is_replayed_on_every_later_state():
    memory = {}
    first = claim_of("stale", memory=memory)
    np.testing.assert_array_equal(first.arrays["w"], TRAINED["w"])
    later = {"w": np.array([10.0, 20.0], np.float32), "count": np.array(1)}
    again = claim_of("stale", Claim(later, {"w": later["w"] * 3, "count": np.array(2)}, 40), memory=memory)
    np.testing.assert_array_equal(again.arrays["w"], [10.5, 19.0])
    assert again.arrays["count"] == 2


def examples(count=40, dtype=np.float32):
    random = np.random.default_rng(2)
    return Examples(random.random((count, 8, 8, 1)).astype(dtype), random.integers(0, 10, count))


def test_flipped_labels_are_mirrored_and_images_stay():
    honest = examples()
    flipped = made("label-flip").poisoned(honest, classes=10, rng=rng())
    np.testing.assert_array_equal(flipped.targets, 9 - honest.targets)
    assert flipped.inputs is honest.inputs


def test_a_share_of_the_images_has_the_trigger_and_the_target():
    honest = examples()
    poisoned = made("backdoor", target=3, share=0.25).poisoned(honest, classes=10, rng=rng())
    changed = (poisoned.inputs != honest.inputs).any(axis=(1, 2, 3))
    assert changed.sum() == 10
    assert (poisoned.targets[changed] == 3).all()
    assert (poisoned.inputs[changed][:, -3:, -3:] == 1).all()
    np.testing.assert_array_equal(poisoned.inputs[:, :5, :5], honest.inputs[:, :5, :5])
    np.testing.assert_array_equal(poisoned.targets[~changed], honest.targets[~changed])


def test_success_is_measured_on_images_of_other_classes_with_the_trigger():
    honest = examples()
    triggered = made("backdoor", target=3).triggered(honest)
    assert len(triggered) == (honest.targets != 3).sum()
    assert (triggered.targets == 3).all()
    assert (triggered.inputs[:, -3:, -3:] == 1).all()


def test_attackers_are_a_share_of_the_nodes_that_the_seed_draws():
    def of(**settings):
        return attackers_of(RunConfig(clients=20, **settings))

    lying = of(attack={"name": "zero", "attackers": 0.3})
    assert len(lying) == 6 and lying <= set(range(20))
    assert lying == of(attack={"name": "alie", "attackers": 0.3})  # so grids compare like with like
    assert lying != of(attack={"name": "zero", "attackers": 0.3}, seed=2)
    assert lying > of(attack={"name": "zero", "attackers": 0.1})  # more attackers are the same ones, and others
    assert of() == frozenset()


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("alei", "", "choose one of sign-flip"),
        ("json:loads", "", "it cannot be used here"),
        ("json:JSONDecoder", "", "derive from fedlearn.attacks.Attack"),
        ("alie", '{"z": -1}', "attack.options.z"),
        ("alie", '{"y": 1}', "there is no such option"),
        ("ipm", '{"tau": NaN}', "attack.options"),
        ("backdoor", '{"share": 2}', "attack.options.share"),
    ],
)
def test_what_is_no_attack_or_no_option_of_it_is_refused_by_name(name, options, said):
    with pytest.raises(SettingError, match=said):
        load_attack(name, options)
