from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torchvision.transforms import v2

from client.learners import sgd
from client.learners.learner import LocalTask
from client.learners.sgd import SGD
from fedlearn.algorithms.fedsam import FedSAMSGD
from fedlearn.algorithms.in_parts import InParts
from fedlearn.config import config_from
from fedlearn.core.errors import SettingError
from fedlearn.core.seeding import rng_for
from fedlearn.data import from_arrays
from fedlearn.models.objectives import objective_for
from fedlearn.models.torch.torch_model import TorchModel
from tests.oracles.images import MEAN, STD, Small, WithDropout, dataset

ROWS = np.arange(3, 48)  # 45 examples: the last batch of 16 has 13


def task_of(*, seed=1, round_number=1, partition_id=2, config=None, rows=ROWS):
    return LocalTask(dataset().train, rows, seed, round_number, partition_id, config or {})


def learner_of(model, training, data=None, kind=SGD, **others):
    training = {f"training.{name}": value for name, value in {"batch_size": 16, **training}.items()}
    data = {f"data.{name}": value for name, value in (data or {}).items()}
    return kind.from_settings(model, config_from({**training, **data, **others}))


def fit(settings, task=None, module=Small, **data):
    model = TorchModel(module, dataset().spec)
    state = model.initial_state(seed=5)
    found = learner_of(model, settings, data).fit(state, task or task_of())
    return state, {name: array.copy() for name, array in found.arrays.items()}, found


def with_torch(
    state,
    task,
    *,
    local_epochs=1,
    lr=0.05,
    momentum=0.9,
    weight_decay=0.0,
    proximal_mu=0.0,
    clip=0.0,
    optimizer=None,
    module=Small,
):
    """The same training with an optimizer of torch and a FedProx term in the loss."""
    module = module()
    module.load_state_dict({name: torch.tensor(array) for name, array in state.items()})
    start = [p.detach().clone() for p in module.parameters()]
    if optimizer is None:
        optimizer = partial(torch.optim.SGD, momentum=momentum)
    optimizer = optimizer(module.parameters(), lr=lr, weight_decay=weight_decay)
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
            if clip:
                torch.nn.utils.clip_grad_norm_(module.parameters(), clip)
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


class Terms(nn.Module):
    """A linear layer whose weight and bias are sums of two parameters each, and a vector that is only summed."""

    def __init__(self):
        super().__init__()
        self.shared, self.own = (nn.Parameter(torch.randn(10, 3) * 0.3) for _ in range(2))
        self.bias, self.more = nn.Parameter(torch.zeros(10)), nn.Parameter(torch.ones(10))
        self.summed = nn.Parameter(torch.ones(5) / 5)

    def forward(self, x):
        return functional.linear(x.mean((2, 3)), self.shared + self.own, self.bias + self.more) * self.summed.sum()


