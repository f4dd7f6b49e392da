"""Tables: what a schema declares, how files are read, which rows are for testing."""

from __future__ import annotations

import gzip
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedlearn.config.tables.data import DataSettings
from fedlearn.core.errors import DataNotFound, UsageError
from fedlearn.data import california as california_module
from fedlearn.data import encoded_tables as module
from fedlearn.data import load_dataset, partition_table, reading
from fedlearn.data.california import SCHEMA as CALIFORNIA
from fedlearn.data.data_spec import Examples, TableSchema
from fedlearn.data.sources.table_files import Dialect

SCHEMA = """
data = "people.csv"
target = "income"
classes = ["low", "high"]
[bounds]
age = [0, 120]
wealth = [1, 1e6, "log"]
[categories]
job = ["clerk", "farmer"]
code = ["1", "2"]
"""
ROWS = """id,job,age,income,wealth,code
7,clerk,31,low,10.5,1
8,pilot,,high,20,2
9,farmer,44,,30,1
10,?,NA,low,1e3,3
11,farmer,50,high,7,2
"""


@pytest.fixture
def people(tmp_path):
    def write(schema=SCHEMA, rows=ROWS):
        (tmp_path / "people.csv").write_text(rows)
        (tmp_path / "people.toml").write_text(schema)
        return str(tmp_path / "people.toml")

    return write


def records(examples):
    """Return how often each record is there."""
    rows = np.column_stack([np.nan_to_num(examples.inputs, nan=-1.0), examples.targets])
    return Counter(map(tuple, rows.tolist()))


def everything(found):
    features = np.vstack([found.train.inputs, found.test.inputs])
    targets = np.concatenate([found.train.targets, found.test.targets])
    order = np.argsort(features[:, 1])
    return features[order], targets[order]


def test_a_csv_file_becomes_codes_and_numbers_with_nan_for_what_is_missing(people):
    found = load_dataset(people(), "")
    features, targets = everything(found)
    nan = np.nan
    assert found.schema.features == ("age", "wealth", "job", "code")
    np.testing.assert_array_equal(features, [[50, 7, 1, 1], [31, 10.5, 0, 0], [nan, 20, nan, 1], [nan, 1000, nan, nan]])
    assert targets.tolist() == [1, 0, 1, 0]  # the row without a target is not there
    assert targets.dtype == np.int64


def test_a_parquet_file_and_a_regression(people, tmp_path):
    table = pa.table({"x": pa.array([1, 2, None, 4]), "y": [0.5, 1.5, 2.5, float("nan")], "job": ["a", None, "b", "a"]})
    pq.write_table(table, tmp_path / "t.parquet")
    schema = (
        'data = "t.parquet"\ntarget = "y"\ntarget_bounds = [0, 3]\nbounds = {x = [0, 5]}\ncategories = {job = ["a"]}'
    )
    path = people(schema)
    features, targets = everything(load_dataset(path, ""))
    assert len(targets) == 3
    assert targets.dtype == np.float64
    assert sorted(features[:, 0].tolist(), key=str) == [1.0, 2.0, pytest.approx(np.nan, nan_ok=True)]


def test_the_file_is_looked_for_in_the_data_folder_too(people, tmp_path):
    people()
    assert load_dataset("people.toml", str(tmp_path)).name == str(tmp_path / "people.toml")


def test_a_changed_file_is_read_again(people):
    first = load_dataset(people(), "")
    again = load_dataset(people(rows=ROWS.replace("31", "39.25")), "")
    assert first.fingerprint != again.fingerprint


