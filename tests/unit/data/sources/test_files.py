"""Folders and files that users have: what becomes of them, and how a broken one is refused."""

from __future__ import annotations

import io
import json
import os
import time
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from fedlearn.core.errors import DataNotFound, SettingError, UsageError
from fedlearn.data import from_folder, from_leaf, from_table, load_dataset
from fedlearn.data.schema_file import read_schema
from fedlearn.data.sources.images import decoded
from fedlearn.data.sources.leaf import LETTERS

RNG = np.random.default_rng(2)


def picture(shape=(6, 5, 3)) -> np.ndarray:
    return RNG.integers(0, 256, shape, np.uint8)


def png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels.squeeze()).save(file, "PNG")
    return file.getvalue()


def message(call) -> str:
    with pytest.raises(UsageError) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


# --- pictures ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def flowers(tmp_path):
    """A folder with four roses and four tulips for training, one of each for testing."""
    for part, count in (("train", 4), ("test", 1)):
        for kind in ("rose", "tulip"):
            (tmp_path / "flowers" / part / kind).mkdir(parents=True)
            for number in range(count):
                (tmp_path / "flowers" / part / kind / f"{number}.png").write_bytes(png(picture()))
    return tmp_path / "flowers"


def test_a_folder_of_pictures_is_a_data_set(flowers):
    found = load_dataset(str(flowers), "")
    assert (found.spec.shape, found.class_names) == ((6, 5, 3), ("rose", "tulip"))
    assert found.train.targets.tolist() == [0] * 4 + [1] * 4
    stored = np.asarray(Image.open(flowers / "train" / "tulip" / "1.png"))
    np.testing.assert_array_equal(found.train.inputs[5], stored)
    assert len(found.test) == 2


def test_grey_pictures_have_one_channel_and_are_split_where_there_is_no_test(tmp_path):
    for kind in "ab":
        (tmp_path / kind).mkdir()
        for number in range(5):
            Image.fromarray(picture((4, 4))).save(tmp_path / kind / f"{number}.jpg")
    found = from_folder(tmp_path)
    assert (found.spec.shape, len(found.train), len(found.test)) == ((4, 4, 1), 8, 2)


def test_pictures_are_decoded_once(flowers, monkeypatch):
    first = from_folder(flowers)
    monkeypatch.setattr(Image, "open", lambda *_: pytest.fail("decoded again"))
    assert from_folder(flowers).fingerprint == first.fingerprint


def test_a_picture_of_another_size_is_named_and_can_be_scaled(flowers):
    odd = flowers / "train" / "tulip" / "2.png"
    odd.write_bytes(png(picture((9, 7, 3))))
    said = message(lambda: from_folder(flowers))
    assert said.startswith(f"{odd}: 9 x 7 pixels, and ")
    assert "0.png has 6 x 5: give size=[HEIGHT, WIDTH]" in said
    assert load_dataset(str(flowers), "", options='{"size": [8, 4]}').spec.shape == (8, 4, 3)


def test_a_broken_picture_is_named(flowers):
    (flowers / "test" / "rose" / "0.png").write_bytes(b"no picture")
    assert f"{flowers / 'test' / 'rose' / '0.png'}: no picture that can be read" in message(
        lambda: from_folder(flowers)
    )


def test_a_folder_without_classes_says_what_it_must_hold(tmp_path):
    assert "a folder of pictures for each class, two at least; it has 0" in message(lambda: from_folder(tmp_path))
    for kind in "ab":
        (tmp_path / kind).mkdir()
    assert "there are no pictures in its folders" in message(lambda: from_folder(tmp_path))


# --- tables -----------------------------------------------------------------------------------------------------------

HOUSES = "rooms,age,town,price\n" + "".join(
    f"{r},{a}.5,{t},{r * 9}.0\n" for r, a, t in zip(range(10), range(10), "abcdeabcde", strict=True)
)


@pytest.fixture
def houses(tmp_path):
    path = tmp_path / "houses.csv"
    path.write_text(HOUSES)
    return path


