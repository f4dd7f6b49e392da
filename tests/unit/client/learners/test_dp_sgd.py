"""DP-SGD: the noisy step, and all that must not depend on a record."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

import client.learners.dp_sgd as dp_sgd
from client.learners.dp_sgd import DPSGD
from client.learners.learner import LocalTask
from client.learners.poisson_batches import SecureDraws, SeededDraws
from fedlearn.config import config_from
from fedlearn.core.errors import SettingError
from fedlearn.data.data_spec import DataSpec, Examples
from fedlearn.models import load_model
from fedlearn.models.per_example.by_layer import ByLayer
from fedlearn.models.per_example.by_transform import weighted
from fedlearn.models.per_example.one_by_one import OneByOne
from fedlearn.models.torch.torch_model import TorchModel
from fedlearn.privacy import seeded_noise
from fedlearn.privacy.accounts import epsilon_of

SPEC = DataSpec("rows", (6,), "float32", classes=3)
RECORDS = 40
SETTINGS = {
    "model.name": "mlp", "training.learner": "dp-sgd", "privacy.protects": "records", "privacy.delta": 1e-5,
    "privacy.epsilon": 100.0, "privacy.noise_multiplier": 1.0, "privacy.records": RECORDS, "privacy.noise": "seeded",
    "training.batch_size": 8, "training.local_epochs": 1, "training.momentum": 0.0, "rounds.total": 3,
}  # fmt: skip


def examples(count: int = RECORDS, *, seed: int = 4) -> Examples:
    rng = np.random.default_rng(seed)
    return Examples(rng.standard_normal((count, 6)).astype(np.float32), rng.integers(0, 3, count))


def learner_of(**changes: object) -> DPSGD:
    model = load_model("mlp", SPEC, '{"width": 7}', "")
    assert isinstance(model, TorchModel)
    changed = {name.replace("__", "."): value for name, value in changes.items()}
    return DPSGD.from_settings(model, config_from(SETTINGS | changed))


def task_of(train: Examples, *, round_number: int = 1) -> LocalTask:
    return LocalTask(train, np.arange(len(train)), 1, round_number, 2, {})


def fitted(learner: DPSGD, train: Examples, **place: int) -> dict[str, np.ndarray]:
    state = learner.model.initial_state(seed=1)
    return {name: each.copy() for name, each in learner.fit(state, task_of(train, **place)).arrays.items()}


def test_a_fit_is_the_algorithm_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Abadi et al. 2016, algorithm 1, written down once more, with the same coins and the same noise."""
    learner, train = learner_of(privacy__clip=0.4, training__lr=0.3, training__lr_decay=0.0), examples()
    kept: list[np.ndarray] = []

    def noisy(values: np.ndarray, *, clip: float, noise_multiplier: float, noise: object) -> np.ndarray:
        kept.append(np.random.default_rng(len(kept)).normal(0, clip * noise_multiplier, len(values)))
        assert (clip, noise_multiplier) == (0.4, 1.0)
        return values + kept[-1]

    monkeypatch.setattr(dp_sgd, "gaussian", noisy)
    found = fitted(learner, train)
    state = learner.model.initial_state(seed=1)
    parameters = {name: torch.tensor(each, requires_grad=True) for name, each in state.items()}
    coins = SeededDraws(task_of(train))
    for step in range(5):  # 40 records in batches of 8
        total = torch.zeros(sum(each.numel() for each in parameters.values()), dtype=torch.float64)
        for row in np.flatnonzero(coins.coins(RECORDS, 0.2)):
            x = torch.from_numpy(train.inputs[[row]])
            for layer in ("1", "3"):
                x = functional.relu(functional.linear(x, parameters[f"{layer}.weight"], parameters[f"{layer}.bias"]))
            logits = functional.linear(x, parameters["5.weight"], parameters["5.bias"])
            loss = functional.cross_entropy(logits, torch.from_numpy(train.targets[[row]]))
            flat = torch.cat([each.flatten() for each in torch.autograd.grad(loss, list(parameters.values()))]).double()
            total += flat * min(1.0, 0.4 / float(flat.norm()))
        change = (total + torch.from_numpy(kept[step])) / 8
        start = 0
        with torch.no_grad():
            for each in parameters.values():
                each -= 0.3 * change[start : start + each.numel()].view_as(each).float()
                start += each.numel()
    assert len(kept) == 5
    for name, each in parameters.items():
        np.testing.assert_allclose(found[name], each.detach().numpy(), atol=2e-6)


