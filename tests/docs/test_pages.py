"""Every block of every page of `docs` runs as it stands."""

from __future__ import annotations

import pytest

from tests.docs.pages import PAGES, ROOT, is_long, program, run

RUNNABLE = [page for page in PAGES if program(page.read_text())]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=str(page.relative_to(ROOT / "docs")), marks=[pytest.mark.long] if is_long(page) else [])
        for page in RUNNABLE
    ],
)
def test_every_block_runs(page, tmp_path):
    run(page, tmp_path)


def test_a_block_that_fails_is_a_page_that_fails(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nassert 1 + 1 == 2\n```\n\n```bash\necho so far >&2\nexit 3\necho never >&2\n```\n")
    with pytest.raises(AssertionError, match="so far") as failed:
        run(page, tmp_path)
    assert "never\n" not in str(failed.value).partition("Traceback")[0]


def test_a_block_with_a_caption_is_a_file(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```{code-block} python\n:caption: lab/net.py\n\nSIZE = 3\n```\n\n```python\nfrom lab.net import SIZE\n```"
    )
    run(page, tmp_path)
    assert (tmp_path / "lab" / "net.py").read_text() == "SIZE = 3\n"


def test_a_block_that_nobody_would_run_is_refused():
    with pytest.raises(ValueError, match="a block of kind 'ini'"):
        program("```ini\n[a]\n```\n")
