"""Keywords of `fedlearn.run` are the command's flags, and objects stand where names do."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import TensorDataset

import fedlearn
from fedlearn.api.given import KEYWORDS, as_value, flat_settings
from fedlearn.compression.sign import Sign
from fedlearn.config.names import flags
from fedlearn.core.errors import SettingError, UsageError
from fedlearn.data import Dataset, from_arrays, load_dataset
from fedlearn.data.data_spec import Examples


def small_data(images: np.ndarray) -> Dataset:
    examples = Examples(images, np.zeros(len(images), np.int64))
    return Dataset("small images", examples, examples, 2, (0.5,), (0.2,), "small-1")


def test_every_flag_is_a_keyword():
    assert {flag.parameter for flag in flags().values()} <= {*KEYWORDS}


def test_keywords_of_the_signature_are_settings_or_its_own():
    own = {"settings", "resume", "progress", "dashboard", "log", "accept_code", "keywords"}
    assert {*inspect.signature(fedlearn.run).parameters} - own <= {*KEYWORDS}


def test_flat_dotted_and_tables_are_the_same():
    by_keyword = flat_settings({"lr": 0.1, "rounds": 3}, {})
    assert by_keyword == flat_settings({"training.lr": 0.1, "rounds.total": 3}, {})
    assert by_keyword == flat_settings({}, {"training": {"lr": 0.1}, "rounds.total": 3})


def test_numbers_of_numpy_and_paths_become_plain(tmp_path):
    assert flat_settings({"lr": np.float32(0.5), "data_dir": tmp_path}, {}) == {
        "training.lr": 0.5,
        "data.dir": str(tmp_path),
    }


def test_codec_is_a_name_an_object_or_a_list_of_both():
    assert as_value("compression.codec", Sign) == "fedlearn.compression.sign:Sign"
    assert as_value("compression.codec", ["top-k:0.1", Sign]) == "top-k:0.1,fedlearn.compression.sign:Sign"


@pytest.mark.parametrize(
    ("keywords", "settings", "said"),
    [
        ({"lr": 0.1}, {"training.lr": 0.2}, "lr: training.lr is given twice"),
        ({"data": "digits", "dataset": "digits"}, {}, "dataset: data.dataset is given twice"),
        ({"momentum": 0.1}, {}, 'momentum: write settings={"training.momentum": ...}'),
        ({"clinets": 3}, {}, "clinets: there is no such setting; did you mean clients?"),
    ],
)
def test_keyword_that_is_none_is_one_line(keywords, settings, said):
    with pytest.raises(UsageError) as error:
        flat_settings(keywords, settings)
    assert said in str(error.value)


def test_object_that_cannot_be_pickled_names_its_setting(tmp_path):
    with (tmp_path / "file").open("w") as file, pytest.raises(SettingError, match=r"model.name = .*cannot be pickled"):
        flat_settings({"model": file}, {})


@pytest.mark.parametrize("step", [1, 2])
def test_given_data_set_comes_back_from_the_cache(step):
    images = np.random.default_rng(0).integers(0, 255, (60, 28, 56, 1), np.uint8)[:, :, ::step]
    name = flat_settings({"data": small_data(images)}, {})["data.dataset"]
    assert name.startswith("object:small_images-")
    found = load_dataset(name, "")
    assert np.array_equal(found.train.inputs, images)
    assert not found.train.inputs.flags.writeable  # mapped from a file, by every process


def test_same_arrays_have_the_same_name_and_others_another():
    images = np.zeros((60, 28, 28, 1), np.uint8)
    names = [flat_settings({"data": small_data(each)}, {})["data.dataset"] for each in (images, images, images + 1)]
    assert names[0] == names[1] != names[2]


X, Y = np.arange(24.0).reshape(12, 2), np.arange(12) % 2


def test_data_in_any_form_are_the_data_set_of_from_arrays():
    forms = [from_arrays(X, Y), (X, Y), TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))]
    assert len({flat_settings({"data": each}, {})["data.dataset"] for each in forms}) == 1
    assert flat_settings({}, {"data": {"dataset": (X, Y)}}) == flat_settings({"data": (X, Y)}, {})


def test_data_node_by_node_say_how_many_nodes_there_are():
    found = flat_settings({"data": {"a": (X, Y), "b": (X, Y)}, "clients": 2}, {})
    assert (found["clients"], found["data.partition"]) == (2, "natural")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"clients": 3}, "clients = 3: data are given client by client, which is 2: leave it out"),
        ({"partition": "iid"}, "data.partition = 'iid': data are given client by client, which is 'natural'"),
    ],
)
def test_settings_that_would_mix_the_data_of_nodes_are_refused(setting, said):
    with pytest.raises(SettingError) as error:
        flat_settings({"data": {"a": (X, Y), "b": (X, Y)}, **setting}, {})
    assert said in str(error.value)


def test_a_keyword_of_frames_leads_to_them():
    with pytest.raises(UsageError, match=r"bounds: it says what a frame holds: data=from_frame\(frame, bounds=\.\.\."):
        flat_settings({"bounds": {"age": (0, 9)}}, {})


def test_data_that_cannot_be_read_are_one_line():
    with pytest.raises(UsageError, match="a frame does not say which column is learned"):
        flat_settings({"data": pd.DataFrame({"a": [1.0]})}, {})