def test_columns_of_numbers_are_rows(houses):
    found = from_table(houses, target="price", inputs=["rooms", "age"], groups="town")
    assert (found.spec.shape, found.spec.dtype, found.spec.classes, found.spec.groups) == ((2,), "float32", 0, 5)
    assert found.group_names == tuple("abcde")
    np.testing.assert_array_equal(found.train.targets, found.train.inputs[:, 0] * 9)


def test_by_name_a_table_says_its_target_as_an_option(houses, tmp_path):
    options = json.dumps({"target": "town", "inputs": ["rooms", "age"], "groups": "rooms"})
    found = load_dataset("houses.csv", str(tmp_path), options=options)
    assert (found.name, found.class_names, found.spec.shape) == (str(houses), tuple("abcde"), (2,))
    assert found.train.groups is not None


def test_integers_are_classes_unless_it_is_a_regression(houses):
    assert from_table(houses, target="rooms", inputs="age").spec.classes == 10
    assert from_table(houses, target="rooms", inputs="age", regression=True).spec.classes == 0


def test_pictures_in_parquet_are_read_by_any_names(tmp_path):
    pixels = [picture() for _ in range(6)]
    rows = pa.array([{"bytes": png(each), "path": None} for each in pixels])
    table = pa.table({"photo": rows, "kind": pa.array([0, 1] * 3), "owner": list("aabbcc")})
    pq.write_table(table, tmp_path / "photos.parquet")
    pq.write_table(table.slice(0, 2), tmp_path / "held.parquet")
    found = from_table(tmp_path / "photos.parquet", target="kind", inputs="photo", groups="owner", test="held.parquet")
    np.testing.assert_array_equal(found.train.inputs, pixels)
    assert (len(found.test), found.spec.groups) == (2, 3)


def test_lists_of_tokens_in_parquet_are_texts(tmp_path):
    table = pa.table({"letters": pa.array([[1, 2, 3]] * 4 + [[0, 0, 9]]), "next": [1, 0, 1, 0, 1]})
    pq.write_table(table, tmp_path / "texts.parquet")
    found = from_table(tmp_path / "texts.parquet", target="next", inputs="letters")
    assert (found.spec.vocabulary, found.spec.shape) == (10, (3,))


@pytest.mark.parametrize(
    ("changed", "options", "said"),
    [
        (HOUSES, {"target": "cost"}, "houses.csv has no column 'cost'; it has 'rooms', 'age', 'town', 'price'"),
        (HOUSES, {"target": "price"}, "houses.csv, line 2, column 'town': 'a' is no number"),
        (HOUSES.replace("4,4.5", "4,old"), {"target": "town"}, "houses.csv, line 6, column 'age': 'old' is no number"),
        (HOUSES.replace("4,4.5", "4,NA"), {"target": "town"}, "houses.csv, line 6, column 'age': no value"),
        (
            HOUSES.replace(",36.0", ","),
            {"target": "price", "inputs": "age"},
            "houses.csv, line 6, column 'price': no value",
        ),
        (
            HOUSES + "1,2\n",
            {"target": "price"},
            "it has 2 cells, the header has 4: mend the line",
        ),
        ("rooms,price\n", {"target": "price"}, "houses.csv has no rows"),
        (HOUSES, {"target": "price", "test": "gone.csv"}, "gone.csv: there is no such file"),
    ],
)
def test_a_wrong_table_is_named_with_its_line(houses, changed, options, said):
    houses.write_text(changed)
    assert said in message(lambda: from_table(houses, **options))


# --- LEAF -------------------------------------------------------------------------------------------------------------


def leaf(users) -> str:
    content = {"users": list(users), "num_samples": [len(y) for _, y in users.values()]}
    return json.dumps(content | {"user_data": {user: {"x": x, "y": y} for user, (x, y) in users.items()}})