def test_the_test_rows_are_some_fifth_and_the_same_in_every_process_and_for_every_seed():
    found = load_dataset("diabetes", "")
    assert (len(found.train), len(found.test)) == (355, 87)
    assert found.fingerprint == load_dataset("diabetes", "").fingerprint
    both = np.vstack([found.train.inputs, found.test.inputs])
    assert len(np.unique(both, axis=0)) == 442


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("classes = [", "clases = ["), "clases = ['low', 'high']: there is no such key; did you mean classes?"),
        (('target = "income"', ""), "declare either target"),
        (('classes = ["low", "high"]', ""), "either target_bounds"),
        (('classes = ["low", "high"]', 'classes = ["low"]'), "either target_bounds"),
        (('classes = ["low", "high"]', 'classes = ["low", "high"]\ntarget_bounds = [0, 1]'), "either target_bounds"),
        (("age = [0, 120]", "age = [120, 0]"), "age = [120.0, 0.0]: the lower bound comes first"),
        (("[1, 1e6", "[0, 1e6"), 'with "log" it is above 0'),
        (("age = [0, 120]", "age = [0, inf]"), "bounds.age"),
        (('"log"', '"cubic"'), "bounds.wealth"),
        (('job = ["clerk", "farmer"]', "job = []"), "categories.job"),
        (('job = ["clerk", "farmer"]', 'age = ["clerk", "farmer"]'), "age is declared twice"),
        (("age = [0, 120]", "height = [0, 120]"), "has no column 'height'; it has id, job, age"),
        (("[bounds]\nage", "[bounds]\njob = [0, 1]\nage"), "job is declared twice"),
        (('code = ["1", "2"]', ""), None),
        (("[bounds]", "[bounds"), "not valid TOML"),
        (('data = "people.csv"', 'data = "people.csv"\ntest = "public.csv"'), "there is no file"),
        (('data = "people.csv"', 'data = "others.csv"'), "there is no file"),
    ],
)
def test_what_is_wrong_with_a_schema_is_said_in_one_line(people, change, said):
    path = people(SCHEMA.replace(*change))
    if said is None:
        load_dataset(path, "")
        return
    with pytest.raises(UsageError) as error:
        load_dataset(path, "")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def lines(found):
    return [line.split(": ", 1)[1] for line in found.owner_notices]


def test_text_in_a_numeric_column_is_missing_and_said_to_the_owner(people):
    found = load_dataset(people(rows=ROWS.replace("31", "old")), "")
    assert "age: 1 of 3 cells are no numbers ('old'): they count as missing" in lines(found)
    assert np.isnan(everything(found)[0][:, 0]).sum() == 3


def test_categories_that_are_not_declared_are_counted_with_the_most_frequent(people):
    found = load_dataset(people(rows=ROWS.replace("clerk", "Clerk").replace("farmer", "Farmer")), "")
    assert "job: none of 4 values is declared ('Farmer', 'Clerk', 'pilot'): they count as missing" in lines(found)
    assert "code: 1 of 5 values are not declared ('3'): they count as missing" in lines(found)


def test_a_class_that_is_not_declared_leaves_its_row_out(people):
    whole, less = load_dataset(people(), ""), load_dataset(people(rows=ROWS.replace("31,low", "31,middling")), "")
    assert len(everything(less)[1]) == len(everything(whole)[1]) - 1
    assert "income: 1 of 4 values are not declared ('middling'): their rows are left out" in lines(less)
    assert any(line.startswith("2 of 5 rows are left out") and "the first is row 1" in line for line in lines(less))


def test_numbers_outside_their_bounds_are_said(people):
    found = load_dataset(people(SCHEMA.replace("[0, 120]", "[60, 120]").replace("[1, 1e6", "[8, 1e6")), "")
    assert "age: none of 3 numbers lies within [60, 120] ('31', '44', '50'): they count as its ends" in lines(found)
    assert "wealth: 1 of 5 numbers lie outside [8, 1e+06] ('7'): they count as its ends" in lines(found)


def test_a_table_as_it_is_declared_says_nothing_and_a_published_one_never_does(people):
    rows = "job,age,income,wealth,code\n" + "".join(f"clerk,{age},low,{age + 1},1\n" for age in range(100))
    assert load_dataset(people(rows=rows), "").owner_notices == ()
    assert load_dataset("diabetes", "").owner_notices == ()


def test_of_many_lines_the_first_are_said(people):
    names = [f"c{number}" for number in range(30)]
    schema = 'data = "people.csv"\ntarget = "y"\nclasses = ["a", "b"]\n[bounds]\n'
    rows = ",".join([*names, "y"]) + "\n" + ",".join(["odd"] * 30 + ["a"]) + "\n"
    said = lines(load_dataset(people(schema + "".join(f"{name} = [0, 1]\n" for name in names), rows), ""))
    assert (len(said), said[-1]) == (module.LINES + 1, "and 21 more such lines")


