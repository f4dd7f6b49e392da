"""What says more than its numbers is not taken for numbers, by whichever door it comes."""

from __future__ import annotations

from unicodedata import normalize

import datasets
import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from fedlearn.core.errors import UsageError
from fedlearn.data import from_any, from_arrays, from_folder, from_frame, from_hf, from_table, from_torch
from fedlearn.models.torch.inputs import inputs_of

RNG = np.random.default_rng(6)
Y = np.arange(20) % 2
MASKED = np.ma.masked_equal(np.where(np.arange(60).reshape(20, 3) == 16, -9999.0, 1.5), -9999.0)
MASKED_Y = np.ma.array(Y, mask=np.arange(20) == 5)


@pytest.mark.parametrize(
    "data",
    [
        (MASKED, Y), {"X": MASKED, "y": Y}, (list(MASKED), Y), [(row, 1) for row in MASKED], (MASKED.data, MASKED_Y),
        {"a": (MASKED, Y), "b": (MASKED, Y)},
    ],
)  # fmt: skip
def test_masked_value_is_missing(data):
    with pytest.raises(UsageError, match=r"example 5.* masked value, which is missing: fill it or leave it out"):
        from_any(data)


def test_masked_array_without_a_masked_value_is_an_array():
    assert np.array_equal(from_any((np.ma.array(np.ones((20, 3))), Y)).train.inputs, np.ones((16, 3)))


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, ">i2"])
def test_sound_of_16_bits_is_no_text(dtype):
    sound = RNG.integers(0, 999, (20, 160)).astype(dtype)
    with pytest.raises(
        UsageError, match=r"as sound and pictures of 16 bits do.*X.astype\('int32'\), or say vocabulary="
    ):
        from_any((sound, Y))
    assert from_arrays(sound, Y, vocabulary=1000).vocabulary == 1000
    assert from_any((sound.astype("int32"), Y)).vocabulary
    assert from_any((sound.astype("float32") / 32768, Y)).train.inputs.dtype == np.float32


@pytest.mark.parametrize("dtype", [np.uint16, np.int64])
def test_integers_of_many_axes_are_no_text(dtype):
    with pytest.raises(
        UsageError, match=r"tokens are \(n, length\): give pictures as uint8, numbers as floats, X.astype\('float32'\)"
    ):
        from_any((RNG.integers(0, 9, (20, 8, 8, 3)).astype(dtype), Y))


@pytest.mark.parametrize("shape", [(13, 16, 16), (6, 10, 8), (3, 8, 8), (1, 9, 7), (5, 16, 5)])
def test_module_gets_the_axes_of_tensors_as_they_are(shape):
    X = torch.from_numpy(RNG.normal(size=(20, *shape)).astype(np.float32))
    data = from_any(TensorDataset(X, torch.from_numpy(Y)))
    seen = inputs_of(data.spec)(np.array(data.train.inputs))
    assert seen.shape[1:] == shape and any(torch.equal(seen[0], each) for each in X)


def test_tensors_whose_channels_may_be_last_are_asked_about():
    X = torch.from_numpy(RNG.normal(size=(20, 16, 12, 3)).astype(np.float32))
    pairs = TensorDataset(X, torch.from_numpy(Y))
    with pytest.raises(UsageError, match=r"say from_torch\(data, channels='last'\) or channels='first'"):
        from_any(pairs)
    assert from_torch(pairs, channels="last").spec.shape == (16, 12, 3)
    assert from_torch(pairs, channels="first").spec.shape == (12, 3, 16)


@pytest.mark.parametrize("parts", [tuple, list])
def test_input_of_several_parts_is_refused(parts):
    pairs = [(parts([torch.arange(8), torch.ones(8)]), k % 2) for k in range(20)]
    with pytest.raises(UsageError, match=r"each input has 2 parts, and a module gets one tensor"):
        from_any(pairs)


def test_part_without_labels_gives_way_to_the_next_for_testing():
    def part(labels):
        return datasets.Dataset.from_dict({"x": [[0.5, 1.0]] * len(labels), "label": labels})

    parts = datasets.DatasetDict(train=part([0, 1] * 5), test=part([-1] * 3), validation=part([1, 0]))
    found = from_any(parts)
    assert found.test.targets.tolist() == [1, 0]
    assert "part 'test' is not used: its labels are all -1" in found.notice


def test_sparse_columns_are_columns():
    dense = pd.DataFrame({"a": [0.0, 0, 1.5, 0] * 5, "k": Y})
    sparse = dense.astype({"a": pd.SparseDtype(float, 0.0)})
    assert from_frame(sparse, target="k").fingerprint == from_frame(dense, target="k").fingerprint


