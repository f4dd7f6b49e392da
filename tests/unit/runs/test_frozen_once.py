"""Large arrays that no round changes are stored once; what reads a state finds them, and says where they are wrong."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import fedlearn
from fedlearn.commands.forgetting import certified
from fedlearn.core.errors import FedlearnError, UsageError
from fedlearn.core.state_files import frozen_of, unpack_state
from fedlearn.data import from_arrays
from fedlearn.runs import checkpoint

RNG = np.random.default_rng(3)
ROWS, LABELS = RNG.normal(size=(40, 6)).astype("float32"), RNG.integers(0, 3, 40)


def made(shift=0.0):
    torch.manual_seed(4)
    first, tied = nn.Linear(6, 6), nn.Linear(6, 6)
    tied.weight = first.weight
    module = nn.Sequential(first, nn.ReLU(), tied, nn.Linear(6, 3))
    for each in module[:3].parameters():
        each.requires_grad_(False).add_(shift)
    return module


def other():
    return made(1.0)


def ran(out, model=made, **further):
    data = from_arrays(ROWS, LABELS, ROWS, LABELS, mean=0, std=1)
    return fedlearn.run(
        **{"clients": 2, "cohort": 0, "data": data, "model": model, "rounds": 2, "engine": "inline", "progress": False,
           "out": str(out), "settings": {"rounds.keep_every": 1}, **further}
    )  # fmt: skip


@pytest.fixture
def large(monkeypatch):
    monkeypatch.setattr(checkpoint, "LARGE", 1)


def test_a_run_has_the_same_model_in_fewer_bytes(tmp_path, large, monkeypatch):
    once = ran(tmp_path / "once")
    monkeypatch.setattr(checkpoint, "LARGE", 1 << 40)
    whole = ran(tmp_path / "whole")
    assert not (tmp_path / "whole" / "frozen.safetensors").exists()
    assert set(unpack_state((tmp_path / "once" / "frozen.safetensors").read_bytes())) == {
        "0.weight",
        "0.bias",
        "2.bias",
    }
    for name in ("model.safetensors", "best.safetensors", "models/round-1.safetensors"):
        path = tmp_path / "once" / name
        if path.exists():
            content = path.read_bytes()
            assert set(unpack_state(content)) == {"3.weight", "3.bias"} and len(frozen_of(content)) == 64
    for name, array in whole.state.items():
        assert np.array_equal(once.state[name], array), name
    for name, tensor in whole.model().state_dict().items():
        assert torch.equal(once.model().state_dict()[name], tensor)
    assert once.evaluate() == whole.evaluate()
    assert np.array_equal(once.predict(ROWS), whole.predict(ROWS))


def test_a_resume_comes_to_the_bytes_of_one_run(tmp_path, large):
    first = ran(tmp_path / "first", rounds=1)
    resumed = fedlearn.run(resume=first, rounds=2, progress=False)
    assert resumed.sha256 == ran(tmp_path / "second").sha256


def test_a_run_that_stored_them_in_each_round_goes_on(tmp_path, monkeypatch):
    first = ran(tmp_path / "first", rounds=1)
    monkeypatch.setattr(checkpoint, "LARGE", 1)
    resumed = fedlearn.run(resume=first, rounds=2, progress=False)
    assert resumed.sha256 == ran(tmp_path / "second").sha256
    assert (tmp_path / "first" / "frozen.safetensors").exists()


def test_other_frozen_numbers_and_a_missing_file_are_refused(tmp_path, large):
    run = ran(tmp_path / "run", rounds=1)
    assert run.sha256 != ran(tmp_path / "other", model=other, rounds=1).sha256  # by the digest in the head
    path = tmp_path / "run" / "frozen.safetensors"
    path.write_bytes((tmp_path / "other" / "frozen.safetensors").read_bytes())
    with pytest.raises(UsageError, match=r"frozen\.safetensors.*others than those of the run"):
        fedlearn.load(tmp_path / "run").model()
    path.unlink()
    with pytest.raises(UsageError, match=r"frozen\.safetensors.*not there"):
        fedlearn.load(tmp_path / "run").model()


def test_a_resume_with_other_frozen_numbers_is_refused(tmp_path, large, monkeypatch):
    run = ran(tmp_path / "run", rounds=1)
    monkeypatch.setattr("fedlearn.runs.checkpoint.digest_of", lambda arrays: "0" * 64)
    with pytest.raises(FedlearnError, match="begun with other numbers in arrays that are never sent"):
        fedlearn.run(resume=run, rounds=2, progress=False)


def test_a_run_begins_from_the_model_of_another(tmp_path, large):
    first = ran(tmp_path / "first", rounds=1)
    second = ran(tmp_path / "second", rounds=1, from_=str(first.folder))
    assert not np.array_equal(second.state["3.weight"], first.state["3.weight"])
    assert np.array_equal(second.state["0.weight"], first.state["0.weight"])
    third = ran(tmp_path / "third", rounds=1, from_=str(first.folder / "models" / "round-000001.safetensors"))
    assert third.sha256 == second.sha256


def trained_whole():
    return made().requires_grad_(True)


def test_a_run_that_trains_all_begins_from_one_that_did_not(tmp_path, large):
    first = ran(tmp_path / "first", rounds=1)
    second = ran(tmp_path / "second", model=trained_whole, rounds=1, lr=1e-30, from_=str(first.folder))
    for name, array in first.state.items():
        assert np.allclose(second.state[name], array, atol=1e-6), name


def test_a_run_on_another_base_begins_from_none_of_its_own(tmp_path, large):
    first = ran(tmp_path / "first", rounds=1)
    with pytest.raises(UsageError, match="is never sent, and has other numbers there"):
        ran(tmp_path / "second", model=other, rounds=1, from_=str(first.folder))
    elsewhere = ran(tmp_path / "elsewhere", model=other, rounds=1)
    (first.folder / "frozen.safetensors").write_bytes((elsewhere.folder / "frozen.safetensors").read_bytes())
    with pytest.raises(UsageError, match=r"its arrays are not those that model\.safetensors was trained with"):
        ran(tmp_path / "third", model=other, rounds=1, from_=str(first.folder))
    (first.folder / "frozen.safetensors").unlink()
    with pytest.raises(UsageError, match="there is no such file"):
        ran(tmp_path / "fourth", rounds=1, from_=str(first.folder))


def test_a_client_is_forgotten_in_a_run_that_stores_them_once(tmp_path, large):
    settings = {"rounds.keep_every": 1, "rounds.selector": "ranked"}
    run = ran(tmp_path / "run", clients=3, settings=settings)
    forgotten = run.forget(1, out=tmp_path / "forgotten")
    assert forgotten.sha256 != run.sha256
    assert certified(tmp_path / "forgotten" / "forgotten.json", again=True).after == forgotten.sha256  # made again
    assert (tmp_path / "forgotten" / "frozen.safetensors").exists()
