"""Targets that count in no loss count in no measure; losses and measures equal scikit-learn's on the whole set."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from sklearn import metrics
from torch import nn
from torch.nn import functional

from fedlearn.core.errors import SettingError
from fedlearn.data import from_arrays
from fedlearn.data.data_spec import Examples
from fedlearn.models.objectives import objective_for
from fedlearn.models.torch.torch_model import TorchModel

RNG = np.random.default_rng(1)
VOID, COUNT = 2, 331  # three batches of 100 and one of 31
WEIGHT = torch.tensor([0.5, 3.0, 1.0])
EXACT = {"rel": 1e-7, "abs": 1e-7}


def masked_mean(outputs, targets):
    counts = targets != VOID
    return functional.cross_entropy(outputs[counts], targets[counts])


def masked_share(outputs, targets):
    return (functional.cross_entropy(outputs, targets, reduction="none") * (targets != VOID)).mean()


class AsIs(nn.Module):
    """Returns what it gets: the outputs are in the examples."""

    def __init__(self, shape=(3,)):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(()))
        self.shape = shape

    def forward(self, x):
        return x.reshape(-1, *self.shape) + self.shift


def evaluated(X, y, loss, shape=(3,), **options):
    data = from_arrays(X, y, X[:4], y[:4], **options)
    model = TorchModel(lambda: AsIs(shape), data.spec, objective_for(data.spec, loss))
    return model, model.evaluate(model.initial_state(seed=1), Examples(X, y))


def uneven(*shape):
    """Return logits and classes, of which the first hundred examples are void and the last mostly."""
    X = RNG.normal(size=(COUNT, 3, *shape)).astype(np.float32)
    y = RNG.integers(0, 3, (COUNT, *shape))
    y[:100], y[300:] = VOID, np.where(RNG.random((31, *shape)) < 0.9, VOID, y[300:])
    return X, y


LOSSES = [
    nn.CrossEntropyLoss(ignore_index=VOID),
    nn.CrossEntropyLoss(ignore_index=VOID, weight=WEIGHT),
    nn.CrossEntropyLoss(weight=torch.tensor([0.5, 3.0, 0.0])),
    partial(functional.cross_entropy, ignore_index=VOID, label_smoothing=0.1),
]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", [(), (7,), (4, 5)])
def test_loss_is_that_of_torch_on_all_examples_at_once(loss, shape):
    X, y = uneven(*shape)
    _, found = evaluated(X.reshape(COUNT, -1), y, loss, (3, *shape), classes=3)
    loss = loss.double() if isinstance(loss, nn.Module) else loss
    assert found.means["loss"] == pytest.approx(float(loss(torch.from_numpy(X).double(), torch.from_numpy(y))), **EXACT)


@pytest.mark.parametrize("loss", [*LOSSES, masked_mean, masked_share])
def test_measures_are_those_of_scikit_learn_on_the_targets_that_count(loss):
    X, y = uneven()
    model, found = evaluated(X, y, loss, classes=3)
    guess, counts = X.argmax(1), y != VOID
    assert found.means["accuracy"] == pytest.approx(metrics.accuracy_score(y[counts], guess[counts]), **EXACT)
    assert (found.confusion == metrics.confusion_matrix(y[counts], guess[counts], labels=[0, 1, 2])).all()
    known = model.objective.predictions(torch.from_numpy(X), torch.from_numpy(y))
    assert known.truth.tolist() == y[counts].tolist() and known.guess.tolist() == guess[counts].tolist()


def test_weighted_loss_is_scikit_learns():
    X, y = uneven()
    _, found = evaluated(X, y, nn.CrossEntropyLoss(weight=WEIGHT), classes=3)
    shares = torch.from_numpy(X).double().softmax(1).numpy()
    assert found.means["loss"] == pytest.approx(metrics.log_loss(y, shares, sample_weight=WEIGHT.numpy()[y]), **EXACT)
    assert found.means["accuracy"] == pytest.approx(metrics.accuracy_score(y, X.argmax(1)), **EXACT)


@pytest.mark.parametrize("loss", [masked_mean, masked_share])
def test_masked_loss_of_ones_own_is_that_on_all_examples_at_once(loss):
    X, y = uneven()
    _, found = evaluated(X, y, loss, classes=3)
    assert found.means["loss"] == pytest.approx(float(loss(torch.from_numpy(X), torch.from_numpy(y))), rel=1e-6)


@pytest.mark.parametrize(
    "loss", [nn.CrossEntropyLoss(), nn.MultiMarginLoss(), lambda o, t: functional.cross_entropy(o * 9, t)]
)
def test_where_all_targets_count_all_do(loss):
    X, y = uneven()
    X[0] = 1000 * np.eye(3)[y[0]]  # no step would change this answer
    _, found = evaluated(X, y, loss, classes=3)
    assert found.means["accuracy"] == pytest.approx(metrics.accuracy_score(y, X.argmax(1)), **EXACT)
    assert found.weights.get("accuracy", COUNT) == COUNT


def test_set_without_a_target_that_counts_has_no_measure():
    X, y = uneven()
    y[:] = VOID
    _, found = evaluated(X, y, LOSSES[0], classes=3)
    assert found.means == {}


def test_batch_without_a_target_that_counts_changes_no_parameter():
    data = from_arrays(*uneven(), classes=3)
    objective = objective_for(data.spec, LOSSES[2])
    outputs = torch.zeros(2, 3, requires_grad=True)
    loss = objective.loss(outputs, torch.tensor([VOID, VOID]))
    (gradient,) = torch.autograd.grad(loss, outputs)
    assert loss == 0 and not gradient.any()


def masked_error(outputs, targets):
    counts = targets > -100
    return (outputs - targets)[counts].abs().mean()


@pytest.mark.parametrize("shape", [(), (4,)])
def test_numbers_that_a_mask_leaves_out_have_no_error(shape):
    X = RNG.normal(size=(COUNT, *shape)).astype(np.float32)
    y = (X + RNG.normal(size=X.shape)).astype(np.float32)
    y[:100], y[300:-3] = -999, -999
    _, found = evaluated(X.reshape(COUNT, -1), y, masked_error, shape)
    counts = y > -100
    right = {"mae": metrics.mean_absolute_error, "mse": metrics.mean_squared_error}
    for name, measure in right.items():
        assert found.means[name] == pytest.approx(measure(y[counts], X[counts]), rel=1e-6)
    assert found.means["loss"] == pytest.approx(float(masked_error(*map(torch.from_numpy, (X, y)))), rel=1e-6)


@pytest.mark.parametrize("is_log", [True, False])
def test_poisson_loss_is_measured_by_the_deviance_of_rates(is_log):
    rate = RNG.uniform(0.2, 5, COUNT)
    counts = RNG.poisson(rate).astype(np.float32)
    X = (np.log(rate) if is_log else rate).astype(np.float32)
    model, found = evaluated(X[:, None], counts, nn.PoissonNLLLoss(log_input=is_log), (1,))
    assert model.metrics.best_by == "deviance"
    assert found.means["deviance"] == pytest.approx(metrics.mean_poisson_deviance(counts, rate), rel=1e-6)
    assert found.means["mae"] == pytest.approx(metrics.mean_absolute_error(counts, rate), rel=1e-6)


def test_no_error_is_measured_of_outputs_in_another_unit():
    y = RNG.poisson(2.0, COUNT).astype(np.float32)
    model, found = evaluated(y[:, None] / 9, y, lambda o, t: functional.poisson_nll_loss(o[:, 0], t), (1,))
    assert found.means.keys() == {"loss"} and model.metrics.best_by == "loss"


def pinball(outputs, targets):
    over = targets - outputs[:, 0]
    return torch.maximum(0.9 * over, -0.1 * over).mean()


def test_loss_of_numbers_gets_the_shape_that_the_module_returned():
    y = RNG.normal(size=COUNT).astype(np.float32)
    model, found = evaluated(y[:, None] + 1, y, pinball, (1,))
    model.try_step(Examples(y[:2, None], y[:2]))
    assert found.means["loss"] == pytest.approx(0.1, rel=1e-6)
    assert found.means["mae"] == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (lambda o, t: (o - t).square().mean(), "compares each with every other"),
        (lambda o, t: (o[:, 0] - t).square().sum(), "is a sum over its batch"),
    ],
)
def test_loss_of_numbers_that_spreads_or_adds_is_refused(loss, said):
    y = RNG.normal(size=COUNT).astype(np.float32)
    model, _ = evaluated(y[:, None] + 1, y, loss, (1,))
    with pytest.raises(ValueError, match=said):
        model.try_step(Examples(y[:2, None] + 1, y[:2]))


@pytest.mark.parametrize(
    "loss",
    [nn.CrossEntropyLoss(reduction="sum"), partial(functional.mse_loss, reduction="none"), nn.BCELoss(reduction="sum")],
)
def test_loss_of_torch_that_is_no_mean_is_refused(loss):
    with pytest.raises(SettingError, match=r"reduction='(sum|none)' is no mean over a batch.* leave reduction out"):
        objective_for(from_arrays(*uneven(), classes=3).spec, loss)


def test_labels_of_weight_0_are_neither_right_nor_wrong():
    X = RNG.normal(size=(COUNT, 3)).astype(np.float32)
    y = (RNG.random((COUNT, 3)) < 0.4).astype(np.float32)
    model, found = evaluated(X, y, nn.BCEWithLogitsLoss(weight=torch.tensor([1.0, 0.0, 2.0])))
    right = ((X > 0) == (y > 0))[:, [0, 2]]
    assert found.means["accuracy"] == pytest.approx(right.mean(), **EXACT)
    assert found.means["all_right"] == pytest.approx(right.all(1).mean(), **EXACT)
    assert model.objective.predictions(torch.from_numpy(X), torch.from_numpy(y)).truth.shape == (COUNT, 2)
