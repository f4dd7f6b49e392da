"""Which sweeps go onto a cluster, and how a run folder travels."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from fedlearn.config import config_from
from fedlearn.engine.ray_runtime.cluster import versions
from fedlearn.sweeps.machines import _made, can_spread, packed, unpack


def on_ray(**settings):
    return config_from({"engine.name": "ray", **settings})


def test_several_runs_on_ray_are_spread_unless_they_ask_for_workers_or_for_several_clusters():
    assert can_spread([on_ray(seed=1), on_ray(seed=2)])
    assert not can_spread([on_ray()])
    assert not can_spread([])
    assert not can_spread([config_from({}), config_from({})])
    assert not can_spread([on_ray(**{"engine.workers": 2})] * 2)
    assert not can_spread([on_ray(), on_ray(**{"engine.options": '{"address": "10.0.0.1:6379"}'})])


def test_a_folder_arrives_as_it_was_and_takes_the_place_of_what_was_there(tmp_path):
    (tmp_path / "a" / "inner").mkdir(parents=True)
    (tmp_path / "a" / "inner" / "file").write_bytes(b"new")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "old").write_bytes(b"old")
    (tmp_path / ".b.part").mkdir()  # a kill has left it
    (tmp_path / ".b.part" / "half").write_bytes(b"half")
    unpack(packed(tmp_path / "a"), tmp_path / "b")
    assert [str(path.relative_to(tmp_path / "b")) for path in (tmp_path / "b").rglob("*")] == ["inner", "inner/file"]
    assert (tmp_path / "b" / "inner" / "file").read_bytes() == b"new"
    assert not (tmp_path / ".b.part").exists()


def test_nothing_travels_where_there_is_no_folder(tmp_path):
    unpack(packed(tmp_path / "missing"), tmp_path / "there")
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize("name", ["../outside", "inner/../../outside", "/outside"])
def test_a_machine_cannot_write_beside_the_run_folder(tmp_path, name):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, b"")
    unpack(file.getvalue(), tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert not Path("/outside").exists()


def test_the_reason_of_a_failure_names_the_folder_of_the_sweep(tmp_path):
    damaged = tmp_path / "run"
    damaged.mkdir()
    (damaged / "checkpoint.json").write_bytes(b"{")
    code, why, _ = _made(config_from({"data.dataset": "digits", "out": str(damaged)}), versions(), packed(damaged))
    assert code
    assert str(damaged) in why
    assert "fedlearn-" not in why
