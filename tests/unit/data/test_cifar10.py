from __future__ import annotations

import hashlib
import os
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedlearn.core.errors import DataNotFound, SettingError, UsageError
from fedlearn.data import cifar10


def never(*_, **__):
    raise AssertionError("must not be called")


def test_parquet_is_decoded_exactly(data_dir, files):
    found = cifar10.load(str(data_dir))
    assert found.name == "cifar10"
    assert found.num_classes == 10
    assert found.notice == ""
    np.testing.assert_array_equal(found.train.inputs, files.images(files.TRAIN))
    np.testing.assert_array_equal(found.train.labels, files.TRAIN)
    np.testing.assert_array_equal(found.test.inputs, files.images(files.TEST))
    np.testing.assert_array_equal(found.test.labels, files.TEST)


def test_second_load_decodes_nothing(data_dir, monkeypatch):
    first = cifar10.load(str(data_dir))
    monkeypatch.setattr(cifar10, "_read_parquet", never)
    again = cifar10.load(str(data_dir))
    np.testing.assert_array_equal(again.train.inputs, first.train.inputs)
    assert again.fingerprint == first.fingerprint


def test_replaced_file_is_decoded_again(data_dir, files):
    first = cifar10.load(str(data_dir))
    files.write(data_dir / "cifar10" / "test.parquet", [1, 1])
    again = cifar10.load(str(data_dir))
    assert list(again.test.labels) == [1, 1]
    assert again.fingerprint != first.fingerprint


def test_fingerprint_is_that_of_the_content_wherever_it_lies(data_dir, tmp_path):
    first = cifar10.load(str(data_dir))
    moved = tmp_path / "elsewhere"
    data_dir.rename(moved)
    assert cifar10.load(str(moved)).fingerprint == first.fingerprint


def test_data_folder_comes_from_the_setting_before_the_environment(data_dir, tmp_path, monkeypatch, files):
    other = tmp_path / "other"
    files.write(other / "cifar10" / "train.parquet", [5])
    files.write(other / "cifar10" / "test.parquet", [6])
    monkeypatch.setenv("FEDLEARN_DATA", str(other))
    assert list(cifar10.load("").train.labels) == [5]
    assert list(cifar10.load(str(data_dir)).train.labels) == list(files.TRAIN)


def test_parquet_comes_before_pickles(data_dir, monkeypatch):
    (data_dir / "cifar-10-batches-py").mkdir()
    monkeypatch.setattr(cifar10, "_read_batches", never)
    cifar10.load(str(data_dir))


@pytest.mark.parametrize("inside", [".", "cifar10"])
def test_pickles_are_read_through_torchvision(tmp_path, monkeypatch, inside):
    batches = tmp_path / inside / "cifar-10-batches-py"
    batches.mkdir(parents=True)
    (batches / "data_batch_1").write_bytes(b"1")
    seen = []

    def read(root):
        seen.append(root)
        return {
            f"{split}_{name}": array
            for split in ("train", "test")
            for name, array in (
                ("images", np.zeros((1, 32, 32, 3), np.uint8)),
                ("labels", np.ones(1, np.int64)),
            )
        }

    monkeypatch.setattr(cifar10, "_read_batches", read)
    assert len(cifar10.load(str(tmp_path)).train) == 1
    cifar10.load(str(tmp_path))
    assert seen == [tmp_path / inside]  # the second time it came from the cache


@pytest.mark.slow  # imports torchvision
def test_torchvisions_own_folder_is_read_and_its_md5_checked(tmp_path, monkeypatch, files):
    from torchvision.datasets import CIFAR10

    batches = tmp_path / "cifar-10-batches-py"
    batches.mkdir()
    images = files.images([4, 2])
    flat = images.transpose(0, 3, 1, 2).reshape(2, -1)

    def write(name, content):
        data = pickle.dumps(content)
        (batches / name).write_bytes(data)
        return name, hashlib.md5(data).hexdigest()

    train = write("data_batch_1", {"data": flat, "labels": [4, 2]})
    test = write("test_batch", {"data": flat[:1], "labels": [4]})
    meta = write("batches.meta", {"label_names": list("abcdefghij")})
    monkeypatch.setattr(CIFAR10, "train_list", [list(train)])
    monkeypatch.setattr(CIFAR10, "test_list", [list(test)])
    meta_entry = {"filename": meta[0], "key": "label_names", "md5": meta[1]}
    monkeypatch.setattr(CIFAR10, "meta", meta_entry)

    found = cifar10.load(str(tmp_path))
    np.testing.assert_array_equal(found.train.inputs, images)
    assert list(found.train.labels) == [4, 2]
    assert list(found.test.labels) == [4]

    write("data_batch_1", {"data": flat, "labels": [0, 0]})
    with pytest.raises(UsageError, match=r"cifar-10-batches-py is incomplete or damaged"):
        cifar10.load(str(tmp_path))


