"""Makes what the pages of `docs/gallery` and tutorials show anew: their figures, and what the last block prints.

    python -m tests.docs.gallery            # all of them: some minutes
    python -m tests.docs.gallery ditto

Each page is run as a test runs it, in an empty folder. The figure that it makes is copied into the folder ``figures``
beside it. What the last python block of a page of the gallery prints becomes its last ``text`` block.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.docs.pages import ROOT, run

GALLERY = ROOT / "docs" / "gallery"
FIGURES = {  # page -> the file that is its figure, in the folder in which it has run
    "scaffold": "page/figures/mse_by_round.svg",
    "fedper": "page/figures/accuracy_nodes_equal_by_round.svg",
    "ditto": "page/figures/accuracy_nodes_equal_by_round.svg",
    "geometric_median": "page/figures/accuracy_by_round.svg",
    "codec": "page/figures/accuracy_by_bytes.svg",
    "lstm_by_author": "page/figures/perplexity_by_round.svg",
    "partition": "who_has_what.svg",
    "random_slices": "page/figures/accuracy_by_round.svg",
}
TUTORIALS = {
    "cifar10": "page/figures/accuracy_by_round.svg",
    "compression": "runs/sweep/report/figures/pareto.svg",
    "attacks": "page/figures/accuracy_by_round.svg",
    "personalisation": "gains.svg",
    "paper": "runs/compare/report/figures/validation_accuracy_by_round.svg",
}


def remake(name: str) -> None:
    """Run a page, and put its figure and its results into it."""
    page = (GALLERY if name in FIGURES else GALLERY.parent / "tutorials") / f"{name}.md"
    with tempfile.TemporaryDirectory() as folder:
        printed = run(page, Path(folder))
        made = Path(folder) / (FIGURES | TUTORIALS)[name]
        shutil.copyfile(made, page.parent / "figures" / f"{name}.svg")
    if name in TUTORIALS:
        return
    before, _, after = page.read_text(encoding="utf-8").rpartition("```text\n")
    page.write_text(f"{before}```text\n{printed}```{after.partition('```')[2]}", encoding="utf-8")


if __name__ == "__main__":
    for each in sys.argv[1:] or [*FIGURES, *TUTORIALS]:
        remake(each)
