"""The doors by which private examples come in: what one record does to others, and to what everybody sees.

Each door brings the same 200 records, and then one record more: an ordinary one, or one that is not as declared. The
others keep their part, their node and their values, and nothing public changes; a door without a declaration is shut.
"""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from fedlearn.api.given import flat_settings
from fedlearn.config import config_from
from fedlearn.core.errors import SettingError
from fedlearn.data import Dataset, Examples, from_arrays, from_frame
from fedlearn.data.partitioning import partition_table
from fedlearn.engine.prepare import prepared
from fedlearn.models.loaded import dataset_of
from fedlearn.plugins import objects

COUNT, SIDE = 200, 4
SECURE = {
    "clients": 4, "model.name": "linear", "privacy.protects": "records", "training.learner": "dp-sgd",
    "privacy.delta": 1e-5, "privacy.epsilon": 1.0, "privacy.noise": "secure", "privacy.records": 50,
}  # fmt: skip
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(COUNT, 3)).astype(np.float32)
PIXELS = RNG.integers(0, 255, (COUNT, SIDE, SIDE, 3), np.uint8)
CLASSES = ["no", "yes"]
LABELS = [CLASSES[row % 2] for row in range(COUNT)]
ORDINARY = ([0.5, 0.25, 0.125], "yes")
WRONG = {
    "class": ([0.5, 0.25, 0.125], "never"),
    "cell": (["x", 0.25, 0.125], "yes"),
    "wild": ([1e300, 0.25, 0.125], "yes"),
}
More = tuple[list[object], str] | None


def numbers_of(more: More) -> tuple[np.ndarray, np.ndarray]:
    """Return X and y as an array can hold them: a cell that is no number is NaN, another class 2."""
    if more is None:
        return ROWS, np.array([CLASSES.index(label) for label in LABELS])
    values, label = more
    row = [np.nan if isinstance(value, str) else value for value in values]
    with np.errstate(over="ignore"):
        X = np.vstack([ROWS, np.array([row], np.float32)])
    return X, np.array([(*CLASSES, "never").index(each) for each in [*LABELS, label]])


def table(path: Path, more: More, between: str = ",") -> Path:
    rows = [
        *([*row, label] for row, label in zip(ROWS.tolist(), LABELS, strict=True)),
        *([[*more[0], more[1]]] if more else []),
    ]
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=between).writerows([["a", "b", "c", "y"], *rows])
    return path


def parquet(path: Path, more: More) -> Path:
    X, _ = numbers_of(more)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=[*LABELS, *([more[1]] if more else [])])
    frame.to_parquet(path)
    return path


def npz(path: Path, more: More) -> Path:
    X, y = numbers_of(more)
    np.savez(path, X=X, y=y)
    return path


def pictures(path: Path, more: More) -> Path:
    for row, (pixels, label) in enumerate(zip(PIXELS, LABELS, strict=True)):
        (path / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path / label / f"{row:04}.png")
    if more is not None:
        place = path / more[1] / "more.png"
        place.parent.mkdir(exist_ok=True)
        size = (SIDE, SIDE) if more[0][0] != 1e300 else (9, 5)
        Image.new("L", size, 7).save(place)
        if more[0][0] == "x":
            place.write_bytes(place.read_bytes()[:40])
    return path


def declared(path: Path, *lines: str) -> str:
    file = path.with_suffix(".toml")
    file.write_text("\n".join([f'data = "{path.name}"', *lines]))
    return str(file)


AS_TABLE = ('target = "y"', 'classes = ["no", "yes"]', "[bounds]", "a = [-5, 5]", "b = [-5, 5]", "c = [-5, 5]")
AS_PICTURES = ('classes = ["no", "yes"]', f"size = [{SIDE}, {SIDE}]")
FILES: dict[str, Callable[[Path, More], dict]] = {
    "declared CSV": lambda at, more: {"data": declared(table(at / "t.csv", more), *AS_TABLE)},
    "declared TSV": lambda at, more: {"data": declared(table(at / "t.tsv", more, "\t"), *AS_TABLE)},
    "declared Parquet": lambda at, more: {"data": declared(parquet(at / "t.parquet", more), *AS_TABLE)},
    "declared npz": lambda at, more: {"data": declared(npz(at / "t.npz", more), "classes = 2")},
    "declared pictures": lambda at, more: {"data": declared(pictures(at / "t", more), *AS_PICTURES)},
    "npz by options": lambda at, more: {
        "data": str(npz(at / "t.npz", more)), "data.options": {"classes": 2},
    },
    "pictures by options": lambda at, more: {
        "data": str(pictures(at / "t", more)), "data.options": {"classes": CLASSES, "size": [SIDE, SIDE]},
    },
    "function": lambda at, more: {"data": f"{of_function(at, more)}:load"},
}  # fmt: skip


def of_function(at: Path, more: More) -> Path:
    npz(at / "given.npz", more)
    (at / "mine.py").write_text(
        "import numpy as np\nfrom fedlearn.data import from_arrays\n\n\n"
        f"def load(data_dir):\n    found = np.load({str(at / 'given.npz')!r})\n"
        "    return from_arrays(found['X'], found['y'], classes=2)\n"
    )
    return at / "mine.py"


def fields(more: More) -> Dataset:
    X, y = numbers_of(more)
    return Dataset("mine", Examples(X, y), Examples(X[:3], y[:3]), 2, (), (), "1")


def by_node(more: More) -> dict:
    X, y = numbers_of(more)
    return {"west": from_arrays_of(X[:100], y[:100]), "east": from_arrays_of(X[100:], y[100:])}


def from_arrays_of(X: np.ndarray, y: np.ndarray) -> tuple:
    return X, y.astype(np.float32)  # a regression: no class is counted