# Nothing found


def test_without_any_source_the_error_says_where_it_looked_and_what_to_do(tmp_path):
    with pytest.raises(DataNotFound) as caught:
        cifar10.load(str(tmp_path))
    text = str(caught.value)
    assert "\n" not in text
    assert f"cifar10/train.parquet and cifar-10-batches-py are not in {tmp_path}" in text
    assert "no network in unit tests" in text
    assert "uoft-cs/cifar10" in text
    assert "--data-dir" in text


def test_without_a_data_folder_the_error_says_so():
    with pytest.raises(DataNotFound, match=r"data\.dir and FEDLEARN_DATA are not set"):
        cifar10.load("")


def test_missing_folder_of_the_setting_is_an_error_of_the_setting(tmp_path):
    with pytest.raises(SettingError, match=r"^data\.dir = '.*gone': there is no such folder"):
        cifar10.load(str(tmp_path / "gone"))


def test_missing_folder_of_the_environment_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("FEDLEARN_DATA", str(tmp_path / "gone"))
    with pytest.raises(DataNotFound, match=r"FEDLEARN_DATA = .*gone is not a folder"):
        cifar10.load("")


def test_without_network_torchvision_is_not_even_imported(tmp_path, monkeypatch):
    monkeypatch.setattr(cifar10, "_download", never)
    with pytest.raises(DataNotFound):
        cifar10.load(str(tmp_path))


class HostAnswers:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def test_downloaded_archive_is_kept_as_arrays_only(cache, monkeypatch):
    calls = []

    def download(looked_at):
        calls.append(looked_at)
        return {
            "train_images": np.zeros((2, 32, 32, 3), np.uint8),
            "train_labels": np.zeros(2, np.int64),
            "test_images": np.zeros((1, 32, 32, 3), np.uint8),
            "test_labels": np.zeros(1, np.int64),
        }

    monkeypatch.setattr(cifar10, "_download", download)
    monkeypatch.setattr(cifar10.urllib.request, "urlopen", lambda *_, **__: HostAnswers())
    assert len(cifar10.load("").train) == 2
    monkeypatch.setattr(cifar10.urllib.request, "urlopen", never)
    assert len(cifar10.load("").train) == 2
    assert len(calls) == 1
    assert [path.name.split("-")[0] for path in cache.iterdir()] == ["cifar10"]


@pytest.mark.slow  # imports torchvision
def test_failed_download_leaves_nothing_behind(cache, monkeypatch):
    import socket

    monkeypatch.setattr(cifar10.urllib.request, "urlopen", lambda *_, **__: HostAnswers())
    monkeypatch.setattr("torchvision.datasets.cifar.download_and_extract_archive", broken_off)
    with pytest.raises(DataNotFound, match=r"failed \(the line went dead\)"):
        cifar10.load("")
    assert list(cache.iterdir()) == []
    assert socket.getdefaulttimeout() is None


def broken_off(url, root, **_):
    import socket

    assert socket.getdefaulttimeout() == cifar10.NETWORK_TIMEOUT
    (Path(root) / "cifar-10-python.tar.gz").write_bytes(b"half")
    raise RuntimeError("the line went dead")


# Found but broken


@pytest.mark.parametrize("gone", ["train", "test"])
def test_one_file_without_the_other_is_an_error(data_dir, gone):
    path = data_dir / "cifar10" / f"{gone}.parquet"
    path.unlink()
    with pytest.raises(UsageError, match=f"{gone}.parquet is missing, though") as caught:
        cifar10.load(str(data_dir))
    assert not isinstance(caught.value, DataNotFound)


def as_text(path, files):
    path.write_text("hello")


def cut_short(path, files):
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def no_rows(path, files):
    files.write(path, [], [])