@pytest.mark.parametrize(
    "settings",
    [
        {"momentum": 0.0},
        {"momentum": 0.9},
        {"momentum": 0.0, "weight_decay": 0.1},
        {"momentum": 0.0, "proximal_mu": 1.0},
        {"momentum": 0.0, "clip_norm": 0.1},
        {"momentum": 0.9, "weight_decay": 0.1, "clip_norm": 0.5},
    ],
)
def test_parameters_that_share_a_gradient_take_the_steps_of_torch(settings, monkeypatch):
    settings = {"lr": 0.05, "local_epochs": 2, **settings}
    of_torch = {("clip" if name == "clip_norm" else name): value for name, value in settings.items()}
    state, after, _ = fit(settings, module=Terms)
    expected, _ = with_torch(state, task_of(), module=Terms, **of_torch)
    for name, array in expected.items():
        np.testing.assert_allclose(after[name], array, rtol=1e-4, atol=2e-6, err_msg=name)
    monkeypatch.setattr(sgd, "owned", list)
    if settings["momentum"] or len(settings) > 3:  # a plain step changes no gradient
        with pytest.raises((AssertionError, RuntimeError)):
            _, aliased, _ = fit(settings, module=Terms)
            np.testing.assert_allclose(aliased["shared"], expected["shared"], rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize(
    ("most", "steps"), [(1, 1), (16, 1), (31, 1), (32, 2), (44, 2), (45, 3), (61, 4), (89, 5), (90, 6)]
)
def test_a_node_takes_the_steps_that_it_has_time_for(most, steps):
    settings = {"local_epochs": 2, "momentum": 0.0, "partial": True}
    _, whole, found = fit(settings, replace(task_of(), most_examples=most))
    assert found.metrics["work_done"] == steps / 6
    assert found.num_examples == 45  # it weighs what it would weigh, as in FedProx
    _, all_of_it, _ = fit(settings)
    assert (whole["out.weight"].tobytes() == all_of_it["out.weight"].tobytes()) == (steps == 6)


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
    learner = learner_of(model, {"local_epochs": 1})
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
    learner_of(model, {"local_epochs": 1}).fit(state, task_of())
    assert {n: a.tobytes() for n, a in state.items()} == before


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_augmented_images_are_those_of_torchvision_after_the_same_draws(kind):
    images = rng_for(1, purpose="images").integers(0, 256, (40, 12, 9, 3)).astype(kind)
    learner = learner_of(TorchModel(Small, dataset().spec), {}, {"augment": True})
    torch.manual_seed(7)
    augmented = learner.augment(images)
    torch.manual_seed(7)
    each = v2.Compose([v2.RandomCrop((12, 9), padding=4), v2.RandomHorizontalFlip()])
    theirs = torch.stack([each(image) for image in torch.from_numpy(images).permute(0, 3, 1, 2)]).permute(0, 2, 3, 1)
    assert augmented.dtype == kind
    np.testing.assert_array_equal(augmented, theirs.numpy())
    assert augmented.flags.c_contiguous


def test_only_images_are_augmented():
    model = TorchModel(lambda: nn.Linear(5, 3), replace(dataset().spec, shape=(5,), mean=(), std=()))
    with pytest.raises(SettingError, match=r"data.augment = True: .* an example has shape \(5,\)"):
        learner_of(model, {}, {"augment": True})


# --- other optimizers, schedules, hooks -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "options", "expected"),
    [
        ({"optimizer": "adamw", "weight_decay": 0.1}, {}, partial(torch.optim.AdamW)),
        ({"optimizer": "adam"}, {"betas": [0.5, 0.9]}, partial(torch.optim.Adam, betas=(0.5, 0.9))),
        ({"optimizer": "torch.optim:Adadelta"}, {"rho": 0.5}, partial(torch.optim.Adadelta, rho=0.5)),
    ],
)
def test_another_optimizer_is_torchs(settings, options, expected):
    given = {"lr": 0.01, "local_epochs": 2, **settings}
    state, after, _ = fit({**given, **{f"options.{name}": value for name, value in options.items()}})
    by_torch, _ = with_torch(
        state, task_of(), optimizer=expected, lr=0.01, local_epochs=2, weight_decay=settings.get("weight_decay", 0.0)
    )
    np.testing.assert_allclose(after["out.weight"], by_torch["out.weight"], rtol=1e-3, atol=2e-5)


def test_gradients_are_clipped_as_torch_does_it():
    state, after, _ = fit({"clip_norm": 0.1, "local_epochs": 2, "momentum": 0.0})
    by_torch, _ = with_torch(state, task_of(), clip=0.1, local_epochs=2, momentum=0.0)
    np.testing.assert_allclose(after["out.weight"], by_torch["out.weight"], rtol=1e-3, atol=2e-6)
    _, unclipped, _ = fit({"clip_norm": 1e6, "local_epochs": 2, "momentum": 0.0})
    np.testing.assert_array_equal(unclipped["out.weight"], fit({"local_epochs": 2, "momentum": 0.0})[1]["out.weight"])


class Looked(nn.Module):
    def __init__(self, *, sparse):
        super().__init__()
        self.table = nn.Embedding(4, 10, sparse=sparse)

    def forward(self, images):
        return self.table((images.flatten(1).sum(1) > 0).long())


@pytest.mark.parametrize(
    "settings", [{}, {"momentum": 0.0}, {"proximal_mu": 0.1, "weight_decay": 0.1, "clip_norm": 0.1}]
)
def test_sparse_gradients_are_taken_like_others(settings):
    settings = {"local_epochs": 2, **settings}
    sparse, dense = (
        fit(settings, module=partial(Looked, sparse=sparse))[1]["table.weight"] for sparse in (True, False)
    )
    np.testing.assert_array_equal(sparse, dense)


def halved(training, round_number, rounds):
    return training.lr / 2


