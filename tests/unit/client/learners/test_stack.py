"""Nodes that are trained together learn what each learns alone, to the rounding of float32."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from client.learners import sgd
from client.learners.learner import LocalTask
from client.learners.sgd import SGD
from client.learners.stack import networks_for
from fedlearn.config import config_from
from fedlearn.core.metric import TRAIN_LOSS, WORK_DONE
from fedlearn.data.data_spec import DataSpec, Examples
from fedlearn.data.dataset import Dataset
from fedlearn.models import MODELS, load_model
from fedlearn.models.stacks import FunctionalNetwork, StackedNetwork
from fedlearn.models.torch.torch_model import TorchModel
from tests.contracts.test_learners import model_and_data
from tests.oracles.images import Small, WithDropout, dataset

STEP = 1e-5  # by so much of its length one step may differ; 10 rounds by `ROUNDS`
ROUNDS = 1e-3
NETWORKS = [name for name, row in MODELS.items() if row.trains_in_steps]
SLOW = {"cnn-large", "resnet18", "lstm"}
STEP_TAKES = {**dict.fromkeys(SLOW, pytest.mark.slow), "resnet18": pytest.mark.long}
ROUNDS_TAKE = dict.fromkeys(SLOW, pytest.mark.long) | dict.fromkeys(("cnn", "transformer"), pytest.mark.slow)
ROUNDED = [name for name in NETWORKS if name != "resnet18"]  # which has a test of its own


class Nets(nn.Module):
    """A network with what has no rule: parameters of its own, positions, a sum over places, two heads."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.randn(3, 1, 1))
        self.conv = nn.Conv2d(3, 20, 3, stride=3, padding="valid", bias=False)
        self.heads = nn.ParameterList([torch.randn(20, 10) * 0.1, torch.randn(20, 10) * 0.1])
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x):
        """Return logits."""
        hidden = functional.elu(self.conv(x + self.shift)).mean((2, 3)) / self.scale
        return sum(hidden @ head for head in self.heads)


class Attentive(nn.Module):
    """A network of torch's own attention, with dropout."""

    def __init__(self):
        super().__init__()
        self.narrow = nn.Linear(96, 8)
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.2, batch_first=True)
        self.out = nn.Sequential(nn.Dropout(0.3), nn.LayerNorm(8), nn.Linear(8, 10))

    def forward(self, x):
        """Return logits."""
        rows = self.narrow(x.permute(0, 2, 3, 1).flatten(2))
        attended, _ = self.attention(rows, rows, rows, need_weights=False)
        return self.out(attended.mean(1))


def learner_of(model, *, kind=SGD, **training):
    flat = {"training.local_epochs": 2, "training.batch_size": 4, "training.stack": 8, "training.lr": 0.05}
    return kind.from_settings(model, config_from(flat | {f"training.{key}": each for key, each in training.items()}))


@cache
def made(kind):
    return TorchModel(kind, dataset().spec)


def tasks_of(train, sizes, **about):
    ends = np.cumsum(sizes)
    rows = [np.arange(end - size, end) % len(train) for end, size in zip(ends, sizes, strict=True)]
    return [LocalTask(train, mine, 3, about.get("round_number", 1), k, {}) for k, mine in enumerate(rows)]


def copied(fit):
    return {name: array.copy() for name, array in fit.arrays.items()}, fit.num_examples, fit.metrics


def moved(fit, state):
    return np.concatenate([np.ravel(fit[0][name].astype(np.float64) - state[name]) for name in sorted(state)])


def differences(learner, state, tasks):
    """Yield by how much of its way each node's state differs from that of the node alone; the rest must be alike."""
    alone = [copied(learner.fit(state, task)) for task in tasks]
    together = [copied(fit) for fit in learner.fit_many(state, tasks)]
    for one, other in zip(alone, together, strict=True):
        assert {name: array.dtype for name, array in one[0].items()} == {n: a.dtype for n, a in other[0].items()}
        assert one[1] == other[1]
        assert one[2].keys() == other[2].keys()
        assert other[2][TRAIN_LOSS.name] == pytest.approx(one[2][TRAIN_LOSS.name], rel=1e-3)
        assert one[2].get(WORK_DONE.name) == other[2].get(WORK_DONE.name)
        yield np.linalg.norm(moved(one, state) - moved(other, state)) / np.linalg.norm(moved(one, state))