def test_label_1_is_the_class_named_1_by_every_door(tmp_path):
    frame = pd.DataFrame({"a": np.arange(20) / 4, "k": [1, 2] * 10})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    frame.astype({"k": str}).to_parquet(tmp_path / "b.parquet")
    options = {"target": "k", "classes": ("1", "2", "3")}
    found = [from_table(tmp_path / name, **options) for name in ("a.csv", "a.parquet", "b.parquet")]
    found += [from_frame(frame, **options), from_frame(frame.astype({"k": str}), **options)]
    assert all(set(each.train.targets.tolist()) == {0, 1} for each in found)
    assert len({each.fingerprint for each in found}) == 1
    with pytest.raises(UsageError, match="is '4', which is none of the classes"):
        from_frame(frame.replace({"k": {2: 4}}), **options)


def test_name_in_two_unicode_forms_is_one_class():
    y = [normalize(form, "café") for form in ("NFC", "NFD")] * 8 + ["bar"] * 4
    assert from_any((RNG.random((20, 2)), y)).class_names == ("bar", normalize("NFC", "café"))


def upright_and_turned(folder):
    """Write one picture per class, whose EXIF data say that the camera was held on its side."""
    pixels = RNG.integers(0, 256, (6, 4, 3), dtype=np.uint8)
    for k in range(8):
        exif = Image.Exif()
        exif[0x0112] = 6  # turned by a quarter
        (folder / "ab"[k % 2]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / "ab"[k % 2] / f"{k}.png", exif=exif)
    return np.rot90(pixels, -1)


def test_photo_is_upright_by_every_door(tmp_path):
    right = upright_and_turned(tmp_path / "photos")
    files = sorted((tmp_path / "photos").rglob("*.png"))
    frame = pd.DataFrame({"image": [path.read_bytes() for path in files], "label": [p.parent.name for p in files]})
    frame.to_parquet(tmp_path / "a.parquet")
    rows = datasets.Dataset.from_dict({"image": [str(path) for path in files], "label": [0, 1] * 4})
    doors = [
        from_folder(tmp_path / "photos"), from_table(tmp_path / "a.parquet", target="label"),
        from_frame(frame, target="label"), from_any(rows.cast_column("image", datasets.Image())),
        from_any([(Image.open(path), k % 2) for k, path in enumerate(files)]),
    ]  # fmt: skip
    assert all(np.array_equal(door.train.inputs[0], right) for door in doors)


@pytest.mark.parametrize("ending", ["tif", "gif"])
def test_frames_are_not_cut(tmp_path, ending):
    frames = [Image.fromarray(np.full((4, 4), shade, np.uint8)) for shade in (10, 120, 240)]
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        frames[0].save(tmp_path / name / f"1.{ending}", save_all=True, append_images=frames[1:])
    with pytest.raises(UsageError, match=rf"1.{ending}: 3 frames"):
        from_folder(tmp_path)


def test_01_is_not_1_by_any_door(tmp_path):
    frame = pd.DataFrame({"a": np.arange(20) / 4, "k": ["01", "1", "02", "2"] * 5})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    tables = [from_table(tmp_path / name, target="k") for name in ("a.csv", "a.parquet")]
    doors = [*tables, from_frame(frame, target="k")]
    assert {door.class_names for door in doors} == {("01", "02", "1", "2")}


def test_tensors_of_a_transform_reach_the_module_as_they_are():
    rows = datasets.Dataset.from_dict({"image": [[k] for k in range(20)], "label": list(range(2)) * 10})
    tensors = torch.from_numpy(RNG.normal(size=(20, 3, 6, 5)).astype(np.float32))

    def fixed(batch):
        return {**batch, "image": [tensors[k] for [k] in batch["image"]]}

    def drawn(batch):
        return {**batch, "image": [tensors[k] + torch.rand(1) for [k] in batch["image"]]}

    def away(batch):
        return {"pixels": batch["image"], "label": batch["label"]}

    data = from_any(rows.with_transform(fixed))
    assert any(torch.equal(inputs_of(data.spec)(data.train.inputs[:1].copy())[0], each) for each in tensors)
    assert from_hf(rows.with_transform(fixed), channels="first").spec == from_hf(rows.with_transform(fixed)).spec
    assert "each was read once" in from_any(rows.with_transform(drawn)).notice
    assert "each was read once" not in data.notice
    with pytest.raises(UsageError, match=r"its transform takes column 'image' away: give \(data.map"):
        from_any(rows.with_transform(away))
