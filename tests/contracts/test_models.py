"""Every model of the table that learns from images has a reproducible start, and evaluating does not change it.

Trees have `test_tree_models.py`; models of texts, series and rows `test_models_of_other_data.py`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import torch

from client.learners import LEARNERS
from fedlearn.core.errors import SettingError
from fedlearn.core.state import UpdateKind
from fedlearn.data.data_spec import DataSpec, Examples
from fedlearn.models import MODELS, load_model
from fedlearn.models.model import NOTHING
from tests.oracles.images import MEAN, STD, Small, dataset

NUM_PARAMETERS = {"cnn": 62_006, "cnn-large": 2_156_490, "resnet18": 11_173_962}  # of those that are documented
SMALLEST = {"cnn": 16, "cnn-large": 4, "resnet18": 1}  # pixels a side; of those that document it


def learns_images(name):
    with suppress(SettingError):
        return bool(load_model(name, dataset().spec))
    return False


PLUGIN = f"{Small.__module__}:Small"
NEURAL = [name for name, row in MODELS.items() if row.trains_in_steps and learns_images(name)]  # other data: below
NAMES = [*NEURAL, PLUGIN]


@pytest.fixture(scope="module", params=NAMES)
def model(request):
    return load_model(request.param, dataset().spec)


@pytest.fixture(scope="module")
def state(model):
    return model.initial_state(seed=1)


def bytes_of(state):
    return {name: array.tobytes() for name, array in state.items()}


def few(number=7):
    test = dataset().test
    return replace(test, inputs=test.inputs[:number], targets=test.targets[:number])


@pytest.mark.parametrize(("name", "number"), NUM_PARAMETERS.items())
def test_number_of_parameters_is_the_documented_one(name, number):
    state = load_model(name, dataset().spec).initial_state(seed=1)
    assert sum(array.size for array in state.values()) == number


SHAPES = [(28, 28, 1), (16, 16, 3), (32, 48, 4), (33, 17, 1)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", NEURAL)
def test_any_images_and_any_number_of_classes_will_do(name, shape):
    spec = DataSpec("made", shape, "uint8", classes=62, mean=(0.5,) * shape[2], std=(0.2,) * shape[2])
    model = load_model(name, spec)
    images = np.random.default_rng(1).integers(0, 256, (5, *shape), dtype=np.uint8)
    result = model.evaluate(model.initial_state(seed=1), Examples(images, np.array([0, 1, 2, 60, 61])))
    assert result.means["loss"] == pytest.approx(np.log(62), rel=0.5)


def of_height(name, side):
    return load_model(name, DataSpec("tiny", (side, 40, 1), "uint8", classes=10, mean=(0.5,), std=(0.2,)))


@pytest.mark.parametrize("name", NEURAL)
def test_images_that_are_too_small_are_refused_in_one_line(name):
    side, refused = 0, {}
    for side in range(1, 41):
        try:
            model = of_height(name, side)
            break
        except SettingError as error:
            refused[side] = str(error)
    assert side == SMALLEST.get(name, side)
    needs = f"pixels, and the model needs {side} x {side}: "
    for smaller, said in refused.items():
        assert said.startswith(f"data.dataset = 'tiny': its images have {smaller} x 40 {needs}")
        assert "\n" not in said
    examples = Examples(np.zeros((2, side, 40, 1), np.uint8), np.array([0, 9]))
    assert np.isfinite(model.evaluate(model.initial_state(seed=1), examples).means["loss"])


def test_initial_state_is_reproducible_and_leaves_torchs_generator_alone(model, state):
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    assert bytes_of(model.initial_state(seed=1)) == bytes_of(state)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert bytes_of(model.initial_state(seed=2)) != bytes_of(state)


def test_initial_state_is_a_copy_and_finite(model, state):
    assert all(np.isfinite(array).all() for array in state.values())
    assert not any(np.shares_memory(a, b) for a in state.values() for b in model.arrays().values())


def test_evaluation_is_pure(model, state):
    before = bytes_of(state)
    torch.manual_seed(3)
    generator = torch.random.get_rng_state()
    first, again = (model.evaluate(state, few()) for _ in range(2))
    assert first == again
    assert bytes_of(state) == before
    assert torch.equal(torch.random.get_rng_state(), generator)


def test_evaluation_of_parts_adds_up_to_that_of_the_whole(model, state):
    whole = model.evaluate(state, few(6))
    images, labels = few(6).inputs, few(6).targets
    parts = [
        model.evaluate(state, replace(few(), inputs=images[i : i + 2], targets=labels[i : i + 2])) for i in (0, 2, 4)
    ]
    total = sum(parts, NOTHING)
    assert (total.count, total.sums["accuracy"]) == (6, whole.sums["accuracy"])
    assert total.means["loss"] == pytest.approx(whole.means["loss"], rel=1e-5)
    assert 0 <= whole.means["accuracy"] <= 1
    assert whole.means["loss"] == pytest.approx(np.log(10), rel=0.5)  # of an untrained classifier


def test_kind_and_learner_are_known(model):
    assert model.update_kind is UpdateKind.DENSE
    assert model.learner in LEARNERS


def test_loaded_state_is_what_the_model_holds(model, state):
    model.load(state)
    assert bytes_of(model.arrays()) == bytes_of(state)
    assert list(model.arrays()) == list(state)


def test_inputs_are_normalised_with_the_constants_of_the_data_set(model):
    images = few().inputs
    inputs = model.inputs(np.array(images))
    assert inputs.shape == (7, 3, 32, 32)
    assert inputs.dtype == torch.float32
    assert inputs.is_contiguous(memory_format=torch.channels_last)
    expected = (images / 255.0 - MEAN) / STD
    np.testing.assert_allclose(inputs.numpy(), expected.transpose(0, 3, 1, 2), rtol=1e-5, atol=1e-5)


def test_inputs_leave_the_images_as_they_are(model):
    images = np.array(few().inputs)
    model.inputs(images)
    np.testing.assert_array_equal(images, few().inputs)