OPTIONS = {
    "momentum": st.sampled_from([0.0, 0.9]),
    "weight_decay": st.sampled_from([0.0, 0.01]),
    "proximal_mu": st.sampled_from([0.0, 0.1]),
    "clip_norm": st.sampled_from([0.0, 0.3]),
    "optimizer": st.sampled_from(["sgd", "adam", "adamw", "adagrad", "rmsprop"]),
    "local_epochs": st.integers(1, 3),
    "batch_size": st.integers(1, 9),
    "partial": st.booleans(),
}


@given(
    sizes=st.lists(st.integers(1, 9), min_size=2, max_size=5),
    shape=st.sampled_from([(1,), (5,), (4, 3)]),
    hidden=st.integers(0, 2),
    width=st.integers(1, 7),
    options=st.fixed_dictionaries(OPTIONS),
)
def test_any_sizes_shapes_and_options_are_those_of_nodes_alone(sizes, shape, hidden, width, options):
    rng = np.random.default_rng(0)
    train = Examples(rng.normal(size=(40, *shape)).astype(np.float32), rng.integers(0, 3, 40))
    spec = DataSpec("made", shape, "float32", classes=3)
    torch.manual_seed(1)
    layers = [nn.Flatten(), nn.Linear(int(np.prod(shape)), width)]
    layers += [layer for _ in range(hidden) for layer in (nn.Tanh(), nn.Linear(width, width))]
    model = TorchModel(lambda: nn.Sequential(*layers, nn.Linear(width, 3)), spec)
    learner = learner_of(model, lr=0.01, **options)
    state = model.initial_state(seed=1)
    assert max(differences(learner, state, tasks_of(train, sizes))) < 1e-3  # many steps, some of a tiny length


@pytest.mark.parametrize("name", [pytest.param(n, marks=STEP_TAKES.get(n, ())) for n in NETWORKS])
def test_a_step_of_every_built_in_network_is_that_of_nodes_alone(name):
    model, data = model_and_data(name)
    learner = learner_of(model, local_epochs=1, momentum=0.0)
    assert learner.why_not_stacked(data.train) == ""
    state = model.initial_state(seed=1)
    assert max(differences(learner, state, tasks_of(data.train, (4, 4, 3)))) < STEP


@pytest.mark.parametrize("name", [pytest.param(n, marks=ROUNDS_TAKE.get(n, ())) for n in ROUNDED])
def test_ten_rounds_of_every_built_in_network_are_those_of_nodes_alone(name):
    model, data = model_and_data(name)
    learner = learner_of(model, local_epochs=1, lr=0.02)
    first = model.initial_state(seed=1)
    states = [first, first]
    for round_number in range(1, 11):
        tasks = tasks_of(data.train, (8, 6, 8), round_number=round_number)
        fits = [map(learner.fit, [states[0]] * 3, tasks), learner.fit_many(states[1], tasks)]
        states = [mean_of([copied(fit)[0] for fit in each]) for each in fits]
    ways = [moved((state,), first) for state in states]
    assert np.linalg.norm(ways[0] - ways[1]) < ROUNDS * np.linalg.norm(ways[0])


@pytest.mark.long
def test_rounds_of_a_deep_network_differ_by_less_than_one_unit_in_the_last_place_of_its_first_layer_makes():
    """Rounding grows from step to step there in either way: after three rounds of resnet18 it is some 1 %."""
    model, data = model_and_data("resnet18")
    learner = learner_of(model, local_epochs=1, lr=0.02)
    first = model.initial_state(seed=1)
    layer = next(iter(first))
    shifted = {**first, layer: np.nextafter(first[layer], np.float32(np.inf))}
    states = [first, first, shifted]
    for round_number in range(1, 4):
        tasks = tasks_of(data.train, (8, 6, 8), round_number=round_number)
        alone = [map(learner.fit, [state] * 3, tasks) for state in (states[0], states[2])]
        fits = [alone[0], learner.fit_many(states[1], tasks), alone[1]]
        states = [mean_of([copied(fit)[0] for fit in each]) for each in fits]
    ways = [moved((state,), first) for state in states]
    assert np.linalg.norm(ways[0] - ways[1]) < np.linalg.norm(ways[0] - ways[2]) < 0.05 * np.linalg.norm(ways[0])


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """Have stacks computed by `torch.func` where that can be done: the way of a GPU, on the CPU."""
    monkeypatch.setattr(sgd, "networks_for", lambda device: networks_for(torch.device("cuda")))


