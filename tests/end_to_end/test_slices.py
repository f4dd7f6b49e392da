"""Clients with slices: each is sent its slice, and sends its slice; the others' entries do not change what it costs."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import fedlearn
from client.learners.stack import Stack
from fedlearn.core.errors import RunFailed, SettingError
from fedlearn.models.torch.torch_model import TorchModel

WIDE = {
    "data.dataset": "digits", "clients": 3, "rounds.total": 2, "rounds.cohort": 0, "training.local_epochs": 1,
    "training.batch_size": 100, "model.name": "mlp", "model.options.width": 200, "engine.name": "inline",
    "evaluation.where": "none",
}  # fmt: skip
UNITS = (200, 100, 50)


def bytes_of(width):
    return 4 * (3072 * width + width + width * width + width + 10 * width + 10)


OTHERS = [pytest.param(name, marks=pytest.mark.long) for name in ("fedrolex", "fjord")]


@pytest.mark.parametrize("strategy", ["heterofl", *OTHERS])
def test_bytes_down_and_up_are_those_of_the_slice(strategy, tmp_path):
    chosen = {"strategy.name": strategy, "strategy.options.ratios": [1.0, 0.5, 0.25]}
    run = fedlearn.run(settings={**WIDE, **chosen}, progress=False, out=tmp_path / "run")
    events = [json.loads(line) for line in (run.folder / "events.jsonl").read_text().splitlines()]
    up = {(each["round"], each["partition"]): each["bytes"] for each in events if each["event"] == "reported"}
    assert up == pytest.approx({(n, k): bytes_of(UNITS[k]) for n in (1, 2) for k in range(3)}, rel=0.02)
    down = [each["bytes"] for each in events if each["event"] == "configured"]
    assert down == pytest.approx([sum(map(bytes_of, UNITS))] * 2, rel=0.02)
    assert run.summary["rounds"] == 2


def test_a_round_by_hand_reads_slices_too(tmp_path):
    settings = {**WIDE, "model.options.width": 20, "strategy.name": "heterofl", "strategy.options.ratios": [0.5]}
    del settings["engine.name"]  # by hand it is always inline
    with fedlearn.by_hand(settings=settings, out=tmp_path / "run") as rounds:
        (update,) = rounds.train([1])
        assert update.why_not == ""
        before = {name: array.copy() for name, array in rounds.state.items()}
        after = rounds.aggregate([update, *rounds.train([0, 2])])
    assert (after["1.weight"][:10] != before["1.weight"][:10]).any()
    assert (after["1.weight"][10:] == before["1.weight"][10:]).all()


MASKED = {
    **WIDE, "clients": 10, "model.options.width": 20, "strategy.name": "heterofl", "strategy.weighting": "uniform",
    "strategy.options.ratios": [1.0, 0.5, 0.25], "secure.sums": "masked", "secure.group_size": 3,
}  # fmt: skip


def result_of(path, **changed):
    run = fedlearn.run(settings={**MASKED, **changed}, progress=False, out=path)
    events = [json.loads(line) for line in (run.folder / "events.jsonl").read_text().splitlines()]
    return run, events


def test_groups_of_one_ratio_add_up_slices_under_masks(tmp_path):
    once = {"rounds.total": 1, "secure.clip": 8.0, "secure.bits": 24}
    masked, _ = result_of(tmp_path / "masked", **once)
    unmasked, _ = result_of(tmp_path / "unmasked", **once, **{"secure.sums": "unmasked"})
    assert masked.sha256 == unmasked.sha256
    plain, _ = result_of(tmp_path / "plain", **{"rounds.total": 1, "secure.sums": "off", "secure.group_size": 0})
    states = [dict(run.model().named_parameters()) for run in (masked, plain)]
    largest = max((states[0][name] - states[1][name]).abs().max().item() for name in states[0])
    assert 0 < largest <= 16 / 2**24  # a step of the fixed point


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["heterofl", "fedrolex", "fjord"])
def test_workers_come_to_the_same_masked_sum(strategy, tmp_path):
    inline, _ = result_of(tmp_path / "inline", **{"strategy.name": strategy})
    workers, _ = result_of(
        tmp_path / "workers", **{"strategy.name": strategy, "engine.name": "embedded", "engine.workers": 2}
    )
    assert inline.sha256 == workers.sha256


def test_a_client_whose_ratio_fills_no_group_is_told_so_and_trains_nothing(tmp_path):
    # clients 0, 3, 6 and 9 have the whole model, and fill a group of four; the others do not
    run, events = result_of(tmp_path / "run", **{"secure.group_size": 4, "rounds.quorum": 0.4, "rounds.total": 1})
    reasons = {each["partition"]: each["reason"] for each in events if each["event"] == "sum-refused"}
    assert sorted(reasons) == [1, 2, 4, 5, 7, 8] and all(each.startswith("no-group") for each in reasons.values())
    assert {each["partition"] for each in events if each["event"] == "reported"} == {0, 3, 6, 9}
    assert run.summary["rounds"] == 1


def test_a_drawn_cohort_of_too_many_ratios_is_abandoned_and_drawn_again(tmp_path):
    # five of twelve clients: two, two and one of three ratios fill no group of three
    drawn = {"clients": 12, "rounds.cohort": 5, "rounds.quorum": 0.5, "rounds.backoff": 0.0, "rounds.max_attempts": 3}
    run, events = result_of(tmp_path / "again", seed=1, **drawn)
    reasons = [each["reason"] for each in events if each["event"] == "abandoned"]
    assert reasons == ["no group of clients with slices of one ratio can be formed"] and run.summary["rounds"] == 2
    with pytest.raises(RunFailed, match="no group of clients with slices of one ratio"):
        result_of(tmp_path / "never", seed=2, **drawn)


REFUSED = (
    ({"secure.group_size": 0}, "give it, so that each group has one ratio"),
    ({"secure.group_size": 5}, "0 of 10 clients fill groups"),
    ({"compression.codec": "drop", "compression.keep_ratio": 0.5}, "use 'identity'"),
)


@pytest.mark.parametrize(("changed", "why"), REFUSED)
def test_a_masked_sum_that_cannot_be_is_refused_before_round_1(changed, why, tmp_path):
    with pytest.raises(SettingError, match=why):
        result_of(tmp_path / "run", **changed)


def test_slices_of_one_ratio_need_no_groups(tmp_path):
    run, _ = result_of(tmp_path / "run", **{"secure.group_size": 0, "strategy.options.ratios": [0.5]})
    assert run.summary["rounds"] == 2


STACKED = {**WIDE, "clients": 6, "rounds.total": 1, "model.options.width": 20, "strategy.options.ratios": [1.0, 0.5]}


@pytest.mark.parametrize("strategy", ["heterofl", pytest.param("fedrolex", marks=pytest.mark.long)])
def test_clients_of_one_ratio_are_trained_together(strategy, tmp_path, monkeypatch):
    together, fit = [], Stack.fit

    def counted(self, state, tasks):
        tasks = list(tasks)
        together.append(len(tasks))
        return fit(self, state, tasks)

    monkeypatch.setattr(Stack, "fit", counted)
    settings = {**STACKED, "strategy.name": strategy, "training.lr": 0.001}
    runs = [
        fedlearn.run(settings={**settings, **each}, progress=False, out=tmp_path / str(at))
        for at, each in enumerate(
            [
                {"training.stack": 1},
                {"training.stack": 6},
                {"training.stack": 6, "engine.name": "embedded", "engine.workers": 2},
            ]
        )
    ]
    states = [dict(run.model().named_parameters()) for run in runs[:2]]
    largest = max((states[0][name] - states[1][name]).abs().max().item() for name in states[0])
    assert largest < 1e-6
    assert runs[1].sha256 == runs[2].sha256
    assert together[-2:] == [3, 3]  # after a trial of two; the third run has processes of its own


def test_a_step_that_draws_its_width_is_taken_one_by_one(tmp_path, caplog):
    settings = {**STACKED, "strategy.name": "fjord", "training.stack": 6}
    run = fedlearn.run(settings=settings, progress=False, out=tmp_path / "run")
    assert run.summary["rounds"] == 1
    assert "OrderedDropout changes how a client is trained" in caplog.text


def trained(rounds, client):
    (update,) = rounds.train([client])
    assert update.why_not == ""
    return update.arrays


@pytest.mark.parametrize("strategy", ["heterofl", pytest.param("fjord", marks=pytest.mark.long)])
def test_a_masked_loss_leaves_the_classes_alone_that_a_client_lacks(strategy, tmp_path):
    settings = {
        **WIDE, "strategy.name": strategy, "strategy.options.ratios": [0.5, 0.25], "strategy.options.masked_loss": True,
        "data.partition": "shard", "data.shards_per_node": 2, "training.batch_size": 20, "training.lr": 0.02,
    }  # fmt: skip
    del settings["engine.name"]
    changed = {}
    for masked in (True, False):
        with fedlearn.by_hand(
            settings={**settings, "strategy.options.masked_loss": masked}, out=tmp_path / str(masked)
        ) as rounds:
            name = next(name for name in reversed(rounds.state) if rounds.state[name].shape == (10,))
            changed[masked] = int((trained(rounds, 0)[name] != rounds.state[name]).sum())
    assert changed[False] == 10 > changed[True] >= 1


class Normed(nn.Module):
    """A convolution with a batch norm."""

    def __init__(self, spec):
        super().__init__()
        self.first, self.norm, self.out = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8 * 900, 10)

    def forward(self, x):
        return self.out(torch.relu(self.norm(self.first(x))).flatten(1))


@pytest.mark.parametrize("strategy", ["heterofl", pytest.param("fjord", marks=pytest.mark.long)])
def test_static_norms_are_the_means_of_one_pass_after_training(strategy, tmp_path):
    settings = {
        **WIDE, "strategy.name": strategy, "strategy.options.ratios": [0.5], "strategy.options.static_norms": True,
        "model.name": f"{__name__}:Normed", "clients": 20,
    }  # fmt: skip
    del settings["engine.name"], settings["model.options.width"]
    with fedlearn.by_hand(settings=settings, out=tmp_path / "run") as rounds:
        after = trained(rounds, 0)
        shares = fedlearn.partitions(settings=settings)
        images = TorchModel(nn.Identity, shares.dataset.spec).inputs(shares.examples(0).inputs)
    weight, bias = (torch.from_numpy(after[f"first.{each}"].data[:4]) for each in ("weight", "bias"))
    first = torch.nn.functional.conv2d(images, weight, bias)
    means = first.mean((0, 2, 3)).numpy()
    np.testing.assert_allclose(after["norm.running_mean"][:4], means, atol=1e-4)


@pytest.mark.parametrize("strategy", ["heterofl", pytest.param("fjord", marks=pytest.mark.long)])
def test_virtual_time_counts_the_multiplications_of_a_slice(strategy, tmp_path):
    settings = {
        **WIDE, "strategy.name": strategy, "model.options.width": 20, "devices.name": "alike", "rounds.total": 1,
        "devices.options.seconds": 1.0,
    }  # fmt: skip
    seconds = {}
    for ratio in (1.0, 0.5):
        ratios = {"strategy.options.ratios": [ratio] if strategy == "heterofl" else [ratio, 0.25]}
        run = fedlearn.run(settings={**settings, **ratios}, progress=False, out=tmp_path / str(ratio))
        seconds[ratio] = run.summary["virtual_seconds"]

    def weights(width):
        return 3072 * width + width * width + 10 * width

    widths = {1.0: [20], 0.5: [10]} if strategy == "heterofl" else {1.0: [20, 5], 0.5: [10, 5]}
    efforts = {ratio: sum(map(weights, each)) / len(each) / weights(20) for ratio, each in widths.items()}
    assert seconds[0.5] / seconds[1.0] == pytest.approx(efforts[0.5] / efforts[1.0], rel=0.01)
