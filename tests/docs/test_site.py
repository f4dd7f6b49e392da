"""The site of `make docs` has no warning and no broken link, loads no file from elsewhere, searches without network."""

from __future__ import annotations

import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import pytest

from tests.docs.pages import ROOT
from tests.docs.test_api import LISTED
from tests.end_to_end.chromium import WIDTHS, Visit, headless

LONG = pytest.mark.long
LOOKED_FOR = {
    "install gpu": "howto/install", "offline": "howto/offline", "own data": "howto/own_data",
    "own model": "howto/own_model", "custom loss": "howto/own_training", "own algorithm": "howto/own_algorithm",
    "differential privacy": "howto/private_nodes", "dp-sgd": "howto/private_records",
    "secure aggregation": "howto/secure_sums", "compression": "howto/send_less", "non-iid": "howto/partitions",
    "poisoning attack": "howto/attacks", "personalization": "howto/what_is_sent", "sweep": "howto/sweep",
    "early stopping": "howto/early_stop", "resume": "howto/resume", "dashboard": "howto/follow_a_run",
    "export onnx": "howto/predict", "reproducibility": "howto/reproduce", "docker": "howto/deployment",
    "troubleshooting": "howto/troubleshooting", "faq": "howto/faq", "versions": "reference/changes",
    "settings": "reference/generated/settings", "command line": "reference/generated/commands",
}  # fmt: skip
HREFS = "links => links.map(link => link.href)"
SHOWN = (
    *("index.html", "gallery/scaffold.html", "explanations/compared.html", "reference/generated/settings.html"),
    *("reference/api/strategies.html", "reference/api/fedlearn.run.html"),
)


class Html(HTMLParser):
    """Collects a page's anchors, all its links, the links of its body, and the files that it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.body: list[str] = []
        self.within = 0  # elements named article that are open
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        self.within += tag == "article"
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
            self.body += [given["href"]] * bool(self.within)
        elif tag in ("script", "img", "link", "iframe", "source"):
            self.loaded += [given[name] for name in ("src", "href") if given.get(name)]

    def handle_endtag(self, tag):
        self.within -= tag == "article"


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


@pytest.fixture(scope="module")
def clicks(site, pages):
    """Return how many links of page bodies lead from the first page to each page."""
    first = site / "index.html"
    found, todo = {first: 0}, [first]
    for path in todo:
        for link in pages[path].body:
            target = (path.parent / unquote(urlsplit(link).path)).resolve()
            if target in pages and target not in found:
                found[target] = found[path] + 1
                todo.append(target)
    return {str(path.relative_to(site)): count for path, count in found.items()}


@LONG
@pytest.mark.parametrize("words", LOOKED_FOR)
def test_a_thing_looked_for_is_two_clicks_away_and_among_the_first_three_found(site, browser, clicks, words):
    page = f"{LOOKED_FOR[words]}.html"
    visit = Visit(browser, f"{(site / 'search.html').as_uri()}?q={quote(words)}")
    visit.waits_for("#search-results h2", "Search Results")
    shown = [urlsplit(url).path for url in visit.page.eval_on_selector_all("ul.search > li > a", HREFS)]
    rank = next((place for place, path in enumerate(shown, 1) if path.endswith(f"/{page}")), None)
    print(f"{words}: {clicks.get(page)} clicks, rank {rank}")
    assert clicks.get(page, 9) <= 2 and rank is not None and rank <= 3, shown[:5]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_files_that_a_page_of_the_repository_links_to_exist(page):
    links = re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text(encoding="utf-8"))
    here = {link for link in links if not urlsplit(link).scheme}
    assert len(here) > 5
    assert {link for link in here if not (ROOT / link).exists()} == set()