def test_blanks_around_names_and_cells_do_not_count(people):
    plain = load_dataset(people(), "")
    blanks = "\n".join(",".join(f" {cell} " for cell in line.split(",")) for line in ROWS.splitlines())
    found = load_dataset(people(rows="\ufeff" + blanks.replace("\n", "\r\n")), "")
    for one, other in zip(everything(plain), everything(found), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_a_code_that_went_through_a_float_column_is_the_declared_one(tmp_path, end):
    codes = pa.table({"code": [0.0, 1.0, None, 2.0], "y": ["a", "b", "a", "b"]})
    pq.write_table(codes, tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("code,y\n0.0,a\n1.0,b\n,a\n2.0,b\n")
    (tmp_path / "t.toml").write_text(
        f'data = "t.{end}"\ntarget = "y"\nclasses = ["a", "b"]\ncategories = {{code = ["0", "1", "2"]}}'
    )
    found = load_dataset(str(tmp_path / "t.toml"), "")
    assert sorted(np.concatenate([found.train.inputs, found.test.inputs])[:, 0].tolist(), key=str)[:3] == [0, 1, 2]
    assert [line for line in lines(found) if "declared" in line] == []


def test_a_category_that_reads_like_missing_is_one_where_it_is_declared(people):
    schema = 'data = "people.csv"\ntarget = "y"\nclasses = ["a", "b"]\ncategories = {pool = ["NA", "big"]}'
    found = load_dataset(people(schema, "pool,y\nNA,a\n NA,b\n?,a\nbig,b\n"), "")
    both = np.concatenate([found.train.inputs, found.test.inputs])[:, 0]
    assert sorted(both.tolist(), key=str) == [0, 0, 1, pytest.approx(np.nan, nan_ok=True)]


ODD_LINES = [
    '12,clerk,31,low,10,"never closed',
    '"12"x,clerk,31,low,10,1',
    "12,clerk,31,low",
    "12,clerk,31,low,10,1,more",
    '12,"clerk,31,low,10,1',
    "12,\udcff\udcfe,HIV+,low,1e999,\udcff",
    "12,clerk," + "9" * 3_000_000 + ",low,0x1p3,1",
    "12,,,,,",
    ",,,secret,,",
    "12,clerk,nan,low,-inf,1",
]


@pytest.mark.parametrize("line", ODD_LINES)
def test_no_line_keeps_another_from_being_read(people, tmp_path, line):
    """With the odd line in the middle all others are what they are without it, and in the same part."""
    people()
    header, *rows = ROWS.splitlines()
    found = []
    for some in (rows, [*rows[:2], line, *rows[2:]]):
        text = "\n".join([header, *some, ""]).encode(errors="surrogateescape")
        (tmp_path / "people.csv").write_bytes(text)
        found.append(load_dataset(str(tmp_path / "people.toml"), ""))
    for part in ("train", "test"):
        without, odd = (records(getattr(each, part)) for each in found)
        assert not without - odd and (odd - without).total() <= 1


@pytest.mark.parametrize(
    "dialect",
    [Dialect(), Dialect(";", ",", "cp1252"), Dialect("tab", encoding="shift_jis"), Dialect(";", encoding="utf-7")],
)
def test_no_line_of_any_bytes_keeps_another_from_being_read(tmp_path, dialect):
    schema = TableSchema("y", {"b": (0, 9)}, {"a": ("u", "v")}, None, ("no", "yes"))
    file, rng = tmp_path / "t.csv", np.random.default_rng(1)
    between = dialect.between(file).encode()
    whole = [between.join([b"uv"[i % 2 :][:1], b"%d" % (i % 9), b"no" if i % 3 else b"yes"]) for i in range(40)]

    def read(lines):
        file.write_bytes(b"\n".join([between.join([b"a", b"b", b"y"]), *lines, b""]))
        return records(module.encoded(module.read_columns(file, schema, dialect), schema)[0])

    plain, letters = read(whole), np.frombuffer(b"\",';\\uvno5 \t\x00\xff\xc3.-+A\x81", np.uint8)
    assert plain.total() == 40
    for _ in range(200):
        at, line = int(rng.integers(41)), rng.choice(letters, rng.integers(14)).tobytes()
        odd = read([*whole[:at], line, *whole[at:]])
        assert not plain - odd and (odd - plain).total() <= 1, line


def test_a_line_that_is_decoded_to_two_lines_is_one_row(tmp_path):
    schema = TableSchema("y", {"b": (0, 9)}, classes=("no", "yes"))
    (tmp_path / "t.csv").write_bytes(b"b,y\n1,no\n2+AAo-3,yes\n3,yes+AA0-\n4,no\n")
    rows, _ = module.encoded(module.read_columns(tmp_path / "t.csv", schema, Dialect(encoding="utf-7")), schema)
    assert records(rows).keys() >= records(Examples(np.array([[1.0], [4.0]]), np.array([0, 0]))).keys()
    assert len(rows) == 4


@pytest.mark.parametrize("name", ["people.CSV", "people.csv.gz"])
def test_a_declared_table_may_be_written_in_another_dialect(people, tmp_path, name):
    plain = load_dataset(people(), "")
    other = SCHEMA.replace('"people.csv"', f'"{name}"\ndelimiter = ";"\ndecimal = ","\nencoding = "cp1252"')
    (tmp_path / "other.toml").write_text(other.replace("farmer", "bäuerin"), encoding="utf-8")
    text = ROWS.replace(",", ";").replace(".", ",").replace("farmer", "bäuerin").encode("cp1252")
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    found = load_dataset(str(tmp_path / "other.toml"), "")
    assert records(found.train) + records(found.test) == records(plain.train) + records(plain.test)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('delimiter = ";;"', "people.toml: delimiter = ';;': give one character"),
        ('decimal = ","', "delimiter and decimal are both ','"),
        ('encoding = "klingon"', "people.toml: encoding = 'klingon': Python knows none"),
        (
            'encoding = "utf-16"',
            "people.csv: encoding = 'utf-16': a declared table is read line by line: save it as UTF-8",
        ),
    ],
)
def test_a_dialect_that_no_declared_table_has_is_one_line(people, line, said):
    with pytest.raises(UsageError) as error:
        load_dataset(people(SCHEMA.replace('"people.csv"', f'"people.csv"\n{line}')), "")
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("cell", ["1.", "1.e2", "-.5", "+7", "00012", "1e400", "1e-400", "1e99999999999", "9" * 400])
def test_a_cell_is_the_number_that_python_reads_or_missing(tmp_path, cell):
    (tmp_path / "t.csv").write_text(f"x,y\n{cell},0\n")
    rows, _ = module.encoded(module.read_columns(tmp_path / "t.csv", LINE), LINE)
    expected = float(cell) if np.isfinite(float(cell)) else np.nan
    np.testing.assert_array_equal(rows.inputs, [[expected]])