@pytest.mark.parametrize("count", [0, 1, 7, 40, 300])
def test_steps_rate_and_divisor_follow_from_the_declared_number(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    learner, calls = learner_of(), []
    monkeypatch.setattr(dp_sgd, "gaussian", lambda values, **_: calls.append(len(values)) or values * 0 + 8.0)
    moved = fitted(learner, examples(count))
    assert len(calls) == 5 == learner.plan.steps
    assert learner.mechanism().rounds == 5 and learner.mechanism().sampling_rate == 0.2 and learner.planned() == 15
    fit = learner.fit(learner.model.initial_state(seed=1), task_of(examples(count)))
    assert fit.num_examples == 1 and set(fit.metrics) == {"epsilon"}
    nobody = fitted(learner, examples(0))
    assert all((moved[name] == nobody[name]).all() for name in nobody)


def test_the_same_seed_gives_the_same_bytes_and_secure_noise_others_each_time() -> None:
    learner, train = learner_of(), examples()
    first, again, other = fitted(learner, train), fitted(learner, train), fitted(learner, train, round_number=2)
    assert all((first[name] == again[name]).all() for name in first)
    assert not all((first[name] == other[name]).all() for name in first)
    secure = learner_of(privacy__noise="secure")
    first, again = fitted(secure, train), fitted(secure, train)
    assert not any((first[name] == again[name]).all() for name in first)


def test_coins_are_drawn_at_the_rate_each_by_itself() -> None:
    for draws in (SecureDraws(), SeededDraws(task_of(examples(1)))):
        drawn = np.array([draws.coins(50, 0.3) for _ in range(400)])
        assert abs(drawn.mean() - 0.3) < 0.02
        sizes = drawn.sum(1)
        assert sizes.std() > 2.5  # binomial: 3.24; a batch of fixed size has none
        assert draws.coins(3, 1.0).all() and len(draws.coins(0, 0.3)) == 0
    assert not np.array_equal(SecureDraws().coins(200, 0.5), SecureDraws().coins(200, 0.5))


@pytest.mark.parametrize("noise", ["seeded", "secure", "secure, by content"])
def test_one_record_more_moves_the_sum_of_a_step_by_clip_at_most(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one whose gradient is huge, or no number at all; and no other record's part moves by one bit."""
    clip, sums = 0.25, []
    noise, _, by_content = noise.partition(", ")
    if by_content:
        monkeypatch.setattr(dp_sgd, "places_alike", lambda way: False)
    monkeypatch.setattr(dp_sgd, "gaussian", lambda values, **_: sums.append(values.copy()) or values * 0)
    learner = learner_of(
        privacy__clip=clip, training__batch_size=RECORDS, privacy__noise=noise, privacy__noise_multiplier=30.0
    )
    train = examples()
    fitted(learner, train)
    for odd in (0.0, 1.0, 1e30, np.nan, np.inf):
        inputs = np.insert(train.inputs, 11, odd, axis=0)
        fitted(learner, Examples(inputs, np.insert(train.targets, 11, 2)))
    alone = Examples(np.ones((1, 6), np.float32), np.array([2]))
    fitted(learner, alone)
    base, *others, one = sums
    assert max(np.linalg.norm(each - base) for each in others) <= clip * (1 + 1e-6)
    assert np.linalg.norm(others[3] - base) <= 1e-6  # NaN adds nothing
    if noise == "secure":  # no bit of another record's part moves
        np.testing.assert_allclose(others[1] - base, one, rtol=0, atol=1e-14)


def test_where_places_differ_records_lie_by_their_content_not_by_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dp_sgd, "places_alike", lambda way: False)
    learner, train = learner_of(privacy__noise="secure"), examples()
    places = learner._places(task_of(train))
    without = learner._places(task_of(train.at(np.delete(np.arange(RECORDS), 3))))
    assert (np.delete(places, 3) == without).all() and places.max() < learner._sum.places
    chunks = list(dp_sgd._chunks(np.arange(RECORDS), places, learner._sum.places, is_placed=True))
    assert all(len(chunk) == learner._sum.places for chunk in chunks)
    found = np.concatenate(chunks)
    assert sorted(found[found >= 0]) == list(range(RECORDS))
    for chunk in chunks:
        rows = np.flatnonzero(chunk >= 0)
        assert (places[chunk[rows]] == rows).all()


def test_an_example_that_makes_the_module_fail_adds_nothing_and_fails_no_node() -> None:
    learner, train = learner_of(), examples()
    targets = train.targets.copy()
    targets[5] = 99  # there are three classes
    found = fitted(learner, Examples(train.inputs, targets))
    assert all(np.isfinite(each).all() for each in found.values())


@pytest.mark.parametrize("is_placed", [False, True])
def test_an_example_that_fails_moves_no_bit_of_the_others(is_placed: bool) -> None:
    learner, train = learner_of(privacy__noise="secure"), examples()
    learner._is_placed = is_placed
    places, everybody = learner._places(task_of(train)), np.ones(RECORDS, bool)
    targets = train.targets.copy()
    targets[5] = 99  # there are three classes
    found = learner._sum_over(task_of(Examples(train.inputs, targets)), everybody, places)
    chunks = dp_sgd._chunks(np.arange(RECORDS), places, learner._sum.places, is_placed=is_placed)
    without = [np.where(chunk == 5, -1, chunk) for chunk in chunks]  # all others in their places
    np.testing.assert_allclose(found, learner._clipped(train, without, clip=learner.privacy.clip), rtol=0, atol=1e-14)


class Far(torch.nn.Module):
    """Uses a layer's weight once more, if an example is far away."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.last = torch.nn.Linear(6, 6), torch.nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden, far = torch.tanh(self.inside(x)), x.abs().amax(1, keepdim=True) > 50
        if far.any():
            hidden = hidden + far * functional.linear(hidden, self.inside.weight)
        logits: torch.Tensor = self.last(hidden)
        return logits


@pytest.mark.parametrize("is_placed", [False, True])
def test_an_example_that_the_quick_way_does_not_compute_goes_another_way_alone(is_placed: bool) -> None:
    torch.manual_seed(1)
    learner = DPSGD.from_settings(TorchModel(Far, SPEC), config_from(SETTINGS | {"privacy.noise": "secure"}))
    learner._is_placed, clip, train = is_placed, learner.privacy.clip, examples()
    places, everybody = learner._places(task_of(train)), np.ones(RECORDS, bool)
    inputs = train.inputs.copy()
    inputs[5] *= 1000
    found = learner._sum_over(task_of(Examples(inputs, train.targets)), everybody, places)
    chunks = list(dp_sgd._chunks(np.arange(RECORDS), places, learner._sum.places, is_placed=is_placed))
    others = learner._clipped(train, [np.where(chunk == 5, -1, chunk) for chunk in chunks], clip=clip)
    far = OneByOne(learner.model, 1).gradient(*learner.batch(Examples(inputs, train.targets), np.array([5])))
    assert type(learner._sum) is ByLayer
    expected = weighted([each[None] for each in far], torch.ones(1, dtype=torch.bool), clip=clip).numpy()
    np.testing.assert_allclose(found - others, expected, rtol=0, atol=1e-14)  # no bit of the others moves


def test_what_a_module_writes_into_a_parameter_in_a_fit_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    learner, train = learner_of(training__lr=1e-30), examples()
    module, genuine = learner.model.module, learner.model.outputs

    def writing(inputs: torch.Tensor) -> object:
        with torch.no_grad():
            next(module.parameters())[0] = 7.0
        return genuine(inputs)

    state = learner.model.initial_state(seed=1)
    monkeypatch.setattr(learner.model, "outputs", writing)
    arrays = learner.fit(state, task_of(train)).arrays
    assert all((arrays[name] == state[name]).all() for name in state)


def test_a_module_that_mixes_batches_of_the_size_that_is_used_is_refused() -> None:
    class Mixing(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = torch.nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(x - x.mean(0)) if len(x) > 8 else self.last(x)

    with pytest.raises(SettingError, match="makes of one example what depends on another one"):
        DPSGD.from_settings(TorchModel(Mixing, SPEC), config_from(SETTINGS))


def test_a_state_of_nan_or_of_huge_numbers_makes_no_error_and_costs_no_more() -> None:
    learner = learner_of()
    state = learner.model.initial_state(seed=1)
    for value in (np.nan, 1e38, -np.inf):
        broken = {name: np.full_like(each, value) for name, each in state.items()}
        assert learner.fit(broken, task_of(examples())).num_examples == 1


@pytest.mark.long
def test_epsilon_of_a_node_is_an_upper_bound_by_round_and_the_budget_at_the_end() -> None:
    plan = learner_of(privacy__noise_multiplier=0.0, privacy__epsilon=4.0).plan
    spent = [plan.spent_after(each) for each in (0, 1, 2, 3, 4)]
    exact = [epsilon_of([replace(plan.mechanism, rounds=5 * each)], delta=1e-5) for each in (1, 2, 3)]
    assert spent[0] == 0 and spent == sorted(spent) and spent[3] == spent[4] == 4.0
    assert all(one >= other for one, other in zip(spent[1:], exact, strict=False))
    assert 3.99 < exact[2] <= 4.0


def test_buffers_leave_as_they_came() -> None:
    learner = learner_of()
    learner.model.module.register_buffer("seen", torch.zeros(2))
    model = TorchModel(lambda: learner.model.module, SPEC)
    ours = DPSGD.from_settings(model, config_from(SETTINGS))
    state = {**model.initial_state(seed=1), "seen": np.array([3.0, 4.0], np.float32)}
    assert ours.fit(state, task_of(examples())).arrays["seen"].tolist() == [3.0, 4.0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"privacy__protects": ""}, "privacy.protects = '': learner 'dp-sgd' protects records"),
        ({"privacy__delta": 0.0}, "privacy.delta = 0.0: Gaussian noise needs one"),
        ({"privacy__records": 0}, "privacy.records = 0: declare about how many records"),
        ({"privacy__public_sizes": True}, "privacy.public_sizes = True"),
        ({"training__precision": "bfloat16"}, "training.precision"),
        ({"training__personal": "5.*"}, "training.personal"),
        ({"training__partial": True}, "training.partial"),
        ({"training__baseline": "central"}, "training.baseline"),
        ({"privacy__epsilon": 1.0}, r"privacy.noise_multiplier = 1.0: 15 steps at rate 0.2 cost epsilon \d"),
    ],
)
def test_what_would_tell_of_records_is_refused_by_name(changes: dict[str, object], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        learner_of(**changes)


def test_seeded_noise_is_drawn_with_the_coins_from_one_stream() -> None:
    draws = SeededDraws(task_of(examples(1)))
    assert draws.noise.notice == seeded_noise(0).notice and not draws.noise.is_secure


class WithoutGradients(torch.nn.Linear):
    """Computes outputs whose gradients all fail, as on a device where a step of theirs is missing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = super().forward(x)
        if out.requires_grad:
            out.register_hook(lambda gradient: 1 / 0)
        return out


def test_a_module_without_gradients_is_refused_before_its_examples_add_nothing() -> None:
    model = TorchModel(lambda: WithoutGradients(6, 3), SPEC)
    with pytest.raises(SettingError, match=r"training\.learner = 'dp-sgd': gradients of made-up examples fail: Zero"):
        DPSGD.from_settings(model, config_from(SETTINGS))


def test_clipped_sums_are_computed_where_the_gradients_are() -> None:
    gradients, taken = [torch.zeros(3, 2, device="meta")], torch.ones(3, dtype=torch.bool, device="meta")
    assert weighted(gradients, taken, clip=1.0).device.type == "meta"
