"""The data set and the device that were found replace those that were asked for, with a notice where data differ."""

from __future__ import annotations

import pytest

from fedlearn.config import config_from
from fedlearn.core.errors import SettingError
from fedlearn.engine.prepare import prepared, trained_together
from fedlearn.models.loaded import with_found_data
from fedlearn.models.torch import device


def test_without_cifar10_the_settings_name_digits_and_say_so(tmp_path):
    found = with_found_data(config_from({"data.dataset": "auto", "data.dir": str(tmp_path)}))
    assert found.data.dataset == "digits"
    assert "INSTEAD OF CIFAR-10" in found.data.notice


def test_a_data_set_that_is_there_needs_no_notice():
    found = with_found_data(config_from({"data.dataset": "digits"}))
    assert (found.data.dataset, found.data.notice) == ("digits", "")


def test_device_that_was_found_takes_the_place_of_auto_and_trees_need_none(monkeypatch):
    monkeypatch.setattr(device, "_count", lambda kind: int(kind != "cuda"))
    auto = config_from({"data.dataset": "digits", "engine.device": "auto"})
    assert with_found_data(auto).engine.device == "mps"
    trees = {"data.dataset": "diabetes", "model.name": "dp-forest", "engine.device": "cuda"}
    assert with_found_data(config_from(trees)).engine.device == "cpu"
    with pytest.raises(SettingError, match=r"^engine\.device = 'cuda': torch finds no cuda here"):
        with_found_data(config_from({"data.dataset": "digits", "engine.device": "cuda"}))


@pytest.mark.parametrize(
    ("device", "settings", "stack"),
    [
        ("cpu", {}, 0),
        ("cuda:0", {}, 20),
        ("cuda:0", {"rounds.cohort": 90}, 50),
        ("cuda:0", {"clients": 7}, 7),
        ("cuda:0", {"training.stack": 3}, 3),
        ("cuda:0", {"engine.name": "ray"}, 1),
        ("cuda:0", {"rounds.schedule": "buffered"}, 1),
    ],
)
def test_a_gpu_trains_the_nodes_of_a_round_together_unless_told_otherwise(device, settings, stack, monkeypatch):
    monkeypatch.setattr("fedlearn.models.loaded._found_device", lambda config: device)
    assert prepared(config_from({"data.dataset": "digits", **settings})).training.stack == stack


SMALL = {"data.dataset": "digits", "model.name": "cnn"}


@pytest.mark.parametrize(
    ("settings", "nodes"),
    [
        ({}, 10),
        ({"training.stack": 1}, 1),
        ({"training.stack": 3}, 3),
        ({"model.name": "linear", "training.batch_size": 51, "clients": 7}, 1),  # 205 examples each
        ({"model.name": "linear", "training.batch_size": 51}, 10),  # 14 each
        ({"model.name": "mlp"}, 1),
        ({"data.partition": "dirichlet"}, 1),
        ({"engine.name": "ray"}, 1),
        ({"rounds.schedule": "buffered"}, 1),
    ],
)
def test_small_clients_are_trained_together_by_a_table_of_what_is_declared(settings, nodes):
    assert trained_together(prepared(config_from({**SMALL, **settings}))) == nodes


def test_a_server_on_a_network_has_no_stack_whatever_it_computes_on(monkeypatch):
    """Each node trains alone there."""
    monkeypatch.setattr("fedlearn.models.loaded._found_device", lambda config: "cuda:0")
    assert with_found_data(config_from({"data.dataset": "digits"})).training.stack < 2


def few_different(folder, rows):
    (folder / "few.csv").write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in rows))
    declared = 'data = "few.csv"\ntarget = "y"\nclasses = ["a", "b"]\nbounds = {x = [0, 50]}\n'
    (folder / "few.toml").write_text(declared)
    return {"data.dataset": str(folder / "few.toml"), "model.name": "dp-naive-bayes", "clients": 5}


def test_what_is_not_as_declared_in_a_table_is_printed_and_stands_in_no_setting(tmp_path, caplog):
    found = prepared(config_from(few_different(tmp_path, [(row, "ab"[row % 2]) for row in range(60)])))
    assert "few.toml: x: 9 of 60 numbers lie outside [0, 50]" in caplog.text
    assert "outside" not in str(found.model_dump())


def test_shares_that_chance_has_made_uneven_are_said(tmp_path, caplog):
    prepared(config_from(few_different(tmp_path, [(row // 50, "ab"[row // 100]) for row in range(200)])))
    assert "data.partition = 'iid': the 5 clients hold from 0 to" in caplog.text


def test_shares_that_are_nearly_even_are_not_said(caplog):
    prepared(config_from({"data.dataset": "diabetes", "model.name": "dp-forest", "clients": 3}))
    assert not caplog.text