@pytest.mark.parametrize(
    ("settings", "rate"),
    [
        ({"lr_schedule": "constant"}, 0.1),
        ({"lr_schedule": "cosine"}, 0.1 * (1 + np.cos(np.pi * 2 / 20)) / 2),  # round 3 of 20
        ({"lr_schedule": f"{__name__}:halved"}, 0.05),
    ],
)
def test_the_learning_rate_follows_its_schedule(settings, rate):
    state, after, _ = fit({"lr": 0.1, "local_epochs": 1, **settings}, task_of(round_number=3))
    expected, _ = with_torch(state, task_of(round_number=3), lr=rate)
    np.testing.assert_allclose(after["out.weight"], expected["out.weight"], rtol=1e-3, atol=2e-5)


class Hooked(SGD):
    """Steps backwards at a fixed rate, and stops after two epochs."""

    def __init__(self, model, config, *, rate=0.1):
        super().__init__(model, config)
        self.rate = rate

    def learning_rate(self, round_number):
        return self.rate

    def gradients(self, gradients, task):
        super().gradients(gradients, task)
        torch._foreach_neg_(gradients)

    def is_enough(self, task, epoch, loss_sum, steps):
        assert steps == 3 * epoch
        return epoch == 2


def test_a_learner_overrides_what_differs():
    model = TorchModel(Small, dataset().spec)
    state = model.initial_state(seed=5)
    settings = {"momentum": 0.0, "local_epochs": 7, "options.rate": 0.02}
    after = learner_of(model, settings, kind=Hooked).fit(state, task_of()).arrays["out.weight"]
    expected, _ = with_torch(state, task_of(), lr=-0.02, momentum=0.0, local_epochs=2, optimizer=backwards)
    np.testing.assert_allclose(after, expected["out.weight"], rtol=1e-3, atol=2e-5)


def backwards(parameters, *, lr, weight_decay):
    return torch.optim.SGD(parameters, lr=-lr, maximize=True)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"optimizer": "adamv"}, "training.optimizer = 'adamv': choose one of sgd, adam, adamw"),
        ({"optimizer": "torch.nn:Linear"}, "it is no torch.optim.Optimizer"),
        ({"optimizer": "torch.optim:LBFGS"}, "its steps compute the loss several times"),
        (
            {"optimizer": "adam", "options.beta": 1},
            "training.options.beta = 1: there is no such option; did you mean betas?",
        ),
        ({"options.betas": 1}, "training.options.betas = 1: there are no options here"),
        (
            {"optimizer": "torch.optim:Rprop", "weight_decay": 0.1},
            "training.weight_decay = 0.1: 'torch.optim:Rprop' has",
        ),
        ({"lr_schedule": "step"}, "training.lr_schedule = 'step': choose one of inverse, constant, cosine"),
    ],
)
def test_what_there_is_not_is_one_line(settings, said):
    with pytest.raises(SettingError) as error:
        learner_of(TorchModel(Small, dataset().spec), settings)
    assert said in str(error.value)


def without_a_norm():
    return nn.Sequential(nn.Flatten(), nn.Linear(32 * 32 * 3, 8), nn.Tanh(), nn.Linear(8, 10))


@pytest.mark.parametrize("size", [1, 5, 12])
def test_a_step_of_small_batches_is_that_of_the_whole_batch_to_rounding(size):
    settings = {"weight_decay": 0.1, "clip_norm": 0.5, "local_epochs": 2}
    _, whole, first = fit(settings, module=without_a_norm)
    _, parts, second = fit({**settings, "micro_batch": size}, module=without_a_norm)
    for name, array in whole.items():
        np.testing.assert_allclose(parts[name], array, rtol=1e-4, atol=1e-6, err_msg=name)
    assert second.metrics["train_loss"] == pytest.approx(first.metrics["train_loss"], rel=1e-5)
    assert any((parts[name] != array).any() for name, array in whole.items())  # it was computed in parts
    _, same, _ = fit({**settings, "micro_batch": 16}, module=without_a_norm)
    assert all((same[name] == array).all() for name, array in whole.items())


@pytest.mark.parametrize("batch_size", [20, 19])
def test_a_part_weighs_as_many_labels_as_count_in_it(batch_size):
    rng = np.random.default_rng(2)
    tokens = rng.integers(1, 9, (20, 6))
    labels = np.where(np.arange(6) < rng.integers(0, 7, (20, 1)), tokens, -100)  # of some texts none counts
    data = from_arrays(tokens, labels, tokens, labels, vocabulary=9)

    def fitted(**settings):
        model = TorchModel(lambda: nn.Sequential(nn.Embedding(9, 5), nn.Linear(5, 9)), data.spec)
        learner = learner_of(model, {"batch_size": batch_size, "momentum": 0.0, "lr": 1.0, **settings})
        found = learner.fit(model.initial_state(seed=5), LocalTask(data.train, np.arange(20), 1, 1, 0, {}))
        return {name: array.copy() for name, array in found.arrays.items()}

    whole, parts = fitted(), fitted(micro_batch=3)
    for name, array in whole.items():
        np.testing.assert_allclose(parts[name], array, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(torch.tensor([1.0, 5.0, 0.0])), functional.mse_loss])
