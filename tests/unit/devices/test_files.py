"""Devices out of a user's file."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from fedlearn.config.tables.running_settings import DeviceSettings
from fedlearn.core.errors import SettingError
from fedlearn.devices import load_devices, with_fingerprint


def read(path, clients=3):
    examples = np.ones(clients, np.int64)
    return load_devices(DeviceSettings(name=str(path)), clients=clients, seed=4, examples=examples)


def written(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


CSV = "seconds_per_example,up,group\n0.1,100,a\n0.2,200,b\n0.3,300,a\n"
TOML = """
[[device]]
seconds_per_example = 0.1
up = 100
group = "a"
[[device]]
seconds_per_example = 0.2
up = 200
group = "b"
[[device]]
seconds_per_example = 0.3
up = 300
group = "a"
"""


@pytest.fixture(params=["csv", "toml", "parquet"])
def table(request, tmp_path):
    if request.param == "csv":
        return written(tmp_path, "fleet.csv", CSV)
    if request.param == "toml":
        return written(tmp_path, "fleet.toml", TOML)
    columns = {"seconds_per_example": [0.1, 0.2, 0.3], "up": [100, 200, 300], "group": ["a", "b", "a"]}
    pa.parquet.write_table(pa.table(columns), tmp_path / "fleet.parquet")
    return tmp_path / "fleet.parquet"


def test_row_i_is_the_device_of_node_i(table):
    fleet = read(table)
    assert fleet.seconds_per_example.tolist() == [0.1, 0.2, 0.3]
    assert fleet.up.tolist() == [100.0, 200.0, 300.0]
    assert [fleet.group_of(node) for node in range(3)] == ["a", "b", "a"]
    assert fleet.dropout.tolist() == [0.0] * 3


def test_with_shares_rows_are_kinds_of_devices(tmp_path):
    path = written(tmp_path, "kinds.csv", "seconds_per_example,share,group\n0.1,3,new\n0.2,1,old\n")
    fleet = read(path, clients=4000)
    assert {name: kind["nodes"] / 4000 for name, kind in fleet.described().items()} == pytest.approx(
        {"new": 0.75, "old": 0.25}, abs=0.03
    )


def test_fedscales_columns_are_inference_milliseconds_and_kilobits(tmp_path):
    fleet = read(written(tmp_path, "trace.csv", "computation,communication\n100,8\n50,80\n"), clients=2)
    assert fleet.seconds_per_example.tolist() == pytest.approx([0.3, 0.15])
    assert fleet.down.tolist() == fleet.up.tolist() == [1000.0, 10000.0]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("f.csv", "", "Empty CSV file"),
        ("f.csv", "seconds_per_example\n", "the column seconds_per_example is missing, or empty"),
        ("f.csv", "up\n1\n", "the column seconds_per_example is missing, or empty"),
        ("f.csv", "seconds_per_example,drop\n1,2\n", "there is no column 'drop'"),
        ("f.csv", "seconds_per_example\n1\n2\n", "it has 2 devices, the run has 3 clients: add rows, or a column"),
        ("f.csv", "seconds_per_example\n1\nfast\n3\n", "seconds_per_example of row 1 is '1', and no number"),
        ("f.csv", "seconds_per_example,up\n1,0\n1,1\n1,1\n", "up of device 0 is 0: it must be finite, above 0"),
        ("f.csv", "seconds_per_example,share\n1,0\n", "share must be finite, from 0, and not all of them 0"),
        ("f.csv", "seconds_per_example,share\n1,nan\n", "share of row 1 is None, and no number"),
        ("f.toml", "[[device", "not valid TOML: "),
        ("f.toml", "device = 3", "write each device, or kind of device, as a table [[device]]"),
        ("f.toml", "[[device]]\nup = 1\n[[device]]\ndown = 1", "all tables [[device]] must have the same keys"),
        ("f.toml", "[[device]]\nseconds_per_example = true", "seconds_per_example of row 1 is True, and no number"),
        ("f.toml", f"[[device]]\nseconds_per_example = 1{'0' * 400}", "int too large to convert to float"),
    ],
)  # fmt: skip
def test_a_bad_file_is_one_line_with_the_setting(tmp_path, name, text, why):
    path = written(tmp_path, name, text)
    with pytest.raises(SettingError) as error:
        read(path)
    assert str(error.value).startswith(f"devices.name = {str(path)!r}: {why}")
    assert "\n" not in str(error.value)


def test_a_pickle_is_never_read(tmp_path):
    (tmp_path / "f.csv").write_bytes(pickle.dumps({"seconds_per_example": [1.0]}))
    with pytest.raises(SettingError):
        read(tmp_path / "f.csv")
    (tmp_path / "f.parquet").write_bytes(pickle.dumps({"seconds_per_example": [1.0]}))
    with pytest.raises(SettingError):
        read(tmp_path / "f.parquet")
    with pytest.raises(SettingError, match="choose one of"):
        read(tmp_path / "f.pickle")


@pytest.mark.parametrize("what", ["missing.csv", "folder.csv"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, what):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(SettingError, match=r"^devices\.name = .*(No such file|Is a directory).*: name a TOML file"):
        with_fingerprint(DeviceSettings(name=str(tmp_path / what)))


def test_options_are_for_fleets_that_are_drawn(tmp_path):
    settings = DeviceSettings(name=str(written(tmp_path, "f.csv", CSV)), options='{"dropout": 0.1}')
    with pytest.raises(SettingError, match=r"^devices\.options"):
        load_devices(settings, clients=3, seed=1, examples=np.ones(3, np.int64))


def test_a_run_goes_on_with_the_devices_that_it_was_begun_with(tmp_path):
    path = written(tmp_path, "f.csv", CSV)
    settings = with_fingerprint(DeviceSettings(name=str(path)))
    assert with_fingerprint(settings) == settings
    written(tmp_path, "f.csv", CSV.replace("0.3", "0.4"))
    with pytest.raises(SettingError, match=r"^devices\.sha256 = .* holds other devices now"):
        with_fingerprint(settings)