LINE = TableSchema("y", {"x": (0, 9)}, target_bounds=(0, 1))


def test_a_table_of_few_different_rows_says_that_its_shares_are_odd(people):
    found = load_dataset(people(rows="job,age,income,wealth,code\n" + "clerk,30,low,5,1\n" * 400), "")
    assert sorted([len(found.train), len(found.test)]) == [0, 400]
    assert any("of 400 rows are for testing, as equal rows draw one part" in line for line in lines(found))


@pytest.mark.parametrize(
    "rows", ["job,age,income,wealth,code\n", "job,age,income,wealth,code", ROWS.split("\n")[0] + "\n1,,,,,\n"]
)
def test_a_table_may_have_no_row(people, rows):
    found = load_dataset(people(rows=rows), "")
    assert (len(found.train), len(found.test)) == (0, 0) and "no row is left" in lines(found)
    assert found.train.inputs.shape == (0, 4)


def test_a_column_that_is_there_twice_is_refused(people):
    with pytest.raises(UsageError, match=r"people\.csv has 2 columns 'age': leave one"):
        load_dataset(people(rows=ROWS.replace("id,", "age,", 1)), "")


def test_of_a_wide_table_some_names_are_shown(people):
    rows = ",".join(f"c{number}" for number in range(100_000)) + "\n"
    with pytest.raises(UsageError, match=r"no column 'age'; it has c0, .*, c19, \.\.\.$"):
        load_dataset(people(rows=rows), "")


def test_with_public_test_rows_all_rows_are_trained_on(people, tmp_path):
    path = people(SCHEMA.replace('"people.csv"', '"people.csv"\ntest = "public.csv"'))
    (tmp_path / "public.csv").write_text("job,age,income,wealth,code\nclerk,20,low,5,1\npilot,30,high,6,2\n")
    found = load_dataset(path, "")
    assert (len(found.train), len(found.test), found.test_is_public) == (4, 2, True)
    assert "test rows: job: 1 of 2 values are not declared ('pilot'): they count as missing" in lines(found)
    people()
    assert not load_dataset(path, "").test_is_public


def test_a_schema_that_is_not_there_is_said(tmp_path):
    with pytest.raises(DataNotFound, match=r"gone\.toml"):
        load_dataset(str(tmp_path / "gone.toml"), "")


# --- data sets of the table -------------------------------------------------------------------------------------------


def made_california(rng, number=50):
    columns = {name: rng.uniform(*bound[:2], number) for name, bound in CALIFORNIA.bounds.items()}
    return columns | {CALIFORNIA.target: rng.uniform(*CALIFORNIA.target_bounds, number)}


