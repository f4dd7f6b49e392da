"""Hooks of a LightningModule: its steps and its optimizer are those of a loop written by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from client.learners.lightning import Lightning
from fedlearn.core.errors import SettingError
from fedlearn.core.seeding import rng_for
from fedlearn.models.torch.hooks import hook_of
from fedlearn.models.torch.inputs import inputs_of
from fedlearn.models.torch.torch_model import TorchModel
from tests.oracles.images import Lit, Small, dataset
from tests.unit.client.learners.test_sgd import learner_of, task_of

FALLING = {"gamma": 0.5, "step_size": 1}


class ByDict(Lit):
    def training_step(self, batch):
        return {"loss": super().training_step(batch, 0), "more": 1}


class Scheduled(Lit):
    interval = "epoch"

    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, **FALLING)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": self.interval}}


class ByStep(Scheduled):
    interval = "step"


class InLists(Lit):
    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, **FALLING)]


class StepAlone(Small):
    training_step = Lit.training_step
    log = Lit.log


def fitted(kind, task=None, **training):
    model = TorchModel(kind, dataset().spec)
    state = model.initial_state(seed=5)
    learner = learner_of(model, {"local_epochs": 2, **training}, kind=Lightning)
    found = learner.fit(state, task or task_of())
    return state, {name: array.copy() for name, array in found.arrays.items()}, found.metrics


def by_hand(state, task, *, rate=lambda epoch, step: 1e-3, epochs=2, build=None):
    module = Small()
    module.load_state_dict({name: torch.tensor(array) for name, array in state.items()})
    optimizer = (build or (lambda parameters: torch.optim.AdamW(parameters, lr=1e-3)))(module.parameters())
    shuffle = rng_for(task.seed, purpose="shuffle", round_number=task.round_number, node=task.partition_id)
    module.train()
    step = 0
    for epoch in range(epochs):
        order = task.indices[shuffle.permutation(len(task.indices))]
        for first in range(0, len(order), 16):
            rows = order[first : first + 16]
            images = inputs_of(dataset().spec)(task.train.inputs[rows])
            labels = torch.tensor(task.train.targets[rows])
            for group in optimizer.param_groups:
                group["lr"] = rate(epoch, step)
            optimizer.zero_grad()
            functional.cross_entropy(module(images), labels, label_smoothing=0.1).backward()
            optimizer.step()
            step += 1
    return {name: tensor.numpy() for name, tensor in module.state_dict().items()}


def is_close(one, other):
    return all(np.allclose(one[name], other[name], atol=1e-5) for name in one)


@pytest.mark.parametrize("kind", [Lit, ByDict])
def test_steps_and_optimizer_are_those_of_the_module(kind):
    state, arrays, metrics = fitted(kind)
    assert is_close(arrays, by_hand(state, task_of()))
    assert metrics["train_loss"] > 0


@pytest.mark.parametrize("kind", [Scheduled, InLists])
def test_rate_falls_by_epochs_over_all_rounds(kind):
    task = task_of(round_number=3)  # four epochs lie behind it
    state, arrays, _ = fitted(kind, task)
    assert is_close(arrays, by_hand(state, task, rate=lambda epoch, _: 1e-3 * 0.5 ** (4 + epoch)))


def test_rate_falls_by_steps_over_all_rounds():
    task = task_of(round_number=2)  # of three steps in each of two epochs
    state, arrays, _ = fitted(ByStep, task)
    assert is_close(arrays, by_hand(state, task, rate=lambda _, step: 1e-3 * 0.5 ** (6 + step)))


def test_step_without_an_optimizer_takes_that_of_the_settings():
    state, arrays, _ = fitted(StepAlone, lr=0.05, momentum=0.0)
    assert is_close(
        arrays, by_hand(state, task_of(), rate=lambda *_: 0.05, build=lambda p: torch.optim.SGD(p, lr=0.05))
    )


def test_pull_of_fedprox_and_clipping_hold_here_too():
    state, free, _ = fitted(Lit)
    for more in ({"proximal_mu": 100.0}, {"clip_norm": 1e-9}):
        _, other, _ = fitted(Lit, **more)
        assert not is_close(free, other)
    assert state.keys() == free.keys()


def test_module_with_a_step_is_trained_by_it_unless_a_learner_is_named():
    assert TorchModel(Lit, dataset().spec).learner == "lightning"
    assert TorchModel(Small, dataset().spec).learner == "sgd"


class Several(Lit):
    def configure_optimizers(self):
        return [super().configure_optimizers(), super().configure_optimizers()]


class Manual(Lit):
    automatic_optimization = False


class Waiting(Lit):
    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        return [optimizer], [torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)]


class Broken(Lit):
    def configure_optimizers(self):
        raise RuntimeError("there is no trainer")


@pytest.mark.parametrize(
    ("kind", "training", "said"),
    [
        (Small, {}, r"model\.name = 'Small': it has no training_step"),
        (Several, {}, "configure_optimizers returns 2 optimizers and 0 schedulers: return one of each"),
        (Manual, {}, "it optimizes manually"),
        (Waiting, {}, "its scheduler waits for a metric"),
        (Broken, {}, r"Broken\.configure_optimizers'.*there is no trainer"),
        (Lit, {"precision": "bfloat16-mixed"}, r"training\.precision = 'bfloat16-mixed': training_step of Lit"),
    ],
)
def test_what_hooks_cannot_say_here_is_refused(kind, training, said):
    with pytest.raises(SettingError, match=said):
        learner_of(TorchModel(kind, dataset().spec), training, kind=Lightning)


class Silent(Lit):
    def training_step(self, batch, batch_idx):
        return None


def test_step_without_a_loss_is_an_error_of_its_node():
    with pytest.raises(TypeError, match="training_step returned a NoneType: return the loss of the batch"):
        fitted(Silent)


class Trained(Lit):
    @property
    def trainer(self):
        raise RuntimeError("Lit is not attached to a `Trainer`.")

    def training_step(self, batch, batch_idx):
        return self.trainer.world_size * super().training_step(batch, batch_idx)


@pytest.mark.parametrize(
    ("kind", "said"), [(Trained, "RuntimeError: Lit is not attached"), (Silent, "return the loss")]
)
def test_step_that_fails_is_refused_before_round_1(kind, said):
    learner = learner_of(TorchModel(kind, dataset().spec), {}, kind=Lightning)
    with pytest.raises(SettingError, match=rf"model\.name = '{kind.__name__}': training_step on two examples.*{said}"):
        learner.try_on(dataset().train)
    learner_of(TorchModel(Lit, dataset().spec), {}, kind=Lightning).try_on(dataset().train)


def test_steps_are_numbered_within_a_fit():
    numbers = []

    class Counting(Lit):
        def training_step(self, batch, batch_idx):
            numbers.append(batch_idx)
            return super().training_step(batch, batch_idx)

    fitted(Counting)
    assert numbers == list(range(6))


def test_hook_of_lightnings_own_base_class_is_none():
    class Base(Small):
        def training_step(self, batch, batch_idx):
            """Do what Lightning's base class does: warn."""

    Base.training_step.__module__ = "lightning.pytorch.core.module"
    assert hook_of(Base(), "training_step") is None
    assert TorchModel(Base, dataset().spec).learner == "sgd"
