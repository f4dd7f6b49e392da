"""Every block of every page of `docs` runs as it stands."""

from __future__ import annotations

import itertools
import re

import pytest

from tests.compose.federation import why_not
from tests.docs.gallery import FIGURES, GALLERY
from tests.docs.pages import PAGES, ROOT, missing, program, run, says

RUNNABLE = [page for page in PAGES if program(page.read_text(encoding="utf-8"))]


def marks_of(page):
    needs = (
        [pytest.mark.network, pytest.mark.skipif(bool(why_not()), reason=why_not())] if says(page, "network") else []
    )
    if name := missing(page):
        needs.append(pytest.mark.skip(reason=f"pip install {name}"))
    return needs + [pytest.mark.long] * says(page, "long")


@pytest.mark.parametrize(
    "page", [pytest.param(page, id=str(page.relative_to(ROOT / "docs")), marks=marks_of(page)) for page in RUNNABLE]
)
def test_every_block_runs(page, tmp_path):
    printed = run(page, tmp_path)
    if page.parent == GALLERY:
        shown = page.read_text(encoding="utf-8").rpartition("```text\n")[2].partition("```")[0]
        assert differs(shown, printed) == ""


def differs(shown: str, printed: str) -> str:
    """Return the first line that a run does not print as its page shows it; empty if there is none.

    Another processor comes to other SHA-256 and to scores that differ by some examples: numbers may differ by 0.05, or
    by 5 % if they are above 1.
    """
    sha256, number = re.compile(r"\b[0-9a-f]{64}\b"), re.compile(r"\d+\.\d+|\b\d+\b")
    for line, now in itertools.zip_longest(shown.splitlines(), printed.splitlines(), fillvalue=""):
        known, found = sha256.sub("...", line), sha256.sub("...", now)
        pairs = zip(number.findall(known), number.findall(found), strict=False)
        is_near = all(float(new) == pytest.approx(float(old), abs=0.05, rel=0.05) for old, new in pairs)
        if number.sub("N", known) != number.sub("N", found) or not is_near:
            return f"{line!r} is now {now!r}"
    return ""


def test_results_that_a_page_no_longer_prints_are_found():
    shown = f"plain: accuracy 0.944, 15.7 times fewer bytes, SHA-256 {'a' * 64}\nscaffold: MSE 1.2644\n"
    assert differs(shown, shown.replace("a" * 64, "b" * 64).replace("0.944", "0.950")) == ""
    for old, new in (("0.944", "0.799"), ("15.7", "17.0"), ("fewer", "more"), ("scaffold: MSE 1.2644\n", "")):
        assert differs(shown, shown.replace(old, new))


def test_a_block_that_fails_is_a_page_that_fails(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nassert 1 + 1 == 2\n```\n\n```bash\necho so far >&2\nexit 3\necho never >&2\n```\n")
    with pytest.raises(AssertionError, match="so far") as failed:
        run(page, tmp_path)
    assert "never\n" not in str(failed.value).partition("Traceback")[0]


def test_a_block_that_nobody_would_run_is_refused():
    with pytest.raises(ValueError, match="a block of kind 'ini'"):
        program("```ini\n[a]\n```\n")


def test_every_page_of_the_gallery_has_its_figure_and_its_results():
    assert {page.stem for page in GALLERY.glob("*.md")} - {"index"} == set(FIGURES)
    for name in FIGURES:
        text = (GALLERY / f"{name}.md").read_text(encoding="utf-8")
        assert f"](figures/{name}.svg)" in text
        assert (GALLERY / "figures" / f"{name}.svg").is_file()
        assert "SHA-256 " in text.rpartition("```text\n")[2]