def frame_of(more: More) -> Dataset:
    X, _ = numbers_of(more)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=[*LABELS, *([more[1]] if more else [])])
    return from_frame(frame, target="y", classes=CLASSES)


OBJECTS: dict[str, Callable[[More], object]] = {
    "arrays": lambda more: from_arrays(*numbers_of(more), classes=2),
    "frame": frame_of,
    "numbers to be learned": lambda more: from_arrays_of(*numbers_of(more)),
    "fields of a data set": fields,
    "by node": by_node,
}


def seen(given: dict) -> tuple[Dataset, list[set[bytes]]]:
    """Return the data set of a run, and the records of test and of each node."""
    keywords = {key: value for key, value in given.items() if "." not in key}
    options = {key: value for key, value in given.items() if "." in key}
    given_by_node = {"clients"} if isinstance(keywords["data"], dict) else set()
    config = config_from(
        flat_settings(keywords, {k: v for k, v in {**SECURE, **options}.items() if k not in given_by_node})
    )
    dataset = dataset_of(config)
    cut = partition_table(dataset, config.data, num_partitions=config.clients, seed=config.seed, by_record=True)
    parts = [dataset.test, *(dataset.train.at(cut.indices(node)) for node in range(config.clients))]
    return dataset, [set(map(record, part.inputs, part.targets)) for part in parts]


def record(inputs: np.ndarray, target: np.ndarray) -> bytes:
    return inputs.tobytes() + target.tobytes()


def public(dataset: Dataset) -> str:
    spec = dataset.spec
    return json.dumps([spec.shape, spec.dtype, spec.classes, spec.vocabulary, spec.class_names, spec.feature_names])


def moved(before: list[set[bytes]], after: list[set[bytes]]) -> int:
    """Return how many records there are in other places, but for one that came; each is counted where it was."""
    return sum(len(one - other) for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("door", FILES)
def test_one_record_more_moves_no_other_one_and_changes_nothing_public(door, tmp_path):
    folders = [tmp_path / name for name in ("without", "ordinary", *WRONG)]
    for folder in folders:
        folder.mkdir()
    without = seen(FILES[door](folders[0], None))
    assert sum(map(len, without[1])) == COUNT
    for folder, more in zip(folders[1:], (ORDINARY, *WRONG.values()), strict=True):
        dataset, parts = seen(FILES[door](folder, more))
        assert moved(without[1], parts) == 0, folder.name
        assert public(dataset) == public(without[0]), folder.name
        assert sum(map(len, parts)) <= COUNT + 1
        assert not dataset.counted


@pytest.mark.parametrize("door", OBJECTS)
def test_one_record_more_moves_no_other_one_of_an_object(door):
    (_, before), (_, after) = (seen({"data": OBJECTS[door](more)}) for more in (None, ORDINARY))
    assert moved(before, after) == 0
    assert sum(map(len, after)) == sum(map(len, before)) + 1


def test_no_name_of_an_object_is_a_hash_of_its_records():
    given = from_arrays(*numbers_of(None), classes=2)
    names = {flat_settings({"data": given}, SECURE)["data.dataset"] for _ in range(2)}
    assert len(names) == 2, "the same records, and no name by which they could be told"
    assert all(given.fingerprint[:12] not in objects.content_of(name).decode("latin-1") for name in names)
    (found, _), (before, _) = seen({"data": given}), seen({"data": given})
    assert np.array_equal(found.train.inputs, before.train.inputs)


def leaf(path: Path) -> Path:
    users = {"ann": {"x": ROWS.tolist(), "y": [row % 2 for row in range(COUNT)]}}
    path.write_text(json.dumps({"users": ["ann"], "user_data": users}))
    return path


SHUT = {
    "CSV": (lambda at: {"data": str(table(at / "t.csv", None)), "data.options": {"target": "y"}}, "declare .*t.csv"),
    "Parquet": (
        lambda at: {"data": str(parquet(at / "t.parquet", None)), "data.options": {"target": "y", "classes": CLASSES}},
        "kinds of its columns",
    ),
    "npz": (lambda at: {"data": str(npz(at / "t.npz", None))}, "classes.*fedlearn declare .*writes .*t.toml"),
    "pictures": (lambda at: {"data": str(pictures(at / "t", None))}, "classes and size of the pictures"),
    "LEAF": (lambda at: {"data": str(leaf(at / "t.json"))}, "users"),
    "arrays": (lambda at: {"data": numbers_of(None)}, r"from_arrays\(X, y, classes=2\)"),
    "tokens": (
        lambda at: {"data": from_arrays(np.arange(800).reshape(200, 4) % 9, np.arange(200) % 2, classes=2)},
        "vocabulary",
    ),
    "frame": (
        lambda at: {"data": (pd.DataFrame(ROWS, columns=list("abc")).assign(y=LABELS), "y")},
        "classes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("door", SHUT)
def test_records_that_nobody_has_declared_are_refused(door, tmp_path):
    given, why = SHUT[door]
    with pytest.raises(SettingError, match=why):
        seen(given(tmp_path))


def test_a_network_whose_settings_leave_the_noise_open_has_secure_noise_and_counts_nothing(tmp_path):
    flat = flat_settings({"data": str(npz(tmp_path / "t.npz", None))}, {**SECURE, "privacy.noise": "auto"})
    with pytest.raises(SettingError, match="which nobody declared"):
        dataset_of(config_from(flat))
    assert prepared(config_from(flat)).privacy.noise == "seeded", "a simulation, which protects nobody"


def test_seeded_noise_protects_nobody_and_may_count(tmp_path):
    flat = flat_settings({"data": str(npz(tmp_path / "t.npz", None))}, {"privacy.noise": "seeded"})
    assert dataset_of(config_from({**SECURE, **flat})).counted == ("classes",)
