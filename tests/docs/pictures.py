"""Makes the pictures of README.md and of the documentation anew.

    python -m tests.docs.pictures            # all; needs playwright and an installed Chromium
    python -m tests.docs.pictures terminal   # the one of this name

| picture | shows |
|---|---|
| `why.svg` | the numbers that experiments have written into the pages |
| `null_is_not_zero.svg` | the mean of updates from which entries were dropped, with null left out, and as zero |
| `report_page.png` | the report page of the run of README.md's call |
| `notebook.png` | the same run in a notebook |
| `classes.png` | the section of classes on its page |
| `terminal.svg` | the same run in a terminal, between its fourth and fifth round |
| `live_page.png` | its live page at the same time |
| `sweep_page.png` | the page of a sweep over two strategies and three seeds |
"""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from rich.console import Console
from rich.text import Text

import fedlearn
from fedlearn.api.notebook_html import run_as_html
from fedlearn.report.terminal import drawing
from fedlearn.runs.log import RunView
from tests.docs.pages import ROOT, run
from tests.end_to_end.chromium import Visit, headless

STATIC = ROOT / "docs" / "_static"
NULLS = ROOT / "docs" / "tutorials" / "figures" / "null_is_not_zero.svg"
TABLES = ROOT / "docs" / "reference" / "compression_tables.md"
TALL = 940  # pixels of a page: its results and its curves
WIDE = 1280  # pixels of a desk
MARGIN = 14  # pixels around an element
COLORS = 128  # of a photograph: a third of its bytes
COLUMNS = 100  # of the terminal
COMMAND = "fedlearn simulate --dataset digits --clients 10 --rounds 5 --batch-size 10 --lr 0.02"
CALL = 'run = fedlearn.run(clients=10, data="digits", rounds=5, batch_size=10, lr=0.02)\nrun'
CELL = """<style>
body{{margin:0;font:13px system-ui,sans-serif;background:#fff}} pre{{margin:0;font:13px monospace}}
.cell{{display:grid;grid-template-columns:52px 1fr;gap:8px;margin-bottom:10px;color:#307fc1;font-family:monospace}}
.code{{padding:6px 10px;border:1px solid #e0e0e0;background:#f5f5f5;color:#000}} .out{{color:#000;font:13px system-ui}}
table{{border-collapse:collapse}} th,td{{padding:3px 8px}} tr:nth-child(odd){{background:#f5f5f5}}
figure{{margin:8px 0}}
main{{padding:14px 18px;width:860px}}
</style><main><div class="cell">[1]: <pre class="code">{call}</pre></div>
<div class="cell">[1]: <div class="out">{shown}</div></div></main>"""
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


def photograph(page: Path | str, picture: Path, *, height: int = TALL, of: str = "", is_live: bool = False) -> None:
    """Open a page at the width of a desk, and store its top, or only the element of a selector with a margin."""
    with headless() as browser:
        visit = Visit(browser, page.as_uri() if isinstance(page, Path) else page)
        visit.page.set_viewport_size({"width": WIDE, "height": height})
        if is_live:
            visit.waits_for("#link", "connected")
        clip = {"x": 0, "y": 0, "width": WIDE, "height": height}
        if of:
            box = visit.page.locator(of).bounding_box()
            clip = {side: max(box[side] - MARGIN, 0) for side in "xy"}
            clip |= {side: box[side] + 2 * MARGIN for side in ("width", "height")}
        visit.page.screenshot(path=picture, full_page=True, clip=clip)
    Image.open(picture).convert("RGB").quantize(COLORS).save(picture, optimize=True)


def terminal(folder: Path, picture: Path) -> None:
    """Draw a run as its terminal has shown it before its last round."""
    view, time = RunView(), 0.0
    for event in map(json.loads, (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()):
        view.take(event)
        time = event["time"]
        if event["event"] == "round-started" and event["round"] == view.rounds:
            break
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ {COMMAND}"))
    console.print(drawing(view, time))
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title="fedlearn"), flags=re.DOTALL)  # no network
    picture.write_text(drawn, encoding="utf-8")


def notebook(folder: Path, picture: Path) -> None:
    """Photograph a run as a cell of a notebook shows it."""
    page = folder.with_suffix(".html")
    with chdir(folder.parents[1]):  # so that the folder is shown as a reader sees it
        page.write_text(CELL.format(call=CALL, shown=run_as_html(folder)), encoding="utf-8")
    photograph(page, picture, of="main")


def live_page(folder: Path, picture: Path) -> None:
    """Photograph the live page of a run before its last round: of a copy of its folder as it was by then."""
    going = folder.parents[1] / "going" / folder.name
    going.mkdir(parents=True)
    for name in ("settings.toml", "environment.json", "data.json", "dealt.json"):
        shutil.copy(folder / name, going)
    events = (folder / "events.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    last = max(place for place, event in enumerate(events) if '"event": "round-started"' in event)
    (going / "events.jsonl").write_text("".join(events[: last + 1]), encoding="utf-8")
    for name in ("metrics.csv", "nodes.csv"):
        rows = (folder / name).read_text(encoding="utf-8").splitlines(keepends=True)
        end = rows[-1].partition(",")[0]  # the last round
        (going / name).write_text("".join(row for row in rows if row.partition(",")[0] != end), encoding="utf-8")
    command = [sys.executable, "-m", "fedlearn", "dashboard", str(going), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        url = re.search(r"http://\S+", process.stdout.readline())[0]
        photograph(url, picture, is_live=True)
        process.terminate()


def sweep_page(folder: Path, picture: Path) -> None:
    """Photograph the page of a sweep."""
    made = fedlearn.sweep(
        vary={"strategy": ["fedavg", "fedadam"]}, seeds=[1, 2, 3], data="digits", model="linear", clients=5, rounds=8,
        batch_size=10, lr=0.02, partition="dirichlet", out=folder,
    )  # fmt: skip
    photograph(made.page, picture, height=1400)


def main(names: list[str]) -> None:
    """Make the pictures of these names, or all."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        pictures: dict[str, Callable[[Path], object]] = {
            "why.svg": draw,
            "null_is_not_zero.svg": lambda _: draw_nulls(NULLS),
            "sweep_page.png": lambda picture: sweep_page(folder / "sweep", picture),
        }
        of_readme: dict[str, Callable[[Path, Path], object]] = {
            "report_page.png": lambda made, picture: photograph(made / "report" / "index.html", picture),
            "classes.png": lambda made, picture: photograph(
                made / "report" / "index.html", picture, of="#classes [data-of]"
            ),
            "notebook.png": notebook,
            "terminal.svg": terminal,
            "live_page.png": live_page,
        }
        wanted = [name for name in (*pictures, *of_readme) if not names or Path(name).stem in names]
        if not {*wanted}.isdisjoint(of_readme):
            run(ROOT / "README.md", folder, kinds=("python",))
            (made,) = (folder / "runs").iterdir()
        for name in wanted:
            (pictures[name](STATIC / name)) if name in pictures else of_readme[name](made, STATIC / name)


if __name__ == "__main__":
    main(sys.argv[1:])