@pytest.mark.parametrize("name", [pytest.param(n, marks=STEP_TAKES.get(n, ())) for n in NETWORKS])
def test_a_step_of_every_built_in_network_by_functions_is_that_of_nodes_alone(name, as_on_a_gpu):
    model, data = model_and_data(name)
    learner = learner_of(model, local_epochs=1, momentum=0.0)
    assert learner.why_not_stacked(data.train) == ""
    assert learner._network is FunctionalNetwork
    state = model.initial_state(seed=1)
    assert max(differences(learner, state, tasks_of(data.train, (4, 4, 3)))) < STEP


@given(sizes=st.lists(st.integers(1, 9), min_size=2, max_size=5), options=st.fixed_dictionaries(OPTIONS))
def test_any_sizes_and_options_by_functions_are_those_of_nodes_alone(sizes, options):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sgd, "networks_for", lambda device: networks_for(torch.device("cuda")))
        rng = np.random.default_rng(0)
        train = Examples(rng.normal(size=(40, 5)).astype(np.float32), rng.integers(0, 3, 40))
        torch.manual_seed(1)
        layers = nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3)
        model = TorchModel(lambda: nn.Sequential(*layers), DataSpec("made", (5,), "float32", classes=3))
        learner = learner_of(model, lr=0.01, **options)
        assert learner._network is FunctionalNetwork
        assert max(differences(learner, model.initial_state(seed=1), tasks_of(train, sizes))) < 1e-3


@pytest.mark.parametrize(("kind", "network"), [(Small, FunctionalNetwork), (WithDropout, StackedNetwork)])
def test_what_draws_random_numbers_is_not_computed_by_functions(kind, network, as_on_a_gpu):
    learner = learner_of(made(kind))
    assert learner.why_not_stacked(dataset().train) == ""
    assert learner._network is network
    assert max(differences(learner, made(kind).initial_state(seed=1), tasks_of(dataset().train, (8, 6, 8)))) < 1e-4


@pytest.mark.parametrize("sizes", [(8, 8), (8, 4, 8)])
def test_running_means_by_functions_are_those_of_nodes_alone(sizes, as_on_a_gpu):
    learner, state = learner_of(made(Small)), made(Small).initial_state(seed=1)
    assert learner.why_not_stacked(dataset().train) == ""
    assert max(differences(learner, state, tasks_of(dataset().train, sizes))) < 1e-4


class OneByOne(SGD):
    """Changes the parameters of one node after another."""

    can_stack = True

    def changes_alike(self, tasks):
        return False


class Watching(SGD):
    """Notes how parameters are changed."""

    can_stack = True

    def changes_alike(self, tasks):
        self.alike = super().changes_alike(tasks)
        return self.alike


@pytest.mark.parametrize(
    ("sizes", "options", "alike"),
    [
        ((4, 4), {}, True),
        ((4, 4), {"weight_decay": 0.1, "proximal_mu": 0.2}, True),
        ((4, 3), {}, False),
        ((4, 4), {"clip_norm": 0.1}, False),
        ((4, 4), {"optimizer": "adam"}, False),
    ],
)
def test_parameters_of_nodes_that_take_the_same_steps_are_changed_at_once_with_the_same_bytes(sizes, options, alike):
    state, tasks = made(Small).initial_state(seed=1), tasks_of(dataset().train, sizes)
    learner, each = (learner_of(made(Small), kind=kind, **options) for kind in (Watching, OneByOne))
    at_once = [copied(fit) for fit in learner.fit_many(state, tasks)]
    assert learner.alike is alike
    for one, other in zip(at_once, [copied(fit) for fit in each.fit_many(state, tasks)], strict=True):
        assert all(one[0][name].tobytes() == array.tobytes() for name, array in other[0].items())