def test_the_divisor_is_that_of_the_mean(loss):
    if loss is functional.mse_loss:
        data = from_arrays(np.zeros((7, 2), np.float32), np.arange(7.0))
        outputs, targets = torch.randn(7), torch.arange(7.0)
    else:
        data = from_arrays(np.zeros((7, 2), np.float32), np.arange(7) % 3)
        outputs, targets = torch.randn(7, 3), torch.arange(7) % 3
    objective = objective_for(data.spec, loss)
    parts = [slice(0, 2), slice(2, 7)]
    sums = sum(objective.loss(outputs[each], targets[each]) * objective.divisor(targets[each]) for each in parts)
    torch.testing.assert_close(sums / objective.divisor(targets), objective.loss(outputs, targets))


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_named_parameters_alone_decay(optimizer):
    settings = {"optimizer": optimizer, "momentum": 0.0, "lr": 0.01, "local_epochs": 1, "batch_size": 100}  # one step
    _, plain, _ = fit(settings, module=without_a_norm)
    for patterns, moved in (
        ("", {"weight", "bias"}),
        ('["!*.bias"]', {"weight"}),
        ('["*.bias", "last"]', {"bias", "3.weight"}),
    ):
        _, decayed, _ = fit({**settings, "weight_decay": 0.3, "decayed": patterns}, module=without_a_norm)
        found = {name for name in plain if (decayed[name] != plain[name]).any()}
        assert found == {name for name in plain if any(name.endswith(each) for each in moved)}


def test_groups_of_a_torch_optimizer_are_those_of_a_loop_by_hand():
    def by_hand(parameters, *, lr, weight_decay):
        still = [each for each in parameters if each.ndim == 1]
        groups = [{"params": [each for each in parameters if each.ndim > 1]}, {"params": still, "weight_decay": 0.0}]
        return torch.optim.SGD(groups, lr=lr, weight_decay=weight_decay)

    settings = {"local_epochs": 2, "lr": 0.05, "weight_decay": 0.3}
    state, after, _ = fit({**settings, "optimizer": "torch.optim:SGD", "decayed": '["!norm", "!*.bias"]'})
    expected, _ = with_torch(state, task_of(), **settings, optimizer=lambda those, **given: by_hand([*those], **given))
    for name, array in expected.items():
        np.testing.assert_allclose(after[name], array, rtol=1e-3, atol=2e-5, err_msg=name)
    _, other, _ = fit({**settings, "optimizer": "torch.optim:SGD"})
    assert np.abs(other["norm.weight"] - after["norm.weight"]).max() > 1e-3


def test_parts_of_a_module_decay_where_an_algorithm_trains_a_part():
    settings = {"weight_decay": 0.3, "momentum": 0.0, "local_epochs": 1, "decayed": '["!*.bias"]'}
    model = TorchModel(Small, dataset().spec)
    state = model.initial_state(seed=5)
    biases = [name for name in model.names if name.endswith("bias")]

    class OnlyBiases(InParts):
        def fit(self, state, task):
            return self.fit_only(biases, state, task, epochs=1)

    with_decay, without = (
        learner_of(model, {**settings, "weight_decay": decay}, kind=OnlyBiases).fit(state, task_of()).arrays
        for decay in (0.3, 0.0)
    )
    assert all((with_decay[name] == array).all() for name, array in without.items())


def test_what_decay_and_parts_cannot_have_is_refused():
    model = TorchModel(Small, dataset().spec)
    with pytest.raises(SettingError, match=r"training\.decayed.*no parameter or buffer is named so"):
        learner_of(model, {"decayed": '["weights"]', "weight_decay": 0.1})
    with pytest.raises(SettingError, match=r"training\.micro_batch.*FedSAMSGD takes its steps itself"):
        learner_of(model, {"micro_batch": 4}, kind=FedSAMSGD)
    (line,) = learner_of(model, {"decayed": '["!*.bias"]', "momentum": 0.0}).notes()
    assert "has no effect" in line
    learner = learner_of(model, {"micro_batch": 4})
    assert "micro_batch" in learner.why_not_stacked(dataset().train)
