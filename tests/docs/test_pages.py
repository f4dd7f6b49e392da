"""Every block of every page of `docs` runs as it stands."""

from __future__ import annotations

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
    run(page, tmp_path)


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