class Lazy(SGD):
    """Some nodes take fewer steps than others with as many examples."""

    can_stack = True

    def batches(self, task, progress):
        for number, rows in enumerate(super().batches(task, progress)):
            if number <= task.partition_id:
                yield rows


def test_nodes_whose_learner_chooses_its_batches_are_changed_one_by_one():
    """A gradient of one node alone would else be taken for that of all."""
    learner, state = learner_of(made(Small), kind=Lazy), made(Small).initial_state(seed=1)
    assert max(differences(learner, state, tasks_of(dataset().train, (8, 8)))) < 1e-4


class Centred(SGD):
    """Makes of a batch what hangs on all of it."""

    can_stack = True

    def batch(self, train, rows):
        inputs, targets = super().batch(train, rows)
        return inputs - inputs.mean(0), targets


def test_a_learner_that_makes_its_own_batches_makes_each_nodes():
    learner, state = learner_of(made(Small), kind=Centred), made(Small).initial_state(seed=1)
    assert max(differences(learner, state, tasks_of(dataset().train, (8, 8)))) < 1e-4


def mean_of(states):
    return {
        name: np.mean([state[name] for state in states], axis=0, dtype=array.dtype) for name, array in states[0].items()
    }


@pytest.mark.parametrize("kind", [Small, WithDropout, Nets, Attentive])
@pytest.mark.parametrize("augment", [False, True])
def test_running_means_random_numbers_and_other_layers_are_those_of_nodes_alone(kind, augment):
    model = made(kind)
    config = config_from(
        {"training.local_epochs": 2, "training.batch_size": 4, "training.stack": 4, "data.augment": augment}
    )
    learner = SGD.from_settings(model, config)
    assert learner.why_not_stacked(dataset().train) == ""
    state = model.initial_state(seed=1)
    assert max(differences(learner, state, tasks_of(dataset().train, (8, 6, 8, 8)))) < 1e-4


def test_a_stack_is_as_many_nodes_as_the_setting_says_and_the_last_one_is_shorter():
    learner, state = learner_of(made(Small), stack=2), made(Small).initial_state(seed=1)
    tasks = tasks_of(dataset().train, (4, 4, 4, 4, 4))
    assert [copied(fit)[0]["out.bias"].shape for fit in learner.fit_many(state, tasks)] == [(10,)] * 5
    alone = copied(learner.fit(state, tasks[4]))[0]
    *_, last = learner.fit_many(state, tasks)
    np.testing.assert_array_equal(last.arrays["out.weight"], alone["out.weight"])  # one node is no stack


def test_the_same_stack_has_the_same_bytes_whatever_was_trained_before():
    state, tasks = made(Small).initial_state(seed=1), tasks_of(dataset().train, (7, 4, 6))
    learner = learner_of(made(Small))
    first = [copied(fit) for fit in learner.fit_many(state, tasks)]
    list(learner.fit_many(state, tasks_of(dataset().train, (5, 5), round_number=2)))
    again = [copied(fit) for fit in learner.fit_many(state, tasks)]
    other = [copied(fit) for fit in learner_of(made(Small)).fit_many(state, tasks)]
    for one, *others in zip(first, again, other, strict=True):
        for each in others:
            assert each[2] == one[2]
            assert all(each[0][name].tobytes() == array.tobytes() for name, array in one[0].items())


def test_a_node_whose_numbers_explode_spoils_no_other():
    data = dataset()
    images = data.train.inputs.astype(np.float32)
    images[4:8] = np.nan
    train = Examples(images, data.train.targets)
    model = TorchModel(Small, DataSpec("made", (32, 32, 3), "float32", classes=10))
    learner, state = learner_of(model), model.initial_state(seed=1)
    fits = [copied(fit) for fit in learner.fit_many(state, tasks_of(train, (4, 4, 4)))]
    assert np.isnan(fits[1][0]["out.weight"]).all()
    for fit, task in zip(fits[::2], tasks_of(train, (4, 4, 4))[::2], strict=True):
        np.testing.assert_allclose(fit[0]["out.weight"], learner.fit(state, task).arrays["out.weight"], atol=1e-6)


