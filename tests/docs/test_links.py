"""Every page is where its index says, and every link of a page leads to a file of the repository."""

from __future__ import annotations

import pkgutil
import re
from collections import Counter
from urllib.parse import urlsplit

import pytest

from fedlearn.cli import app
from fedlearn.plugins.moved import name_today
from tests.docs.pages import PAGES, ROOT

HOWTO = ROOT / "docs" / "howto"
GENERATED = ROOT / "docs" / "reference" / "generated"
INDEX = (HOWTO / "index.md").read_text(encoding="utf-8")
JOBS = (ROOT / "docs" / "reference" / "jobs.md").read_text(encoding="utf-8")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def without_blocks(text):
    """Return a page without its fenced blocks and its code, in which brackets are no links."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^(`{3,}).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL))


def anchors_of(page):
    """Return the anchors of a page's headings, as forges and Sphinx make them."""
    text = re.sub(r"^(`{3,}).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^#+ +(.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_each_how_to_stands_in_one_group_of_the_index():
    groups = INDEX.split("\n## ")[1:]
    listed = Counter(name for group in groups for name in re.findall(r"^- \[.*?\]\((\w+)\.md\)", group, re.MULTILINE))
    assert set(listed.values()) == {1}
    assert set(listed) == {page.stem for page in HOWTO.glob("*.md")} - {"index"}
    assert [group.partition("\n")[0] for group in groups] == [
        *("Begin", "Data", "Model and training", "Algorithms"),
        *("Experiments", "Devices", "Real networks", "Privacy"),
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_each_link_of_a_page_leads_to_a_file_and_a_heading(page):
    nowhere = set()
    for link in LINK.findall(without_blocks(page.read_text(encoding="utf-8"))):
        url = urlsplit(link)
        target = (page.parent / url.path).resolve() if url.path else page
        if url.scheme or target.parent == GENERATED:  # made by `make docs`: tests/docs/test_site.py follows these
            continue
        if not target.exists() or (url.fragment and url.fragment not in anchors_of(target)):
            nowhere.add(link)
    assert nowhere == set()


def test_each_picture_is_shown_with_a_text_and_small():
    texts = [page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *PAGES)]
    shown = {name: alt for text in texts for alt, name in re.findall(r"!\[(.*?)\]\(\S*_static/([\w.]+)\)", text)}
    sizes = {path.name: path.stat().st_size for path in (ROOT / "docs" / "_static").iterdir() if path.suffix != ".css"}
    assert shown.keys() == sizes.keys()
    assert min(map(len, shown.values())) > 20 and max(sizes.values()) < 150_000


def test_names_that_plugins_are_sent_to_exist_and_old_ones_do_not():
    rows = re.findall(r"^\| (.*) \| (.*) \|$", (ROOT / "docs/reference/plugins.md").read_text("utf-8"), re.MULTILINE)
    old, new = (
        re.findall(r"`((?:fedlearn|client|server|strategies)\.[\w.]+)`", " ".join(cells))
        for cells in zip(*rows, strict=True)
    )
    assert {name for name in new if not exists(name)} == set()
    assert {name for name in old if exists(name)} == set()


def exists(name):
    """Return whether a dotted name is that of a module, or of what stands in one."""
    if name_today(name):  # it has moved: the finder of former names would find it
        return False
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_no_word_stands_in_both_glossaries():
    users = (ROOT / "docs/reference/glossary.md").read_text(encoding="utf-8")
    glossary = (ROOT / "fedlearn/README.md").read_text(encoding="utf-8").partition("## Glossary\n")[2]
    of_code, found, _ = glossary.partition("Names that several modules use")
    words = [set(re.findall(r"^\| ([^|]+?) \|", table, re.MULTILINE)) for table in (users, of_code)]
    assert found and words[0] & words[1] == {"word"}


def test_each_job_has_a_page_a_test_or_a_command_that_exists():
    rows = re.findall(r"^\| (?!I want|---)(.*) \| (.*) \|$", JOBS, re.MULTILINE)
    commands = {info.name or info.callback.__name__ for info in app.registered_commands}
    assert len(rows) > 70
    assert set(re.findall(r"`fedlearn ([a-z]+)", JOBS)) <= commands
    for job, see in rows:
        files = re.findall(r"`((?:tests/|[A-Z]+\.)[\w./]+)`", see)
        assert LINK.search(see) or files or "`fedlearn " in see, job
        assert all((ROOT / file).exists() for file in files), see


def test_the_comparison_leaves_no_cell_empty_and_marks_what_was_run():
    text = (ROOT / "docs/explanations/compared.md").read_text(encoding="utf-8")
    rows = [row.split(" | ") for row in re.findall(r"^\| (?!\|)(.*) \|$", text, re.MULTILINE)]
    assert all(cell.strip() for row in rows for cell in row)
    assert text.count("*(run)*") > 4