def test_femnist_is_read_as_leaf_writes_it(tmp_path):
    grey = RNG.integers(0, 256, (4, 784))
    for part, rows in (("train", slice(0, 3)), ("test", slice(3, 4))):
        (tmp_path / part).mkdir()
        x = (grey[rows] / 255).tolist()
        (tmp_path / part / "all_data_0.json").write_text(
            leaf({"f0001_41": (x, [60] * len(x)), "f0002_00": (x, [3] * len(x))})
        )
    found = load_dataset(str(tmp_path), "", options='{"classes": 62}')
    assert (found.spec.shape, found.spec.classes, found.group_names) == ((28, 28, 1), 62, ("f0001_41", "f0002_00"))
    np.testing.assert_array_equal(found.train.inputs[:3].reshape(3, 784), grey[:3])
    assert found.test.groups.tolist() == [0, 1]


def test_shakespeare_is_read_as_leaf_writes_it(tmp_path):
    file = tmp_path / "roles.json"
    file.write_text(
        leaf(
            {"HAMLET": (["to be or n", "o be or no"], ["o", "t"]), "GHOST": (["swear!    ", "mark me.  "], ["\n", "I"])}
        )
    )
    found = from_leaf(file)
    assert (found.spec.shape, found.spec.vocabulary, found.spec.classes) == ((10,), 80, 80)
    whole = np.concatenate([found.train.inputs, found.test.inputs])
    assert "to be or n" in {"".join(LETTERS[token] for token in row) for row in whole}
    assert found.group_names == ("GHOST", "HAMLET")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not in LEAF's form"),
        ('{"users": ["a"], "user_data": {}}', "is not in LEAF's form"),
        (leaf({"a": ([[1.0]], [0, 1])}), "user 'a': x has 1 examples and y 2"),
        (
            leaf({"a": ([[1.0], [1.0, 2.0]], [0, 1])}),
            "user 'a', example 1: x has shape (2,), and the first of its part (1,)",
        ),
        (leaf({"a": (["né"], ["x"])}), "user 'a', example 0: the letter 'é' is none of LEAF's 80 letters"),
        (leaf({"a": ([None], [0])}), "user 'a', example 0: x must be a text or a list of numbers"),
        (leaf({}), "there are no examples in it"),
    ],
)
def test_a_wrong_file_is_named_with_its_user(tmp_path, text, said):
    (tmp_path / "all.json").write_text(text)
    assert said in message(lambda: from_leaf(tmp_path / "all.json"))


# --- by name ----------------------------------------------------------------------------------------------------------


def test_arrays_in_a_file_are_a_data_set(tmp_path):
    np.savez(tmp_path / "mine.npz", X=picture((10, 6, 5)), y=np.arange(10) % 3, groups=np.arange(10) % 2)
    found = load_dataset(str(tmp_path / "mine.npz"), "", options='{"classes": ["a", "b", "c"]}')
    assert (found.spec.shape, found.class_names, found.spec.groups) == ((6, 5, 1), ("a", "b", "c"), 2)
    np.savez(tmp_path / "odd.npz", images=1)
    assert "must hold X and y" in message(lambda: load_dataset(str(tmp_path / "odd.npz"), ""))


@pytest.mark.parametrize(
    ("name", "options", "error", "said"),
    [
        ("gone/pictures", "", DataNotFound, "there is no such file or folder here"),
        ("ylecun/mnist", "", DataNotFound, "for the Hugging Face Hub write hub:ylecun/mnist"),
        ("hub:ylecun/mnist", "", DataNotFound, "could not be loaded from the Hugging Face Hub"),
        (
            "houses.csv",
            '{"targt": "a"}',
            SettingError,
            "data.options.targt = 'a': there is no such option; did you mean target?",
        ),
        ("houses.csv", '{"target": 3}', SettingError, "data.options.target = 3: expected text or a list"),
        ("houses.csv", "", UsageError, "which column is learned? Write --set data.options.target=COLUMN"),
        ("digits", '{"size": 3}', SettingError, "data.options.size = 3: there are no options here"),
    ],
)
def test_what_cannot_be_found_or_asked_is_one_line(houses, monkeypatch, name, options, error, said):
    monkeypatch.chdir(houses.parent)
    with pytest.raises(error) as raised:
        load_dataset(name, "", options=options, offline=True)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_hub_is_not_asked_where_downloads_are_refused(monkeypatch):
    monkeypatch.setattr("datasets.load_dataset", lambda *_: pytest.fail("it asked the network"))
    with pytest.raises(DataNotFound, match="only a run may download"):
        load_dataset("hub:ylecun/mnist", "", offline=True)


