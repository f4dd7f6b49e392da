"""The site of `make docs` has no warning and no broken link, loads no file from elsewhere, searches without network."""

from __future__ import annotations

import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.pages import ROOT
from tests.docs.test_api import LISTED
from tests.end_to_end.chromium import WIDTHS, Visit, headless

LONG = pytest.mark.long
SHOWN = (
    *("index.html", "gallery/scaffold.html", "explanations/compared.html", "reference/generated/settings.html"),
    *("reference/api/strategies.html", "reference/api/fedlearn.run.html"),
)


class Html(HTMLParser):
    """A page's anchors, its links, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag in ("script", "img", "link", "iframe", "source"):
            self.loaded += [given[name] for name in ("src", "href") if given.get(name)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for name in ("sphinx", "furo", "myst_parser", "sphinx_copybutton"):
        pytest.importorskip(name, reason="pip install 'fedlearn[docs]'")
    out = tmp_path_factory.mktemp("site")
    made = [
        sys.executable,
        "-m",
        "sphinx",
        "--quiet",
        "--fail-on-warning",
        "--keep-going",
        str(ROOT / "docs"),
        str(out),
    ]
    done = subprocess.run(made, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def pages(site):
    return {path: Html(path) for path in sorted(site.rglob("*.html"))}


@pytest.fixture(scope="module")
def browser():
    with headless() as browser:
        yield browser


@LONG
def test_every_link_within_the_site_leads_somewhere(site, pages):
    nowhere = set()
    for path, page in pages.items():
        for link in page.links + page.loaded:
            url = urlsplit(link)
            if url.scheme:
                continue
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            if not target.is_file() or (target in pages and url.fragment and url.fragment not in pages[target].anchors):
                nowhere.add((str(path.relative_to(site)), link))
    assert nowhere == set()


@LONG
def test_nothing_is_loaded_from_elsewhere(pages):
    assert {
        link for page in pages.values() for link in page.loaded if urlsplit(link).scheme not in ("", "data")
    } == set()


@LONG
def test_another_project_can_link_to_each_name_of_the_reference(site):
    """Its ``intersphinx`` reads these lines: name, ``py:`` and kind, priority, address."""
    lines = zlib.decompress((site / "objects.inv").read_bytes().split(b"\n", 4)[4]).decode().splitlines()
    found = {line.split()[0] for line in lines if " py:" in line}
    assert {*LISTED, "fedlearn.runs", "fedlearn.Run.report", "fedlearn.Run.predict"} - found == set()


@LONG
def test_types_and_sources_are_linked(pages, site):
    links = pages[site / "reference/api/fedlearn.extend.FedAvg.html"].links
    assert "fedlearn.extend.Turn.html#fedlearn.extend.Turn" in links
    assert "../../_modules/strategies/fedavg.html#FedAvg" in links


@LONG
@pytest.mark.parametrize(("name", "width", "scheme"), [*product(SHOWN, WIDTHS, ("light", "dark"))])
def test_a_page_fits_its_window_and_says_nothing(site, browser, name, width, scheme):
    visit = Visit(browser, (site / name).as_uri(), width=width, scheme=scheme)
    visit.assert_calm()


@LONG
def test_search_finds_a_page_without_network(site, browser):
    visit = Visit(browser, f"{(site / 'search.html').as_uri()}?q=scaffold")
    visit.waits_for("#search-results", "SCAFFOLD: control variates")
    assert all(url.startswith("file://") for url in visit.asked)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_files_that_a_page_of_the_repository_links_to_exist(page):
    links = re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text(encoding="utf-8"))
    here = {link for link in links if not urlsplit(link).scheme}
    assert len(here) > 5
    assert {link for link in here if not (ROOT / link).exists()} == set()