def test_california_is_taken_from_the_data_folder(tmp_path):
    columns = made_california(np.random.default_rng(1))
    pq.write_table(pa.table(columns), tmp_path / california_module.FILE)
    found = load_dataset("california", str(tmp_path))
    assert found.schema is CALIFORNIA
    assert (len(found.train), len(found.test)) == (43, 7)
    assert load_dataset("auto-regression", str(tmp_path)).notice == ""


def test_downloaded_california_holds_the_same_totals(monkeypatch, cache):
    cache.mkdir()
    rng = np.random.default_rng(2)
    raw = {name: np.floor(column) for name, column in made_california(rng).items()}
    per = raw["households"]
    order = ["median_income", "housing_median_age", "total_rooms", "total_bedrooms", "population", "households"]
    data = np.column_stack([*(raw[name] for name in order), raw["latitude"], raw["longitude"]])
    data[:, 2] /= per
    data[:, 3] /= per
    data[:, 5] = raw["population"] / per

    class Fetched:
        pass

    fetched = Fetched()
    fetched.data, fetched.target = data, raw["median_house_value"] / 100_000
    monkeypatch.setattr("sklearn.datasets.fetch_california_housing", lambda **_: fetched)
    columns = california_module._download("nowhere")
    assert columns.keys() == raw.keys()
    for name, column in raw.items():
        np.testing.assert_allclose(columns[name], column, err_msg=name)


def test_without_network_auto_takes_the_diabetes_patients_and_says_so(tmp_path):
    found = load_dataset("auto-regression", str(tmp_path))
    assert found.name == "diabetes"
    for part in ("INSTEAD OF CALIFORNIA", "not found", str(tmp_path), "download", "FEDLEARN_DATA"):
        assert part in found.notice
    assert "\n" not in found.notice


def test_adult_that_is_not_there_says_how_to_get_it(tmp_path):
    with pytest.raises(DataNotFound, match=r"adult\.parquet is not in .*--data-dir"):
        load_dataset("adult", str(tmp_path))


@pytest.mark.parametrize("name", ["california", "diabetes", "adult"])
def test_bounds_are_declared_for_every_feature(name):
    module = __import__(f"fedlearn.data.{name}", fromlist=["SCHEMA"])
    assert all(bound[0] < bound[1] for bound in module.SCHEMA.bounds.values())
    assert bool(module.SCHEMA.classes) != bool(module.SCHEMA.target_bounds)
    assert all(len(set(words)) == len(words) > 1 for words in module.SCHEMA.categories.values())


# --- partitions -------------------------------------------------------------------------------------------------------


def test_labels_of_a_regression_are_tenths_of_the_targets():
    targets = np.random.default_rng(1).normal(size=1000)
    labels = Examples(np.zeros((1000, 1)), targets).labels
    assert np.bincount(labels).tolist() == [100] * 10
    assert all(targets[labels == k].max() < targets[labels == k + 1].min() for k in range(9))


def test_labels_of_a_constant_target_are_one_class():
    assert set(Examples(np.zeros((9, 1)), np.full(9, 3.0)).labels) == {0}


@pytest.mark.parametrize("scheme", ["dirichlet", "pathological", "shard"])
def test_skewed_partitions_skew_the_target_of_a_regression(scheme):
    found = load_dataset("diabetes", "")

    def spread(partition):
        settings = DataSettings(partition=partition, alpha=0.1)
        table = partition_table(found, settings, num_partitions=10, seed=1)
        means = [found.train.targets[table.indices(i)].mean() for i in range(10) if len(table.indices(i))]
        return np.std(means)

    assert spread(scheme) > 1.5 * spread("iid")


@pytest.mark.parametrize(
    ("features", "targets"),
    [
        (np.zeros((3, 2), bool), np.zeros(3)),
        (np.zeros(3), np.zeros(3)),
        (np.zeros((3, 2)), np.zeros(2)),
        (np.zeros((3, 2)), np.zeros(3, np.int32)),
    ],
)
def test_examples_of_the_wrong_kind_are_refused(features, targets):
    with pytest.raises(ValueError, match="must be"):
        Examples(features, targets)


def test_a_declared_table_that_unpacks_to_far_more_than_it_takes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "UNPACKED", 1000)
    pq.write_table(pa.table({"x": np.zeros(50_000), "y": np.zeros(50_000)}), tmp_path / "flat.parquet")
    declared = 'data = "flat.parquet"\ntarget = "y"\ntarget_bounds = [0, 1]\nbounds = {x = [0, 1]}\n'
    (tmp_path / "flat.toml").write_text(declared)
    with pytest.raises(UsageError, match=r"flat\.parquet: it would take .* of memory"):
        load_dataset(str(tmp_path / "flat.toml"), "")