def test_a_file_that_changed_is_read_again(houses):
    first = from_table(houses, target="town", inputs="rooms")
    houses.write_text(HOUSES.replace("9,9.5", "8,9.5"))
    os.utime(houses, ns=(1, 1))
    assert from_table(houses, target="town", inputs="rooms").fingerprint != first.fingerprint


# --- the one door -----------------------------------------------------------------------------------------------------


def arrays_file(path, **arrays):
    np.savez(path, **({"X": np.zeros((20, 4), np.uint8), "y": np.arange(20) % 2} | arrays))
    return path


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("suffix", ["npz", "csv", "json", "toml", "parquet"])
@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to(path)]
)
def test_what_is_no_regular_file_is_one_line_at_once(tmp_path, suffix, make):
    path = tmp_path / f"data.{suffix}"
    make(path)
    assert str(path) in message(
        lambda: load_dataset(str(path), "", options='{"target": "y"}' * (suffix in ("csv", "parquet")))
    )
    if suffix == "toml":  # also if it has become one since it was looked at for arrays
        assert str(path) in message(lambda: read_schema(path))


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to("/gone")]
)
def test_a_picture_that_is_no_regular_file_is_one_line_at_once(flowers, make):
    odd = flowers / "train" / "rose" / "odd.png"
    make(odd)
    said = message(lambda: from_folder(flowers))
    assert str(odd) in said and ("name a regular file" in said or "which is not there" in said)


def test_links_to_regular_files_are_followed(flowers):
    (flowers / "train" / "rose" / "linked.png").symlink_to(flowers / "train" / "rose" / "0.png")
    assert len(from_folder(flowers).train) == 9


@pytest.mark.parametrize("spoiled", [b"", b"nothing", b"PK\x03\x04 cut"])
@pytest.mark.parametrize("suffix", ["npz", "parquet", "json", "toml"])
def test_whatever_a_library_raises_names_the_file(tmp_path, suffix, spoiled):
    path = tmp_path / f"data.{suffix}"
    path.write_bytes(spoiled)
    assert str(path) in message(lambda: load_dataset(str(path), "", options='{"target": "y"}' * (suffix == "parquet")))


