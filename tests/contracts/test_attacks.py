"""The contract of every attack in the table: one lie, by the given generator alone, of the shape that it must have."""

from __future__ import annotations

import numpy as np
import pytest

from fedlearn.attacks import ATTACKS, Attack, Claim, load_attack
from fedlearn.core.seeding import rng_for
from tests.oracles import images

HONEST = np.random.default_rng(1).normal(size=(6, 30))
STATE = {"w": np.ones((3, 4), np.float32), "steps": np.array(4), "empty": np.zeros((0, 2), np.float32)}
TRAINED = {"w": np.full((3, 4), 1.25, np.float32), "steps": np.array(9), "empty": np.zeros((0, 2), np.float32)}


def frozen(arrays):
    for array in arrays.values() if isinstance(arrays, dict) else arrays:
        array.flags.writeable = False  # an attack that writes to it fails
    return arrays


def bytes_of(arrays):
    return {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()}


def rng(number=1):
    return rng_for(number, purpose="attack")


SEEING_ALL = [name for name in ATTACKS if load_attack(name, "").sees_all]


@pytest.fixture(params=list(ATTACKS))
def attack(request):
    return load_attack(request.param, "")


@pytest.fixture(params=SEEING_ALL)
def seeing_all(request):
    return load_attack(request.param, "")


def claims(attack):
    """Return two claims of one node, one after the other, as bytes."""
    memory, found = {}, []
    for _ in range(2):
        claim = attack.reported(Claim(frozen(STATE), frozen(TRAINED), 12), memory=memory, rng=rng())
        frozen(memory)
        found.append((bytes_of(claim.arrays), claim.num_examples))
        assert {n: (a.shape, a.dtype) for n, a in claim.arrays.items()} == {
            n: (a.shape, a.dtype) for n, a in STATE.items()
        }
        assert claim.num_examples >= 1
        assert isinstance(claim.num_examples, int)
    return found


def test_an_attack_lies_in_one_way(attack):
    ways = (attack.poisons, attack.sees_all, type(attack).reported is not Attack.reported)
    assert sum(ways) == 1


def test_a_claim_depends_on_the_generator_alone_and_fits_the_state(attack):
    assert claims(attack) == claims(attack)


def test_lies_of_all_attackers_depend_on_the_generator_alone(seeing_all):
    changes = HONEST.copy()
    changes.flags.writeable = False
    for attackers in (1, 3):
        lies = [seeing_all.lies(changes, attackers=attackers, rng=rng()) for _ in range(2)]
        assert lies[0].shape == (attackers, 30)
        assert lies[0].dtype == np.float64
        assert np.isfinite(lies[0]).all()
        assert lies[0].tobytes() == lies[1].tobytes()


def test_lies_scale_with_the_changes(seeing_all):
    lies = [seeing_all.lies(scale * HONEST, attackers=2, rng=rng()) / scale for scale in (1.0, 2.0**-40, 2.0**40)]
    np.testing.assert_allclose(lies[1], lies[0])
    np.testing.assert_allclose(lies[2], lies[0])


def test_poisoned_examples_are_as_many_and_of_the_same_kind(attack):
    honest = images.examples(20)
    frozen([honest.inputs, honest.targets])
    attack.check(images.dataset().spec)
    made = [attack.poisoned(honest, classes=10, rng=rng()) for _ in range(2)]
    for each in made:
        assert (each.inputs.shape, each.inputs.dtype) == (honest.inputs.shape, honest.inputs.dtype)
        assert (each.targets.shape, each.targets.dtype) == (honest.targets.shape, honest.targets.dtype)
        assert each.targets.min() >= 0
        assert each.targets.max() < 10
    assert made[0].inputs.tobytes() == made[1].inputs.tobytes()
    assert made[0].targets.tobytes() == made[1].targets.tobytes()
    assert ((made[0].targets != honest.targets).any() or (made[0].inputs != honest.inputs).any()) == attack.poisons


def test_no_examples_can_be_poisoned(attack):
    empty = images.examples(20).at(np.arange(0))
    assert len(attack.poisoned(empty, classes=10, rng=rng())) == 0
