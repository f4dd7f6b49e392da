"""The API reference is that of today's docstrings."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.docs.api import API, FOLDER, markdown, page

LEFT_OUT = {"DATASETS", "PartitionTable", "partition_table", "MalformedTree", "NotPrivateWarning"}


def test_no_page_is_left_over():
    assert {file.stem for file in FOLDER.iterdir()} == set(API)


@pytest.mark.parametrize("package", ["fedlearn", "fedlearn.data", "fedlearn.privacy", "fedlearn.private_trees"])
def test_each_public_name_of_a_package_stands_on_a_page(package):
    listed = {name.partition(":")[2] for page in API.values() for name in page.names}
    assert set(import_module(package).__all__) - listed <= LEFT_OUT


@pytest.mark.parametrize("name", API)
def test_a_page_is_made_of_the_docstrings_of_today(name):
    assert (FOLDER / f"{name}.md").read_text(encoding="utf-8") == page(name), "run python -m tests.docs.api"


@pytest.mark.parametrize("name", API)
def test_all_that_stands_on_a_page_says_what_it_is(name):
    for entry in page(name).split("\n## ")[1:]:
        said = entry.partition("\n```\n")[2].strip()
        assert said and not said.startswith(("#", "**")), entry.partition("\n")[0]


def test_literals_lists_sessions_and_references_become_markdown():
    doc = """Return ``x`` | y.

    Parameters
    ----------
    x : int, default=1
        The value [1]_,
        in two lines.

    References
    ----------
    .. [1] A paper.

    Examples
    --------
    >>> f(1)  # doctest: +SKIP
    2
    """
    assert list(markdown(doc.replace("\n    ", "\n"))) == [
        *("Return `x` \\| y.", "", "**Parameters**", "", "- `x` (int, default=1): The value [1], in two lines.", ""),
        *("**References**", "", "- [1] A paper.", "", "**Examples**", "", "```text", ">>> f(1)", "2", "```"),
    ]