@pytest.mark.parametrize(("name", "text"), [("deep.json", "[" * 200_000), ("deep.toml", "a = " + "[" * 100_000)])
def test_what_is_nested_without_end_names_the_file(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert str(tmp_path / name) in message(lambda: load_dataset(str(tmp_path / name), ""))


@pytest.mark.parametrize("X", [np.float32(1), np.zeros((20, 2), complex), np.zeros(20, [("a", "f4")])])
def test_arrays_of_the_wrong_kind_name_the_file(tmp_path, X):
    path = arrays_file(tmp_path / "odd.npz", X=X)
    assert str(path) in message(lambda: load_dataset(str(path), ""))


def test_a_file_that_unpacks_without_end_is_refused_before_it_is_read(tmp_path, monkeypatch):
    import zipfile

    monkeypatch.setattr("fedlearn.data.reading.UNPACKED", 1 << 20)
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", bytes(1 << 22))
    monkeypatch.setattr(np, "load", lambda *_, **__: pytest.fail("it was read"))
    assert "it would take 0.00419 GB of memory" in message(lambda: load_dataset(str(path), ""))


def test_a_parquet_file_that_unpacks_without_end_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("fedlearn.data.reading.UNPACKED", 1 << 20)
    path = tmp_path / "bomb.parquet"
    pq.write_table(pa.table({"a": np.zeros(500_000), "y": np.zeros(500_000, np.int64)}), path)
    monkeypatch.setattr(pq.ParquetFile, "read", lambda *_, **__: pytest.fail("it was read"))
    assert "it would take 0.008 GB of memory" in message(lambda: from_table(path, target="y"))


@pytest.mark.long
def test_a_text_that_a_parquet_file_repeats_is_not_spelled_out_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr("fedlearn.data.reading.UNPACKED", 1 << 24)
    path = tmp_path / "texts.parquet"
    pq.write_table(pa.table({"a": np.zeros(20_000), "y": ["x" * 100_000, "y"] * 10_000}), path)
    assert "it would take 1 GB of memory" in message(lambda: from_table(path, target="y"))


@pytest.mark.parametrize("suffix", ["csv", "json", "npz"])
def test_a_file_with_nothing_but_a_hole_is_refused(tmp_path, suffix):
    with (tmp_path / f"hole.{suffix}").open("wb") as file:
        file.truncate(40 << 30)
    options = '{"target": "y"}' * (suffix == "csv")
    said = message(lambda: load_dataset(f"{tmp_path}/hole.{suffix}", "", options=options))
    assert "takes 0 MB on the disk" in said


def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded(flowers, monkeypatch):
    monkeypatch.setattr("fedlearn.data.sources.images.MOST_PIXELS", 29)
    monkeypatch.setattr(Image.Image, "load", lambda *_: pytest.fail("it was decoded"))
    assert "6 x 5 pixels: a picture may have 29" in message(lambda: from_folder(flowers))


@pytest.mark.parametrize("where", ["class", "file"])
def test_names_that_are_no_utf8_are_read(tmp_path, where):
    for kind in (b"a", b"b\xff" if where == "class" else b"b"):
        folder = tmp_path / os.fsdecode(kind)
        folder.mkdir()
        for number in range(3):
            name = os.fsdecode(b"%d%s.png" % (number, b"\xff" if where == "file" else b""))
            (folder / name).write_bytes(png(picture((4, 4, 3))))
    assert from_folder(tmp_path).class_names == ("a", "b\\xff" if where == "class" else "b")


# --- hidden copies ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "copy", [".ipynb_checkpoints/0.png", "._0.png", ".hidden.png", "@eaDir/0.png/S.jpg", "../.ipynb_checkpoints/0.png",
             "../__MACOSX/rose/._0.png", "../__MACOSX/0.png", "../../.Trash-0/0.png"],
)  # fmt: skip
def test_hidden_copies_are_not_learned_from(flowers, copy):
    path = flowers / "train" / "rose" / copy
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((flowers / "train" / "rose" / "0.png").read_bytes())
    found = from_folder(flowers)
    assert (len(found.train), found.class_names) == (8, ("rose", "tulip"))


def test_a_folder_called_like_a_picture_is_a_folder(flowers):
    (flowers / "train" / "rose" / "scan.png").mkdir()
    (flowers / "train" / "rose" / "scan.png" / "1.png").write_bytes(png(picture()))
    assert len(from_folder(flowers).train) == 9


def test_a_folder_that_lacks_a_class_is_given_all_of_them(flowers):
    found = from_folder(flowers, classes=("daisy", "rose", "tulip"))
    assert (found.spec.classes, sorted(set(found.train.targets.tolist()))) == (3, [1, 2])
    assert "none of the classes" in message(lambda: from_folder(flowers, classes=("daisy", "rose")))


# --- modes of pictures ------------------------------------------------------------------------------------------------

RAMP = np.linspace(0, 1, 30).reshape(5, 6)


@pytest.mark.parametrize("mode", ["L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV", "La", "RGBa"])
def test_a_picture_of_eight_bits_keeps_its_range_in_any_mode(mode):
    grey = Image.fromarray((RAMP * 255).astype(np.uint8))
    through = {"La": "LA", "RGBa": "RGBA", "PA": "P", "HSV": "RGB", "RGBX": "RGB", "RGBA": "RGB"}.get(mode, "L")
    found = decoded([grey.convert(through).convert(mode)], ["one"], None)[0].mean(axis=-1) / 255
    assert abs(found - RAMP).max() < 0.03


@pytest.mark.parametrize("mode", ["I;16", "I;16B", "I;16L"])
def test_sixteen_bits_are_scaled_by_their_range(mode):
    deep = Image.frombytes(mode, (6, 5), (RAMP * 65535).astype(">u2" if mode == "I;16B" else "<u2").tobytes())
    found = decoded([deep], ["one"], None)[0]
    assert found.shape == (5, 6, 1) and abs(found[..., 0] / 255 - RAMP).max() < 0.005


