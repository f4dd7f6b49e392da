"""One content means one thing by every door that can carry it."""

from __future__ import annotations

from unicodedata import normalize

import numpy as np
import pytest
from PIL import Image

from fedlearn.core.errors import UsageError
from fedlearn.data import from_folder, from_frame
from tests.unit.data.sources.doors import DOORS, Content

RNG = np.random.default_rng(3)
N = 10
X = np.round(RNG.normal(size=(N, 3)) * 64) / 16
NFC, NFD = (normalize(form, "café") for form in ("NFC", "NFD"))
WORDS = ["cat", "dog"] * 5
HALVES = [0.5 * k for k in range(N)]


def with_cell(value: float) -> np.ndarray:
    changed = X.copy()
    changed[3, 1] = value
    return changed


def pictures(*shape: int) -> list[Image.Image]:
    return [Image.fromarray(RNG.integers(0, 256, shape, dtype=np.uint8)) for _ in range(N)]


def shown(images: list[Image.Image], mode: str, y: list[str] = WORDS) -> Content:
    """Return pictures that are read as Pillow converts them to a mode."""
    return Content(images, y, pixels=[np.atleast_3d(np.asarray(image.convert(mode))) for image in images])


def turned() -> Content:
    images = pictures(6, 4, 3)
    for image in images:
        image.getexif()[0x0112] = 6  # held on its side
    return Content(images, WORDS, pixels=[np.rot90(np.asarray(image), -1) for image in images])


def framed() -> Content:
    images = pictures(4, 4)
    for image in images:
        image.info["frames"] = pictures(4, 4)[:2]
    return Content(images, WORDS, pixels=[], refused="3 frames, of which none is more than another")


def deep() -> Content:
    images = [Image.fromarray(RNG.integers(0, 2**16, (6, 4)).astype(np.uint16)) for _ in range(N)]
    bytes_of = [np.rint(np.asarray(image) / 257).astype(np.uint8)[..., None] for image in images]
    return Content(images, WORDS, pixels=bytes_of)


CONTENTS = {
    "words": Content(X, WORDS),
    "whole numbers": Content(X, [0, 1, 2, 1, 0] * 2),
    "declared numbers": Content(X, [1, 2] * 5, classes=("1", "2", "3")),
    "codes with zeros": Content(X, ["01", "1", "02", "2", "1"] * 2),
    "long codes": Content(X, ["12345678901234567890", "12345678901234567891"] * 5),
    "codes with points": Content(X, ["1.0", "2.0"] * 5, classes=("2.0", "1.0")),
    "codes with exponents": Content(X, ["1e5", "2e5"] * 5, classes=("1e5", "2e5")),
    "dates": Content(X, ["2020-01-01", "2021-01-01"] * 5),
    "times": Content(X, ["2020-01-01 12:00:00", "2021-01-01 12:30:00"] * 5),
    "two forms": Content(X, [NFC, NFD, "bar", "bar", NFD] * 2),
    "NA": Content(X, ["NA", "EU"] * 5, classes=("EU", "NA")),
    "None": Content(X, ["None", "mild"] * 5, classes=("mild", "None")),
    "true": Content(X, ["true", "false"] * 5, classes=("true", "false")),
    "True": Content(X, ["True", "False"] * 5, classes=("True", "False")),
    "truth values": Content(X, [True, False] * 5),
    "named truth values": Content(X, [True, False] * 5, classes=("True", "False")),
    "numbers": Content(X, HALVES),
    "even numbers": Content(X, [float(k) for k in range(N)]),
    "several numbers": Content(X, [[half, 1.0] for half in HALVES]),
    "columns": Content(X, WORDS, columns=(NFD, "b", "c"), asked=(NFC, "b", "c")),
    "missing": Content(with_cell(np.nan), WORDS, refused="fill it or leave"),
    "missing label": Content(X, [None if k == 3 else word for k, word in enumerate(WORDS)], refused="no value|object"),
    "infinite": Content(with_cell(np.inf), WORDS, refused="fill it or leave"),
    "beyond float32": Content(with_cell(1e300), WORDS, refused="float32 does not hold"),
    "negative class": Content(X, [-1, 0] * 5, refused="holds -1: a class is from 0"),
    "one class": Content(X, ["a"] * N, refused="two"),
    "strange class": Content(X, WORDS, classes=("cat", "owl"), refused="'dog', which is none of the classes"),
    "grey": shown(pictures(6, 4), "L"),
    "colors": shown(pictures(6, 4, 3), "RGB"),
    "transparent": shown(pictures(6, 4, 4), "RGB"),
    "palette": shown([image.convert("P") for image in pictures(6, 4, 3)], "RGB"),
    "one bit": shown([image.convert("1") for image in pictures(6, 4)], "L"),
    "16 bits": deep(),
    "turned": turned(),
    "frames": framed(),
    "names of pictures": shown(pictures(6, 4), "L", [NFC, NFD, "NA", "01", "1"] * 2),
    "tokens": Content(RNG.integers(0, 9, (N, 7)), WORDS),
    "bytes": Content(RNG.integers(0, 256, (N, 6, 4, 3), dtype=np.uint8), WORDS),
    "sound": Content(RNG.integers(0, 99, (N, 9)).astype(np.int16), WORDS, refused="as sound and pictures of 16"),
    "series": Content(RNG.normal(size=(N, 7, 2)).astype(np.float32), WORDS),
    "bands": Content(RNG.normal(size=(N, 13, 6, 5)).astype(np.float32), WORDS),
    "channels first or last": Content(np.zeros((N, 3, 8, 8), np.float32), WORDS, refused="say channels='first'"),
}

