"""A fit does not depend on the fits before it, whatever module, loss and learner keep and draw from."""

from __future__ import annotations

import itertools
import os
import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from client.isolated_fits import Fits
from client.learners.learner import LocalTask
from client.learners.sgd import SGD
from fedlearn.config import config_from
from fedlearn.core.errors import SettingError
from fedlearn.data.data_spec import DataSpec, Examples
from fedlearn.models.objectives import objective_for
from fedlearn.models.torch.torch_model import TorchModel

SPEC = DataSpec("rows", (3,), "float32", classes=3)
DATA = Examples(np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32), np.arange(40) % 3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out, self.steps, self.rng, self.iterator = nn.Linear(3, 3), 0, np.random.default_rng(), itertools.count()
        self.register_buffer("scale", torch.ones(1), persistent=False)

    def forward(self, x):
        return self.out(x * self.factor())

    def factor(self):
        return 1.0


class Everything(Net):
    def factor(self):
        self.steps += 1
        self.scale.mul_(0.9)
        return 0.1 * self.steps + self.scale + np.random.normal() + random.random() + self.rng.normal() + torch.rand(1)


class FromTheSystem(Net):
    def factor(self):
        return os.urandom(1)[0]


class Unseeded(Net):
    def factor(self):
        return np.random.default_rng().normal()


class Unseen(Net):
    def factor(self):
        return 1 + next(self.iterator)


def loss(outputs, targets):
    loss.calls = getattr(loss, "calls", 0) + 1
    return functional.cross_entropy(outputs, targets) * (np.random.random() + loss.calls)


class Mine(SGD):
    def __init__(self, model, config):
        super().__init__(model, config)
        self.n, self.optimizer_of_mine = 0, torch.optim.Adam(model.parameters, lr=0.1)

    def gradients(self, gradients, task):
        self.n += 1
        for each in gradients:
            each.mul_(self.n * np.random.random())

    def optimizer(self, parameters, task):
        def update(gradients):
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
            self.optimizer_of_mine.step()

        return update


def fits_of(module=Net, learner=SGD, loss=None, **settings):
    given = {"training.batch_size": 8, "training.local_epochs": 1, "privacy.noise": "seeded", **settings}
    config = config_from(given)
    model = TorchModel(module, SPEC, objective_for(SPEC, loss or ""))
    return Fits(learner.from_settings(model, config), model, config, are_secret=False), model.initial_state(seed=1)


def task_of(node, rows=range(16)):
    return LocalTask(DATA, np.array(rows), 1, 1, node, {})


def learned(fits, state, task):
    return {name: array.copy() for name, array in fits.fit(state, task).arrays.items()}


def assert_same(one, other):
    for name, array in one.items():
        np.testing.assert_array_equal(other[name], array)


@pytest.mark.parametrize(
    "given",
    [{"module": Everything}, {"learner": Mine}, {"loss": loss}, {"module": Everything, "learner": Mine, "loss": loss}],
    ids=["module", "learner", "loss", "all"],
)
def test_a_fit_is_the_same_whatever_was_trained_before(given):
    fits, state = fits_of(**given)
    alone = learned(fits, state, task_of(2))
    fits.put_back()
    fits, _ = fits_of(**given)
    for node in (0, 1):
        fits.fit(state, task_of(node))
    assert_same(learned(fits, state, task_of(2)), alone)
    fits.put_back()
    fits, _ = fits_of(**given)  # another run of this process
    assert_same(learned(fits, state, task_of(2)), alone)


def test_nodes_draw_other_numbers_and_those_of_the_process_stay():
    fits, state = fits_of(Everything)
    before = random.getstate(), np.random.get_state()[1].tolist()
    one, other = (learned(fits, state, task_of(node)) for node in (0, 1))
    assert not np.array_equal(one["out.weight"], other["out.weight"])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_noise_that_is_to_protect_is_not_seeded():
    fits, state = fits_of(Everything, **{"privacy.noise": "secure"})
    one, other = (learned(fits, state, task_of(0)) for _ in range(2))
    assert not np.array_equal(one["out.weight"], other["out.weight"])


def test_a_trial_names_what_is_put_back_if_it_would_change_the_next_fit():
    fits, state = fits_of(Everything)
    assert fits.tried(state, DATA) == "scale, steps"
    fits, state = fits_of()
    assert fits.tried(state, DATA) == ""


@pytest.mark.parametrize("module", [FromTheSystem, Unseeded, Unseen])
def test_a_trial_refuses_what_can_be_neither_seeded_nor_put_back(module):
    fits, state = fits_of(module)
    with pytest.raises(SettingError, match=r"model\.name.*two fits of one client with one seed differ"):
        fits.tried(state, DATA)


def test_nodes_are_not_stacked_where_a_fit_changes_more_than_the_state():
    fits, _ = fits_of(Everything, **{"training.stack": 2})
    assert fits.why_not_stacked(DATA) == "scale is no part of its state, and a fit changes it"


class Normed(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))


class Unbiased(Net):
    """Normalizes by itself: of one example there is no deviation, and its outputs are NaN."""

    def factor(self):
        return 1.0

    def forward(self, x):
        return self.out((x - x.mean(0)) / (x.std(0) + 1) if self.training else x)


@pytest.mark.filterwarnings("ignore:std")
@pytest.mark.parametrize("module", [Normed, Unbiased])
@pytest.mark.parametrize("stack", [1, 3])
def test_last_example_that_is_left_over_alone_goes_with_the_batch_before(module, stack):
    fits, state = fits_of(module, **{"training.stack": stack, "training.partial": True})
    found = [dict(fit.metrics) for fit in fits.fit_many(state, [task_of(k, range(17)) for k in range(3)])]
    assert np.isfinite([each["train_loss"] for each in found]).all()
    assert [each["work_done"] for each in found] == [1, 1, 1]
    learner = fits.learner
    assert [len(rows) for rows in learner.batches(task_of(0, range(17)), _Progress())] == [8, 9]


class _Progress:
    steps, loss_sum = 0, torch.zeros(())


@pytest.mark.filterwarnings("ignore:std")
@pytest.mark.parametrize("module", [Normed, Unbiased])
def test_node_of_one_example_learns_it_by_what_norms_have_stored(module):
    fits, state = fits_of(module)
    after = learned(fits, state, task_of(0, [5]))
    assert all(np.isfinite(array).all() for array in after.values())
    assert not all(np.array_equal(after[name], state[name]) for name in state)
    if module is Normed:
        np.testing.assert_array_equal(after["1.running_var"], state["1.running_var"])
    many = [dict(each.metrics) for each in fits.fit_many(state, [task_of(0, [5]), task_of(1, [5])])]
    assert np.isfinite([each["train_loss"] for each in many]).all()


def test_batches_of_other_modules_stay_as_they_are():
    fits, _ = fits_of()
    assert [len(rows) for rows in fits.learner.batches(task_of(0, range(17)), _Progress())] == [8, 8, 1]


def test_batches_of_one_are_refused_where_the_module_needs_two():
    fits, state = fits_of(Normed, **{"training.batch_size": 1})
    with pytest.raises(SettingError, match=r"training\.batch_size.*cannot be trained on one example alone"):
        fits.fit(state, task_of(0))