@pytest.mark.parametrize("suffix", ["png", "tif", "pgm"])
def test_a_file_of_sixteen_bits_is_scaled_by_its_range(tmp_path, suffix):
    Image.fromarray((RAMP * 65535).astype(np.uint16)).save(tmp_path / f"deep.{suffix}")
    found = decoded([tmp_path / f"deep.{suffix}"], ["one"], None)[0]
    assert abs(found[..., 0] / 255 - RAMP).max() < 0.005


@pytest.mark.parametrize("mode", ["I", "F", "LAB"])
def test_a_mode_without_a_known_range_is_refused_by_its_name(mode):
    assert f"mode '{mode}'" in message(lambda: decoded([Image.new(mode, (5, 5))], ["one"], None))


# --- names of columns -------------------------------------------------------------------------------------------------


def table_file(path, header, rows=20, cell="{row},{half},{label}"):
    path.write_text(
        header + "\n" + "".join(cell.format(row=r, half=r / 2, label="ab"[r % 2]) + "\n" for r in range(rows))
    )
    return path


def test_blanks_around_names_and_cells_are_none_of_them(tmp_path):
    spaced = table_file(tmp_path / "spaced.csv", " age, hours , label", cell="{row}, {half}, {label} ")
    found = from_table(spaced, target="label")
    assert (found.feature_names, found.class_names) == (("age", "hours"), ("a", "b"))


def test_a_missing_label_behind_a_blank_is_missing(tmp_path):
    path = tmp_path / "gaps.csv"
    path.write_text("age, label\n1, a\n2, b\n3, ?\n")
    assert "gaps.csv, line 4, column 'label': no value" in message(lambda: from_table(path, target="label"))


def test_two_columns_of_one_name_are_named_where_they_are_wanted(tmp_path):
    path = table_file(tmp_path / "twice.csv", "age,age,label")
    assert "has 2 columns 'age'" in message(lambda: from_table(path, target="label"))
    assert "has 2 columns 'age'" in message(lambda: from_table(path, target="age", inputs="label"))


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_a_first_column_of_row_numbers_is_left_out_and_said(tmp_path, name):
    found = from_table(table_file(tmp_path / "index.csv", f"{name},half,label"), target="label")
    assert (found.spec.shape, found.feature_names) == ((1,), ("half",))
    assert "of row numbers is left out" in found.notice


def test_the_columns_of_a_test_file_are_found_by_their_names(tmp_path):
    table_file(tmp_path / "test.csv", "half,row,label", cell="{half},{row},{label}")
    found = from_table(table_file(tmp_path / "train.csv", "row,half,label"), target="label", test="test.csv")
    np.testing.assert_array_equal(found.test.inputs, found.train.inputs)


def test_a_table_of_many_columns_is_read_in_seconds(tmp_path):
    path = tmp_path / "wide.csv"
    names = ",".join(f"c{number}" for number in range(20_000))
    path.write_text(f"{names},y\n" + "".join("1," * 20_000 + f"{row % 2}\n" for row in range(4)))
    begin = time.process_time()
    assert from_table(path, target="y").spec.shape == (20_000,)
    assert time.process_time() - begin < 20


def test_decimals_are_numbers(tmp_path):
    values = [Decimal("1.5"), Decimal("2.25")] * 10
    pq.write_table(pa.table({"a": values, "y": [Decimal(0), Decimal(1)] * 10}), tmp_path / "money.parquet")
    found = from_table(tmp_path / "money.parquet", target="y")
    assert (set(np.unique(found.train.inputs)), found.spec.classes) == ({1.5, 2.25}, 2)


def test_names_of_pictures_are_no_texts(tmp_path):
    (tmp_path / "celeba.json").write_text(json.dumps({"users": ["a"], "user_data": {"a": {"x": ["1.jpg"], "y": [1]}}}))
    assert "x is the name of a picture, '1.jpg'" in message(lambda: from_leaf(tmp_path / "celeba.json"))
