"""Warm start: a run begins with the state in a file, or one line says which parameter does not match."""

from __future__ import annotations

import hashlib
import os
import pickle

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from fedlearn.config import config_from, to_flower
from fedlearn.core.errors import SettingError
from fedlearn.models.loaded import initial_state, with_found_data
from fedlearn.models.torch.initial import found_initial, initial_from

FIRST = {"w": np.zeros((2, 3), np.float32), "steps": np.array(0, np.int64)}
OTHER = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "steps": np.array(7, np.int64)}


def settings_of(path):
    return config_from({"model.initial": str(path)}).model


def begun_from(path, beside=None):
    return initial_from(found_initial(settings_of(path)), FIRST, beside or {})


@pytest.fixture
def saved(tmp_path):
    def saved(arrays, name="m.safetensors"):
        save_file(dict(arrays), tmp_path / name)
        return tmp_path / name

    return saved


def test_state_is_that_of_the_file(saved):
    state = begun_from(saved(OTHER))
    assert list(state) == list(FIRST)
    assert all(np.array_equal(state[name], OTHER[name]) for name in FIRST)


def test_folder_stands_for_the_final_model_of_its_run(saved, tmp_path):
    path = saved(OTHER, "model.safetensors")
    found = found_initial(settings_of(tmp_path))
    assert found.initial == str(path)
    assert found.initial_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_state_dict_of_torch_is_read(tmp_path):
    tensors = {name: torch.from_numpy(array) for name, array in OTHER.items()}
    torch.save(tensors, tmp_path / "plain.pt")
    torch.save({"state_dict": tensors, "epoch": 3}, tmp_path / "lightning.pth")
    for name in ("plain.pt", "lightning.pth"):
        assert np.array_equal(begun_from(tmp_path / name)["w"], OTHER["w"])


def test_code_in_a_file_of_torch_is_never_run(tmp_path):
    class Bad:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    (tmp_path / "bad.pt").write_bytes(pickle.dumps({"w": Bad()}))
    torch.save({"w": Bad()}, tmp_path / "bad2.pt")
    for name in ("bad.pt", "bad2.pt"):
        with pytest.raises(SettingError, match="it holds no model"):
            begun_from(tmp_path / name)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"w": np.zeros((3, 2), np.float32)}, r"w has shape \(3, 2\) there and \(2, 3\) in the model"),
        ({"w": np.zeros((2, 3), np.float16)}, "w is float16 there and float32 in the model"),
        ({"w": np.full((2, 3), np.nan, np.float32)}, "w holds NaN"),
        ({"head": np.zeros(1, np.float32)}, "it has head, which the model has not"),
    ],
)
def test_model_of_another_form_is_refused_by_the_name_of_a_parameter(saved, changed, why):
    with pytest.raises(SettingError, match=rf"^model.initial = '.*m.safetensors': {why}"):
        begun_from(saved(OTHER | changed))


def test_parameter_that_is_missing_is_named(saved):
    with pytest.raises(SettingError, match="it has no steps, which the model has"):
        begun_from(saved({"w": OTHER["w"]}))


def test_what_is_never_sent_must_be_what_every_node_makes_of_it(saved):
    frozen = {"backbone": np.ones(2, np.float32)}
    path = saved(OTHER | frozen)
    assert list(begun_from(path, frozen)) == list(FIRST)
    with pytest.raises(SettingError, match="backbone is never sent"):
        begun_from(path, {"backbone": np.zeros(2, np.float32)})


def test_settings_of_a_run_go_with_the_file_they_were_made_of(saved):
    settings = found_initial(settings_of(saved(OTHER)))
    saved(FIRST)
    assert found_initial(settings) == settings
    with pytest.raises(SettingError, match="it holds another model now"):
        initial_from(settings, FIRST, {})


@pytest.mark.parametrize("spoil", [lambda p: p.mkdir(), os.mkfifo, lambda p: None, lambda p: p.write_bytes(b"x" * 99)])
def test_what_is_no_model_is_one_line(tmp_path, spoil):
    spoil(tmp_path / "m.safetensors")
    with pytest.raises(SettingError, match=r"^model.initial = .*name a") as error:
        begun_from(tmp_path / "m.safetensors")
    assert "\n" not in str(error.value)


def test_run_begins_with_the_state_and_knows_its_hash(saved):
    flat = {"model.name": "linear", "data.dataset": "digits"}
    own = initial_state(to_flower(config_from(flat)), {})
    path = saved({name: array + 1 for name, array in own.items()})
    config = with_found_data(config_from({**flat, "model.initial": str(path)}))
    assert config.model.initial_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    begun = initial_state(to_flower(config), {})
    assert all(np.array_equal(begun[name], own[name] + 1) for name in own)


def test_trees_have_no_initial_state(saved):
    flat = {"model.name": "dp-forest", "data.dataset": "diabetes", "model.initial": str(saved(OTHER))}
    with pytest.raises(SettingError, match="it is for torch modules"):
        with_found_data(config_from(flat))