class Branching(Small):
    """Goes another way where a batch is bright; looks at a number itself."""

    def forward(self, x):
        """Return logits."""
        return super().forward(-x if float(x.mean()) > 0 else x)


class Drawing(Small):
    """Draws without saying for whom."""

    def forward(self, x):
        """Return logits."""
        return super().forward(x * torch.rand(1))


class Counting(Small):
    """Turns tensors into arrays."""

    def forward(self, x):
        """Return logits."""
        return super().forward(x) + float(x.detach().numpy().mean())


class Hooked(SGD):
    """Looks where it likes."""

    def gradients(self, gradients, task):
        torch._foreach_neg_(gradients)


class Sound(Hooked):
    """Reads only its arguments."""

    can_stack = True


class Stubborn(SGD):
    """Steps in its own way."""

    can_stack = True

    def step_for(self, task):
        return super().step_for(task)


@pytest.mark.parametrize(
    ("module", "kind", "why"),
    [
        (Branching, SGD, "its way depends on the numbers in a batch"),
        (Drawing, SGD, "a client would learn something else than alone"),
        (Counting, SGD, "its way depends on the numbers in a batch"),
        (Small, Hooked, "Hooked changes how a client is trained, and does not say can_stack = True"),
        (Small, Stubborn, "Stubborn changes how a client is trained"),
        (Small, Sound, ""),
        (Small, SGD, ""),
    ],
)
def test_what_cannot_be_stacked_is_found_by_a_try_and_says_why(module, kind, why):
    found = learner_of(made(module), kind=kind).why_not_stacked(dataset().train)
    assert found.startswith(why)
    assert bool(found) is bool(why)


def test_hooks_of_a_learner_that_can_stack_are_those_of_nodes_alone():
    learner, state = learner_of(made(Small), kind=Sound), made(Small).initial_state(seed=1)
    assert max(differences(learner, state, tasks_of(dataset().train, (8, 6)))) < 1e-4


def test_other_objectives_are_those_of_nodes_alone():
    rng = np.random.default_rng(0)
    train = Examples(rng.normal(size=(40, 4)).astype(np.float32), rng.normal(size=40))
    spec = Dataset("made", train, train, 0, (), (), "made").spec
    for loss in ("mse", "mae", "huber"):
        model = load_model("mlp", spec, '{"width": 8}', loss)
        assert max(differences(learner_of(model), model.initial_state(seed=1), tasks_of(train, (9, 8, 5)))) < 1e-4


class FrozenSmall(Small):
    """The same under a frozen convolution and norm."""

    def __init__(self):
        super().__init__()
        self.conv.requires_grad_(False)
        self.norm.requires_grad_(False)


class FrozenAttentive(Attentive):
    """Attention whose projections are frozen, which runs for one node after another."""

    def __init__(self):
        super().__init__()
        self.attention.requires_grad_(False)


@pytest.mark.parametrize("functions", [True, False])
@pytest.mark.parametrize("kind", [FrozenSmall, FrozenAttentive])
def test_frozen_layers_stand_in_a_stack_once_and_nodes_learn_what_each_learns_alone(kind, functions, monkeypatch):
    if functions:
        monkeypatch.setattr(sgd, "networks_for", lambda device: networks_for(torch.device("cuda")))
    model = TorchModel(kind, dataset().spec).planned(config_from({}))
    learner, state = learner_of(model), model.initial_state(seed=1)
    assert learner.why_not_stacked(dataset().train) == ""
    assert max(differences(learner, state, tasks_of(dataset().train, (8, 4, 8)))) < 1e-4
    values = learner._stack._network._values
    trained = {name for name, each in model.module.named_parameters() if each.requires_grad}
    assert all(each.stride(0) == 0 for name, each in values.items() if name in model.parts.frozen and "weight" in name)
    assert all(each.stride(0) > 0 for name, each in values.items() if name in trained)