def other_columns(path, files):
    pq.write_table(pa.table({"image": [1], "label": [2]}), path)


def bare_bytes(path, files):
    pq.write_table(pa.table({"img": [b"1"], "label": [2]}), path)


def words_as_labels(path, files):
    rows = [{"bytes": files.png(files.images([1])[0]), "path": None}]
    pq.write_table(pa.table({"img": rows, "label": ["cat"]}), path)


def missing_label(path, files):
    rows = [{"bytes": files.png(files.images([1])[0]), "path": None}] * 2
    pq.write_table(pa.table({"img": rows, "label": [1, None]}), path)


def eleventh_class(path, files):
    files.write(path, [3, 10])


def negative_class(path, files):
    files.write(path, [-1])


def not_an_image(path, files):
    files.write(path, [1, 2], [files.png(files.images([1])[0]), b"garbage"])


def no_image(path, files):
    files.write(path, [1, 2], [files.png(files.images([1])[0]), None])


def broken_image(path, files):
    files.write(path, [1], [files.png(files.images([1])[0])[:-1000]])


def other_size(path, files):
    files.write(path, [1], [files.png(np.zeros((28, 28, 3), np.uint8))])


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (as_text, "is not a readable Parquet file"),
        (cut_short, "is not a readable Parquet file"),
        (no_rows, "holds 0 of 0 examples"),
        (other_columns, r"must have the columns img .* it has image: int64, label: int64"),
        (bare_bytes, r"must have the columns img .* it has img: binary"),
        (words_as_labels, r"must have the columns .* label: string"),
        (missing_label, "1 labels are missing"),
        (eleventh_class, "label 10 is not one of 0 to 9"),
        (negative_class, "label -1 is not one of 0 to 9"),
        (not_an_image, "image 1 cannot be read"),
        (no_image, "image 1 cannot be read"),
        (broken_image, "image 0 cannot be read"),
        (other_size, r"image 0 cannot be read: its size is \(28, 28\), not \(32, 32\)"),
    ],
)
def test_broken_file_is_an_error_that_names_it(data_dir, cache, files, spoil, says):
    path = data_dir / "cifar10" / "train.parquet"
    spoil(path, files)
    with pytest.raises(UsageError, match=says) as caught:
        cifar10.load(str(data_dir))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not isinstance(caught.value, DataNotFound)
    assert list(cache.iterdir()) == []


REAL = os.environ.get("FEDLEARN_DATA", "")


needs_the_real_thing = pytest.mark.skipif(
    not (Path(REAL) / "cifar10" / "train.parquet").is_file() or not REAL,
    reason="FEDLEARN_DATA does not hold cifar10/train.parquet",
)


def assert_scaled_by(constants, images):
    scaled = images / 255.0
    np.testing.assert_allclose(scaled.mean(axis=(0, 1, 2)), constants.mean, atol=0.01)
    np.testing.assert_allclose(scaled.std(axis=(0, 1, 2)), constants.std, atol=0.01)


@needs_the_real_thing
def test_a_part_of_the_real_thing(tmp_path):
    (tmp_path / "cifar10").mkdir()
    for part, number in (("train", 2_000), ("test", 100)):
        with pq.ParquetFile(Path(REAL) / "cifar10" / f"{part}.parquet") as file:
            first = next(file.iter_batches(number))
            pq.write_table(pa.Table.from_batches([first]), tmp_path / "cifar10" / f"{part}.parquet")
    found = cifar10.load(str(tmp_path))
    assert (len(found.train), len(found.test)) == (2_000, 100)
    assert set(found.train.labels) == set(range(10))
    assert_scaled_by(found, found.train.inputs)


@pytest.mark.slow  # decodes 60,000 images, about 6 s
@pytest.mark.long
@needs_the_real_thing
def test_the_real_thing(own_cache, monkeypatch):
    monkeypatch.setenv("FEDLEARN_CACHE", str(own_cache))  # decoded once for all tests that read it
    found = cifar10.load(REAL)
    assert (len(found.train), len(found.test)) == (50_000, 10_000)
    assert list(np.bincount(found.train.labels)) == [5_000] * 10
    assert list(np.bincount(found.test.labels)) == [1_000] * 10
    assert_scaled_by(found, found.train.inputs[::10])
