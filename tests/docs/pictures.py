"""Makes the pictures of README.md and of the site's index anew.

    python -m tests.docs.pictures    # needs playwright and an installed Chromium

``why.svg`` draws the numbers that experiments have written into the pages; ``report_page.png`` is the report page of
the run of README.md's call, as Chromium shows it; ``null_is_not_zero.svg`` averages updates from which entries were
dropped. Figures that a page makes itself are those of `tests.docs.gallery`.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from tests.docs.pages import ROOT, run
from tests.end_to_end.chromium import Visit, headless

STATIC = ROOT / "docs" / "_static"
NULLS = ROOT / "docs" / "tutorials" / "figures" / "null_is_not_zero.svg"
TABLES = ROOT / "docs" / "reference" / "compression_tables.md"
TALL = 860  # pixels of a page: its results and its curves
LOOP = 1.0  # the time of a hand-written loop, to which the others are relative


def accuracies() -> list[tuple[str, float, float, float]]:
    """Return name, times fewer bytes both ways, accuracy and its deviation of each row of `both_ways`."""
    part = TABLES.read_text(encoding="utf-8").partition("<!-- begin of both_ways")[2]
    row = r"^\| ([^|]+) \| \d+ \| ([\d.]+) ± ([\d.]+) \|[^|]*\|[^|]*\|[^|]*\| ([\d.]+) \|"
    return [(name, float(x), float(y), float(sd)) for name, y, sd, x in re.findall(row, part, re.MULTILINE)]


def times() -> dict[str, float]:
    """Return the time of a round of 100 clients of 500 images by framework, relative to the loop."""
    text = (ROOT / "docs" / "explanations" / "compared.md").read_text(encoding="utf-8")
    head, values = (
        re.search(start, text, re.MULTILINE)[1]
        for start in (r"^\| rounds of (.*) \|$", r"^\| 500 images each (.*) \|$")
    )
    named = dict(zip(head.split(" | ")[1:], map(float, values.lstrip("| ").split(" | ")), strict=True))
    return {"loop by hand": LOOP} | {name: value for name, value in named.items() if name != "stacked"}


def draw(path: Path) -> None:
    """Draw accuracy against bytes, and the time of a round beside others."""
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, fewer, accuracy, deviation in accuracies():
        left.errorbar(fewer, accuracy, deviation, fmt="o", capsize=3)
        left.annotate(
            name, (fewer, accuracy), (0, -14), textcoords="offset points", ha="left" if fewer == 1 else "right"
        )
    left.set(xscale="log", xlabel="times fewer bytes, uplink and downlink", ylabel="accuracy, CIFAR-10")
    left.set_xticks([1, 10, 33, 67], ["1", "10", "33", "67"])
    bars = right.barh(
        list(times()), list(times().values()), color=["#2a78d6" if "fedlearn" in name else "#999" for name in times()]
    )
    right.bar_label(bars, fmt="%.2f", padding=3)
    right.invert_yaxis()
    right.set(xlabel="time of a round of 100 clients / a loop by hand")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})


def draw_nulls(path: Path) -> None:
    """Draw what three clients send of eight parameters, and their mean with null left out and with null as zero."""
    before = np.array([4.0, 6.0, 3.0, 8.0, 5.0, 7.0, 2.0, 9.0])
    trained = before + np.random.default_rng(1).normal(0, 0.7, (3, 8)).round(1)
    sent = np.array([[1, 1, 0, 0, 1, 0, 1, 0], [0, 1, 1, 0, 1, 0, 0, 1], [1, 0, 0, 1, 1, 0, 1, 0]], dtype=bool)
    updates = np.ma.masked_array(trained, ~sent)
    rows = np.ma.vstack([before, updates, updates.mean(0).filled(before), updates.filled(0).mean(0)])
    titles = ["the model before", *(f"client {each} sends" for each in (1, 2, 3)), "mean of those sent", "null as zero"]
    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots()
    axes.imshow(rows, cmap="Blues", vmin=0, vmax=16, aspect="auto")
    for (row, column), value in np.ma.ndenumerate(rows, compressed=False):
        axes.text(column, row, "null" if value is np.ma.masked else f"{value:.1f}", ha="center", va="center")
    axes.set_yticks(range(6), titles)
    axes.set_xticks([])
    axes.hlines([0.5, 3.5], -0.5, 7.5, color="black", linewidth=1)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    figure.savefig(path, metadata={"Date": None})


def photograph(page: Path, picture: Path) -> None:
    """Open a report page at the width of a desk, and store what stands at its top."""
    with headless() as browser:
        visit = Visit(browser, page.as_uri())
        visit.page.set_viewport_size({"width": 1280, "height": TALL})
        visit.page.screenshot(path=picture)


if __name__ == "__main__":
    draw(STATIC / "why.svg")
    draw_nulls(NULLS)
    with tempfile.TemporaryDirectory() as folder:
        run(ROOT / "README.md", Path(folder), kinds=("python",))
        (made,) = Path(folder).glob("runs/*/report/index.html")
        photograph(made, STATIC / "report_page.png")
