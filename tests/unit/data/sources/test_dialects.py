"""CSV files as other programs write them: their dialects, compressed, and one line for each mistake."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile

import numpy as np
import pytest

from fedlearn.core.errors import DataNotFound, UsageError
from fedlearn.data import from_table, load_dataset

PLAIN = "rooms,age,town,price\n" + "".join(f"{i % 7},{i}.5,{'Köln' if i % 2 else 'Bonn'},{i}.25\n" for i in range(20))
GERMAN = PLAIN.replace(",", ";").replace(".", ",")
DIALECT = {"delimiter": ";", "decimal": ","}
COLUMNS = {"target": "price", "inputs": ["rooms", "age"]}


def zipped(names):
    def pack(content: bytes, path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in names:
                archive.writestr(name, content)

    return pack


def packed_by(module):
    return lambda content, path: path.write_bytes(module.compress(content))


PACKED = {
    "a.csv": lambda content, path: path.write_bytes(content),
    "a.CSV": lambda content, path: path.write_bytes(content),
    "a.csv.gz": packed_by(gzip),
    "A.CSV.GZ": packed_by(gzip),
    "a.csv.bz2": packed_by(bz2),
    "a.csv.xz": packed_by(lzma),
    "a.zip": zipped(["inner/houses.CSV", "__MACOSX/._houses.csv"]),
    "a.csv.zip": zipped(["a.csv"]),
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "plain.csv"
    path.write_text(PLAIN)
    return path


def refused(path, content=GERMAN, **options) -> str:
    """Return the one line by which a file is refused."""
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError) as error:
        from_table(path, **{**COLUMNS, **options})
    assert "\n" not in str(error.value)
    return str(error.value)


def same(one, other) -> bool:
    return all(np.array_equal(getattr(one.train, part), getattr(other.train, part)) for part in ("inputs", "targets"))


@pytest.mark.parametrize("name", PACKED)
def test_a_compressed_file_of_another_dialect_holds_the_same_rows(tmp_path, plain, name):
    PACKED[name](GERMAN.encode(), tmp_path / name)
    assert same(from_table(tmp_path / name, **COLUMNS, **DIALECT), from_table(plain, **COLUMNS))


def test_a_path_has_the_options_of_its_dialect(tmp_path, plain):
    PACKED["a.csv.gz"](GERMAN.encode(), tmp_path / "a.csv.gz")
    options = '{"target": "price", "inputs": ["rooms", "age"], "delimiter": ";", "decimal": ","}'
    assert same(load_dataset(str(tmp_path / "a.csv.gz"), "", options=options), from_table(plain, **COLUMNS))


@pytest.mark.parametrize(("delimiter", "name"), [("", "a.tsv"), ("tab", "a.csv"), ("\\t", "a.csv"), ("\t", "a.csv")])
def test_cells_may_be_parted_by_tabs(tmp_path, plain, delimiter, name):
    (tmp_path / name).write_text(PLAIN.replace(",", "\t"))
    assert same(from_table(tmp_path / name, **COLUMNS, delimiter=delimiter), from_table(plain, **COLUMNS))


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8-sig", "UTF8"])
def test_texts_are_read_in_their_encoding(tmp_path, encoding):
    (tmp_path / "a.csv").write_bytes(PLAIN.encode(encoding))
    found = from_table(tmp_path / "a.csv", target="town", encoding=encoding)
    assert (found.class_names, found.feature_names) == (("Bonn", "Köln"), ("rooms", "age", "price"))


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    (tmp_path / "a.csv").write_bytes(PLAIN.encode("utf-8-sig"))
    assert from_table(tmp_path / "a.csv", target="price", inputs="rooms").feature_names == ("rooms",)


def test_quoted_cells_may_hold_line_breaks_and_errors_name_the_line_of_an_editor(tmp_path):
    rows = 'a,note,y\n1,"two\nlines",0\n2,"a ""b"", c",1\n\n{},"x",0\n' + "1,x,1\n" * 5
    (tmp_path / "a.csv").write_text(rows.format(3))
    assert len(from_table(tmp_path / "a.csv", target="y", without="note").train) == 6
    assert "a.csv, line 6, column 'a': 'many' is no number" in refused(
        tmp_path / "a.csv", rows.format("many"), target="y", inputs="a"
    )


def test_a_line_break_where_a_block_of_reading_ends_is_one_of_its_cell(tmp_path, monkeypatch):
    monkeypatch.setattr("fedlearn.data.sources.table_files.BLOCK", 1000)
    lines = ["line\n" * (i % 5) for i in range(1000)]
    rows = "".join(f'{i},"{note}",{i % 2}\n' for i, note in enumerate(lines))
    (tmp_path / "a.csv").write_text(f"a,note,y\n{rows}")
    found = from_table(tmp_path / "a.csv", target="y", without="note")
    assert np.array_equal(np.sort(np.concatenate([found.train.inputs, found.test.inputs]).ravel()), np.arange(1000))


def test_columns_that_are_not_wanted_are_not_read(tmp_path):
    (tmp_path / "a.csv").write_bytes(PLAIN.encode("latin-1"))  # town is no UTF-8
    assert from_table(tmp_path / "a.csv", **COLUMNS).feature_names == ("rooms", "age")
    assert from_table(tmp_path / "a.csv", target="price", without="town").feature_names == ("rooms", "age")
    assert "column 'town': it is not utf-8: say how it is written" in refused(
        tmp_path / "a.csv", None, target="price", inputs=None
    )


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        (GERMAN, {}, "a.csv cannot be read; its header has ';' between names: say data.options.delimiter=';'"),
        ("a;b\n1;2\n", {}, "has no column 'price'; it has 'a;b'; its header has ';' between names"),
        (PLAIN.replace(",", "\t"), {}, "its header has tab between names: say data.options.delimiter=tab"),
        (
            GERMAN,
            {"delimiter": ";"},
            "a.csv, line 2, column 'age': '0,5' has a decimal comma: say data.options",
        ),
        (GERMAN, {"delimiter": ";", "inputs": "rooms"}, "column 'price': '0,25' has a decimal comma"),
        (PLAIN, {"decimal": ","}, "delimiter and decimal are both ','"),
        (PLAIN, {"delimiter": ";;"}, "delimiter = ';;': give one character, as ';' or 'tab'"),
        (PLAIN, {"delimiter": "é"}, "delimiter = 'é': give one character"),
        (PLAIN, {"decimal": ";"}, "decimal = ';': give '.' or ','"),
        (PLAIN, {"encoding": "klingon"}, "encoding = 'klingon': Python knows none of this name"),
        (PLAIN, {"encoding": "zip"}, "encoding = 'zip': Python knows none of this name"),
        (PLAIN, {"without": ["age"]}, "inputs and without are both given"),
        (PLAIN, {"inputs": None, "without": "size"}, "a.csv: without = 'size': it is none of its columns"),
        (PLAIN, {"inputs": None, "without": "price"}, "without = 'price': it is learned or says the groups"),
        (PLAIN.replace("age", "größe").encode("latin-1"), {"inputs": None}, "a.csv: it is not utf-8: say how"),
        (PLAIN.encode("utf-16"), {}, "a.csv: it is not utf-8: say how it is written"),
    ],
)
def test_a_wrong_dialect_is_one_line_that_says_the_option(tmp_path, content, options, said):
    assert said in refused(tmp_path / "a.csv", content, **options)


@pytest.mark.parametrize(
    ("name", "pack", "said"),
    [
        ("a.zip", zipped(["a.csv", "b.csv"]), "it must hold one table (.csv, .tsv, .txt), and holds a.csv, b.csv"),
        ("a.zip", zipped(["a.exe"]), "and holds a.exe: unpack it"),
        ("a.zip", zipped([]), "and holds nothing"),
        ("a.csv.gz", lambda content, path: path.write_bytes(gzip.compress(content)[:50]), "a.csv.gz cannot be read"),
        (
            "a.csv.gz",
            lambda content, path: path.write_bytes(b"no"),
            "a.csv.gz cannot be read: it is damaged, or not what its name says (BadGzipFile)",
        ),
        (
            "a.zip",
            lambda content, path: path.write_bytes(b"no"),
            "a.zip cannot be read: it is damaged, or not what its name says (BadZipFile)",
        ),
        ("a.gz", packed_by(gzip), "a table is a file that ends in .csv"),
    ],
)
def test_a_wrong_archive_is_one_line(tmp_path, name, pack, said):
    pack(PLAIN.encode(), tmp_path / name)
    assert said in refused(tmp_path / name, None)


@pytest.mark.parametrize("name", ["a.csv.gz", "a.csv.bz2", "a.csv.xz", "a.zip"])
def test_a_compressed_file_that_unpacks_without_end_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.setattr("fedlearn.data.reading.UNPACKED", 1 << 16)
    monkeypatch.setattr("fedlearn.data.reading.TIMES", 2)
    PACKED[name](PLAIN.encode() + b"0" * (1 << 22), tmp_path / name)
    assert "a file may unpack to" in refused(tmp_path / name, None)


@pytest.mark.usefixtures("at_once")
def test_a_link_of_a_compressed_file_to_nothing_is_one_line(tmp_path):
    (tmp_path / "a.csv.gz").symlink_to("gone")
    with pytest.raises(DataNotFound):
        from_table(tmp_path / "a.csv.gz", **COLUMNS)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (PLAIN + '1,"' + "x" * (1 << 20), "a.csv cannot be read"),
        (PLAIN + '1,"' + "line\n" * (1 << 18), "a.csv cannot be read"),
        (PLAIN.replace("0.5", '"' + "x" * (1 << 18) + '"'), "column 'age': 'xxx"),
        (PLAIN.replace("0.5", "\0"), "column 'age'"),
        ("\n" * 1000, "a.csv"),
        ("rooms,price", "a.csv"),
        (PLAIN + "1,2,3,4,5\n", "it has 5 cells, the header has 4: mend the line"),
    ],
)
def test_whatever_a_file_holds_is_one_line(tmp_path, content, said):
    assert said in refused(tmp_path / "a.csv", content)
