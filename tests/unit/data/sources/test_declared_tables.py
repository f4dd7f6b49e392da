"""Tables that are declared by keywords, beside a TOML file that says the same."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fedlearn.core.errors import UsageError
from fedlearn.data import from_any, from_frame, from_table, load_dataset

TOML = """
data = "people.csv"
target = "sick"
classes = ["no", "yes"]
bounds = { age = [0, 100], income = [1, 1000, "log"] }
categories = { job = ["clerk", "7"], retired = ["True", "False"] }
"""
FEATURES = {
    "bounds": {"age": (0, 100), "income": (1, 1000, "log")},
    "categories": {"job": ["clerk", 7], "retired": [True, False]},
}
DECLARED = {**FEATURES, "target": "sick", "classes": ["no", "yes"]}


def people(rows=200):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.integers(0, 120, rows).astype(float), "income": rng.integers(1, 2000, rows)})
    frame["job"] = rng.choice(np.array(["clerk", "7", "pilot", None], object), rows)
    frame["retired"] = rng.random(rows) < 0.5
    frame["sick"] = rng.choice(["no", "yes", "perhaps"], rows)
    frame["fever"], frame["cough"] = rng.random(rows) < 0.5, rng.random(rows) < 0.5
    return frame.mask(pd.DataFrame({**dict.fromkeys(frame, False), "age": frame.age == 7}))


def test_a_declaration_means_the_same_by_file_and_by_keywords(tmp_path, caplog):
    people().to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "people.toml").write_text(TOML)
    of_file = load_dataset(str(tmp_path / "people.toml"), "")
    for found in (from_frame(people(), **DECLARED), from_table(tmp_path / "people.csv", **DECLARED)):
        assert found.schema == of_file.schema and found.spec.classes == 2
        for part in ("train", "test"):
            theirs, ours = getattr(found, part), getattr(of_file, part)
            np.testing.assert_array_equal(theirs.inputs, ours.inputs)
            np.testing.assert_array_equal(theirs.targets, ours.targets)
        assert not found.test_is_public and not found.counted
    assert "job: 50 of 152 values are not declared ('pilot')" in caplog.text  # once, where the frame was given


def test_several_targets_are_numbers_in_ranges_of_their_own_or_labels():
    bounds = {"age": FEATURES["bounds"]["age"]}
    ranges = {"income": (0, 2000), "fever": (0, 1)}
    numbers = from_frame(people(), people(9), targets=["income", "fever"], bounds=bounds, target_bounds=ranges)
    assert numbers.spec.target_names == ("income", "fever") and numbers.schema.ranges == ranges
    np.testing.assert_array_equal(numbers.test.targets, people(9)[["income", "fever"]].astype(float))
    labels = from_frame(people(), people(9), targets=["fever", "cough"], bounds=bounds, classes=["False", "True"])
    assert labels.spec.target_shape == (2,) and labels.spec.classes == 2
    np.testing.assert_array_equal(labels.test.targets, people(9)[["fever", "cough"]])


def test_names_of_several_columns_go_with_a_frame_and_a_file(tmp_path):
    frame = people()[["income", "fever", "cough"]].assign(half=0.5)
    labels = from_any((frame, ["cough", "fever"]))
    assert labels.spec.target_names == ("cough", "fever") and labels.spec.feature_names == ("income", "half")
    numbers = from_any((frame, ["income", "half"]))
    assert numbers.spec.classes == 0 and numbers.test.targets.dtype == np.float32
    frame.to_csv(tmp_path / "people.csv", index=False)
    for options in ({"targets": ["income", "half"]}, {"target": ["income", "half"]}):
        again = from_table(tmp_path / "people.csv", **options)
        assert again.spec.target_names == ("income", "half")
        np.testing.assert_array_equal(again.train.targets, numbers.train.targets)
    assert from_any((frame[:3], ["no", "yes", "no"])).spec.class_names == ("no", "yes")  # a list of classes


def test_rows_have_groups_by_name_or_by_the_node_that_holds_them(tmp_path, caplog):
    frame = people().assign(site=[10, 9] * 100)
    frame["site"] = frame.site.where(frame.index != frame.index[frame.sick == "no"][0])  # one has none
    found = from_frame(frame, **DECLARED, groups="site")
    assert found.group_names == ("9", "10") and "1 of 200 rows are left out, as they have no site" in caplog.text
    frame.to_csv(tmp_path / "people.csv", index=False)
    for other in (from_table(tmp_path / "people.csv", **DECLARED, groups="site"), apart(frame)):
        assert set(other.group_names) == set(found.group_names)
        for part in ("train", "test"):
            assert rows_of(other, part) == rows_of(found, part)
    assert from_frame(people(), people(40), **DECLARED, groups="job").group_names == ("7", "clerk", "pilot")


def apart(frame):
    sites = {"10": frame[frame.site == 10], "9": frame[frame.site == 9]}
    return from_any({site: from_frame(rows, **DECLARED) for site, rows in sites.items()})


def rows_of(found, part):
    examples = getattr(found, part)
    names = [found.group_names[group] for group in examples.groups]
    return sorted(zip(names, map(str, examples.inputs.tolist()), examples.targets.tolist(), strict=True))


def test_tables_of_nodes_are_declared_alike():
    table = from_frame(people(), **DECLARED)
    other = from_frame(people(), **{**DECLARED, "bounds": {"age": (0, 99)}, "categories": {}})
    for nodes, why in (
        ({"a": table, "b": other}, "client 'b' has another .* than client 'a': declare all clients alike"),
        ({"a": table, "b": (np.zeros((4, 2)), [0, 1, 0, 1])}, "client 'a' is a data set, and client 'b' is none"),
    ):
        with pytest.raises(UsageError, match=why):
            from_any(nodes)
    with pytest.raises(UsageError, match="these are frames of several clients: give fedlearn"):
        from_frame({"a": people(), "b": people()}, **DECLARED)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"classes": None}, "frame: declare either target_bounds"),
        ({"target": "", "targets": ["sick", "job"]}, "frame: job is declared twice"),
        ({"targets": ["fever"]}, "say once which column is learned"),
        ({"groups": "age"}, "groups = 'age': this column is declared as numbers"),
        ({"groups": "site"}, "frame has no column 'site'"),
        ({"bounds": {"age": (9, 1)}}, "age = .9.0, 1.0.: the lower bound comes first"),
        ({"bounds": {"height": (0, 1)}}, "frame has no column 'height'"),
        ({"bounds": None, "categories": None, "target_bounds": (0, 1)}, "target_bounds: declare the columns"),
        ({"targets": ["income", "age"], "target": "", "classes": None, "bounds": {"fever": (0, 1)},
          "target_bounds": {"age": (0, 1)}}, "NAME = .low, high. of each of several"),
        ({"bounds": None, "categories": None, "target": "", "targets": ["income", "job"], "inputs": "age"},
         "numbers and words"),
    ],
)  # fmt: skip
def test_a_wrong_declaration_is_one_line(change, said):
    with pytest.raises(UsageError, match=said):
        from_frame(people().dropna(), **{**DECLARED, **change})
