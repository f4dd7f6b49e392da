"""The table, figures and page of a grid, of runs that were written by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from experiments.algorithms import table
from experiments.algorithms.figures import draw
from experiments.algorithms.grids import ALGORITHM, Grid
from experiments.algorithms.page import Made, section_of, write_into
from experiments.algorithms.rows import table_of
from fedlearn.core.errors import UsageError
from fedlearn.report.stored import read_run
from fedlearn.sweeps.results import PlannedPoint
from tests.unit.report.conftest import make_run, rows_of

__all__ = ("make_run",)

CELL = "Dirichlet 0.5"
SHA = "0123456789abcdef" * 4


@pytest.fixture
def grid():
    return Grid.from_file(table.GRIDS / "niid.toml")


@pytest.fixture
def point(make_run):
    def point(name: str, slot: int, scores: Sequence[float], *, baseline: str = "") -> PlannedPoint:
        runs = []
        for seed, score in enumerate(scores, 1):
            folder = make_run(f"{name}-{seed}", rows=rows_of([0.3, score + 0.1, score]))
            about = {"status": "completed", "reason": "", "model_sha256": SHA, "seed": seed, "cpu_seconds": 90.0}
            about |= {"baseline": baseline} if baseline else {}
            (folder / "summary.json").write_text(json.dumps(about))
            runs.append(read_run(folder.name, folder))
        return PlannedPoint(name, slot, tuple(runs), {ALGORITHM: name})

    return point


@pytest.fixture
def points(point):
    return [point("fedavg", 0, [0.5, 0.6]), point("scaffold", 1, [0.6, 0.62]), point("fednova", 2, [0.4])]


def test_a_row_has_interval_difference_rank_print_cost_and_hash(grid, points):
    made = table_of(grid, CELL, points, {})
    rows = {row[0]: dict(zip([column.name for column in made.columns], row, strict=True)) for row in made.rows}
    assert list(rows) == ["scaffold", "fedavg", "fednova"]
    fedavg, scaffold, fednova = rows["fedavg"], rows["scaffold"], rows["fednova"]
    assert fedavg["accuracy"] == pytest.approx((0.55, 0.0707), abs=1e-4) and fedavg["minus fedavg"] is None
    assert scaffold["minus fedavg"] == "+0.060 [-0.448, +0.568]" and fednova["minus fedavg"] == "-0.100"
    assert fedavg["95 % interval"] == "[-0.085, 1.185]" and fednova["95 % interval"] is None
    assert (scaffold["rank"], fedavg["rank"], fednova["rank"]) == (1, 2, 3)
    assert fedavg["best round"].mean == pytest.approx(0.65)
    assert [fedavg[name].mean for name in ("NIID-Bench", "Flower", "FedBench")] == [0.682, 0.6247, 0.6561]
    assert scaffold["rounds to 0.6"] == "2.0" and fednova["rounds to 0.6"] == "-" and scaffold["MB to 0.6"] == "0.0"
    assert SHA in made.as_csv() and SHA not in made.as_markdown() and f"{SHA[:12]}, {SHA[:12]}" in made.as_markdown()
    assert "90 |" in made.as_markdown()


@pytest.mark.long
def test_figures_are_drawn_and_the_same_drawing_has_the_same_bytes(grid, points, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        assert draw(grid, {CELL: points, "noise": points[:1]}, tmp_path / name) == ["scores", "by_round", "ranks"]
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == sorted(f"{name}.{end}" for name in ("scores", "by_round", "ranks") for end in ("png", "svg"))
    assert all((tmp_path / "a" / each).read_bytes() == (tmp_path / "b" / each).read_bytes() for each in files)
    drawn = (tmp_path / "a" / "scores.svg").read_text()
    for words in ("NIID-Bench", "FedBench", "mean, 95 % interval", "fednova", "Dirichlet 0.5"):
        assert words in drawn


def test_a_page_has_what_ran_why_print_differs_and_the_commands_of_the_rest(grid, points):
    section = section_of("niid", grid, [Made(CELL, points, table_of(grid, CELL, points, {}), None)], ["scores"])
    assert "5 runs that ended on " in section and "A run took 1.5 minutes" in section
    assert "### Dirichlet 0.5" in section and "### noise" not in section
    assert "- *FedBench*: " in section and "JPEG" in section
    command = "python -m experiments.algorithms.table niid --only cell="
    assert f'{command}"noise"\n' in section and f'{command}"two classes"\n' in section
    only = " --only algorithm=".join(["", "fedprox", "fednova", "feddyn"])
    assert f'{command}"Dirichlet 0.5" --only seed=2{only}\n' in section
    assert f'{command}"Dirichlet 0.5" --only seed=3\n' in section


def test_a_section_takes_the_place_of_the_one_that_stood_there(grid, points, tmp_path):
    page, made = tmp_path / "page.md", [Made(CELL, points, table_of(grid, CELL, points, {}), None)]
    page.write_text("# Tables\n\nBy hand.\n")
    (tmp_path / "scores.svg").write_text("<svg/>")
    for name in ("niid", "other", "niid"):
        write_into(page, name, grid, made, ["scores"], tmp_path)
    once = page.read_text()
    write_into(page, "niid", grid, made, ["scores"], tmp_path)
    assert page.read_text() == once and once.count(f"## {grid.title}") == 2 and "By hand." in once
    assert "](figures/niid-scores.svg)" in once and (tmp_path / "figures" / "niid-scores.svg").exists()
    with pytest.raises(UsageError, match="name a page that is there"):
        write_into(tmp_path / "none.md", "niid", grid, made, [], tmp_path)
