from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from client.learners.base import LocalTask
from client.learners.sgd import SGD
from fedlearn.config.schema import DataSettings, TrainingSettings
from fedlearn.models.torch_model import TorchModel
from fedlearn.seeding import rng_for
from tests.oracles.images import MEAN, STD, Small, WithDropout, dataset

ROWS = np.arange(3, 48)  # 45 examples: the last batch of 16 has 13


def task_of(*, seed=1, round_number=1, partition_id=2, config=None, rows=ROWS):
    return LocalTask(dataset().train, rows, seed, round_number, partition_id, config or {})


def fit(settings, task=None, module=Small, **data):
    model = TorchModel(module, dataset().spec)
    state = model.initial_state(seed=5)
    found = SGD(model, TrainingSettings(batch_size=16, **settings), DataSettings(**data)).fit(state, task or task_of())
    return state, {name: array.copy() for name, array in found.arrays.items()}, found


def with_torch(state, task, *, local_epochs=1, lr=0.05, momentum=0.9, weight_decay=0.0, proximal_mu=0.0):
    """The same training with torch.optim.SGD and a FedProx term in the loss."""
    module = Small()
    module.load_state_dict({name: torch.tensor(array) for name, array in state.items()})
    start = [p.detach().clone() for p in module.parameters()]
    optimizer = torch.optim.SGD(module.parameters(), lr=lr, momentum=momentum, weight_decay=weight_decay)
    shuffle = rng_for(task.seed, purpose="shuffle", round_number=task.round_number, node=task.partition_id)
    losses = []
    module.train()
    for _ in range(local_epochs):
        order = task.indices[shuffle.permutation(len(task.indices))]
        for first in range(0, len(order), 16):
            rows = order[first : first + 16]
            images = (task.train.inputs[rows] / 255.0 - MEAN) / STD
            logits = module(torch.tensor(images, dtype=torch.float32).permute(0, 3, 1, 2))
            loss = functional.cross_entropy(logits, torch.tensor(task.train.labels[rows]))
            losses.append(loss.item())
            pull = sum(((p - s) ** 2).sum() for p, s in zip(module.parameters(), start, strict=True))
            optimizer.zero_grad()
            (loss + proximal_mu / 2 * pull).backward()
            optimizer.step()
    return {name: tensor.numpy() for name, tensor in module.state_dict().items()}, float(np.mean(losses))


@pytest.mark.parametrize(
    "settings",
    [
        {"momentum": 0.0},
        {"momentum": 0.9},
        {"momentum": 0.9, "weight_decay": 0.1},
        {"momentum": 0.0, "weight_decay": 0.1},
        {"momentum": 0.9, "proximal_mu": 1.0},
        {"momentum": 0.5, "weight_decay": 0.01, "proximal_mu": 0.3},
    ],
)
@pytest.mark.parametrize("local_epochs", [1, 3])
def test_step_is_that_of_torch(settings, local_epochs):
    settings = {"lr": 0.05, "local_epochs": local_epochs, **settings}
    state, after, found = fit(settings)
    expected, loss = with_torch(state, task_of(), **settings)
    assert after.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(after[name], array, rtol=1e-3, atol=2e-5, err_msg=name)
    assert found.metrics["train_loss"] == pytest.approx(loss, rel=1e-4)
    assert found.num_examples == 45


def test_learning_rate_falls_from_round_to_round():
    settings = {"lr": 0.1, "lr_decay": 0.5, "local_epochs": 1}
    state, after, _ = fit(settings, task_of(round_number=3))
    expected, _ = with_torch(state, task_of(round_number=3), lr=0.1 / (1 + 0.5 * 2))
    np.testing.assert_allclose(after["out.weight"], expected["out.weight"], rtol=1e-3, atol=2e-5)


def test_strength_that_flowers_fedprox_tells_counts_in_place_of_the_setting():
    _, told, _ = fit({"local_epochs": 1, "proximal_mu": 0.0}, task_of(config={"proximal-mu": 1.0}))
    _, by_setting, _ = fit({"local_epochs": 1, "proximal_mu": 1.0})
    np.testing.assert_array_equal(told["out.weight"], by_setting["out.weight"])


@pytest.mark.parametrize(("module", "augment"), [(Small, False), (WithDropout, False), (Small, True)])
def test_same_seed_same_bytes_and_another_seed_others(module, augment):
    first, again, other = (
        fit({"local_epochs": 1}, task_of(seed=seed), module, augment=augment)[1] for seed in (1, 1, 2)
    )
    assert {n: a.tobytes() for n, a in first.items()} == {n: a.tobytes() for n, a in again.items()}
    assert first["out.weight"].tobytes() != other["out.weight"].tobytes()


def test_result_does_not_depend_on_what_was_trained_before():
    model = TorchModel(WithDropout, dataset().spec)
    learner = SGD(model, TrainingSettings(batch_size=16, local_epochs=1), DataSettings())
    state = model.initial_state(seed=5)
    first = {n: a.tobytes() for n, a in learner.fit(state, task_of()).arrays.items()}
    learner.fit(state, task_of(partition_id=9, rows=np.arange(5)))
    assert {n: a.tobytes() for n, a in learner.fit(state, task_of()).arrays.items()} == first


def test_state_and_settings_of_others_stay_as_they_are():
    model = TorchModel(Small, dataset().spec)
    state = model.initial_state(seed=5)
    before = {n: a.tobytes() for n, a in state.items()}
    for array in state.values():
        array.flags.writeable = False
    SGD(model, TrainingSettings(local_epochs=1), DataSettings()).fit(state, task_of())
    assert {n: a.tobytes() for n, a in state.items()} == before


def test_augmented_images_keep_shape_and_kind():
    learner = SGD(TorchModel(Small, dataset().spec), TrainingSettings(), DataSettings(augment=True))
    images = torch.from_numpy(dataset().train.inputs[:4])
    augmented = learner.augment(images)
    assert (augmented.shape, augmented.dtype) == (images.shape, torch.uint8)
    assert augmented.is_contiguous()
    assert not torch.equal(augmented, images)