NO_LISTS = "a cell of text holds no list"
PLACES = "whole numbers of arrays are places of classes, not their names"
NO_NAMES = "takes no names of classes"
OWN_MISSING = "missing values and bounds are part of a declared table"
HOLES = {
    ("csv", "pictures"): NO_LISTS, ("tsv", "pictures"): NO_LISTS, ("declared", "pictures"): NO_LISTS,
    ("csv", "lists"): NO_LISTS, ("tsv", "lists"): NO_LISTS, ("declared", "lists"): NO_LISTS,
    ("csv", "several numbers"): NO_LISTS, ("tsv", "several numbers"): NO_LISTS,
    ("declared", "several numbers"): NO_LISTS,
    ("pictures", "rows"): "a folder of pictures has no rows", ("pictures", "lists"): "a folder holds pictures",
    ("leaf", "pictures"): "pictures in LEAF are grey levels from 0 to 1", ("leaf", "tokens"): "JSON numbers are floats",
    ("leaf", "bytes"): "JSON numbers are floats", ("leaf", "sound"): "JSON numbers are floats",
    **{(door, "declared numbers"): PLACES for door in ("npz", "arrays", "torch", "leaf", "nodes")},
    **{(door, "strange class"): NO_NAMES for door in ("leaf", "nodes")},
    **{(door, "named truth values"): NO_NAMES for door in ("leaf", "nodes")},
    **{("declared", content): OWN_MISSING for content in ("missing", "missing label", "infinite", "beyond float32")},
    ("declared", "truth values"): "classes of a declared table have names",
    ("declared", "negative class"): "classes of a declared table have names",
    ("declared", "strange class"): "rows of other classes are left out, and counted to the owner",
    ("npz", "frames"): "an array has no frames", ("npz", "missing label"): "None would be pickled",
    **{(door, "columns"): "an array has no names of columns" for door in ("npz", "arrays", "torch", "leaf")},
}  # fmt: skip


def as_read(found) -> list[tuple[str, str]]:
    """Return each example as its target, by name where it has one, and the numbers of its inputs; in one order."""
    rows = []
    for part in (found.train, found.test):
        for inputs, target in zip(part.inputs, part.targets, strict=True):
            label = found.class_names[target] if found.class_names else np.asarray(target, float).tolist()
            label = float(label) if not isinstance(label, list) and str(label).isdecimal() else label
            rows.append((str(label), np.asarray(inputs, np.float32).tobytes().hex()))
    return sorted(rows)


def as_meant(content: Content) -> list[tuple[str, str]]:
    inputs = content.X if content.pixels is None else content.pixels
    if content.kind == "lists" and inputs.ndim == 4 and inputs.dtype.kind == "f":
        inputs = np.moveaxis(inputs, 1, -1)  # stored with its channels last
    labels = [
        normalize("NFC", label) if isinstance(label, str) else str(label) if content.classes else
        np.asarray(label, float).tolist() for label in content.y
    ]  # fmt: skip
    labels = [float(label) if str(label).isdecimal() else label for label in labels]
    return sorted(
        (str(label), np.asarray(x, np.float32).tobytes().hex()) for label, x in zip(labels, inputs, strict=True)
    )


@pytest.mark.parametrize("named", CONTENTS)
def test_content_means_one_thing_by_every_door(named, tmp_path):
    content = CONTENTS[named]
    for name, door in DOORS.items():
        if (name, content.kind) in HOLES or (name, named) in HOLES:
            continue
        (folder := tmp_path / name).mkdir()
        if content.refused:
            with pytest.raises(UsageError, match=content.refused):
                door(content, folder)
            continue
        found = door(content, folder)
        assert as_read(found) == as_meant(content), name
        if content.classes and name not in ("leaf", "nodes"):
            assert found.class_names == content.classes, name
        if content.asked and name != "declared":
            assert found.spec.feature_names == content.asked, name


def test_every_hole_is_one_content_or_kind_by_one_door():
    kinds = {content.kind for content in CONTENTS.values()}
    assert len(DOORS) >= 9 and len(CONTENTS) >= 25
    assert all(door in DOORS and what in {*CONTENTS, *kinds} and why for (door, what), why in HOLES.items())


@pytest.mark.parametrize("read", [from_frame, from_folder])
def test_a_keyword_that_a_reader_does_not_have_is_no_damaged_data(read, tmp_path):
    with pytest.raises(TypeError, match=rf"{read.__name__}\(\) got an unexpected keyword argument 'seeed'"):
        read(tmp_path, seeed=1)
