"""Measure every defence against every attack: the worst case, the price without attack, and whom a defence leaves out.

    FEDLEARN_DATA=... python -m experiments.sweeps.byzantine --out runs/byzantine
    FEDLEARN_DATA=... python -m experiments.sweeps.byzantine --out runs/byzantine --seeds 1 \
        --only data.alpha=0.5 --only attackers=0.2                     # a fifth lies: nine attacks, nine defences

``configs/byzantine.toml`` has the settings. The attackers of a seed are the same nodes under every attack. A run
without an attack shows what a defence costs that stands so many attackers: its *price* is what it loses beside the
plain mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from experiments.sweeps.command import Results, experiment
from fedlearn.core.metric import ACCURACY
from fedlearn.report.charts.plots import drawn
from fedlearn.report.stored import StoredRun
from fedlearn.report.tables import Table
from fedlearn.runs.file_names import EVENTS
from fedlearn.runs.files import write_atomically
from fedlearn.runs.label_counts import read_dealt
from fedlearn.runs.log import EventTail
from fedlearn.sweeps.results import PlannedPoint, points_of

PLAIN, HONEST, BACKDOOR = "mean, no gate", "none", "backdoor"
SUCCESS = "backdoor_success"
Grid = Mapping[tuple[str, str], PlannedPoint]  # (defence, attack) -> its runs


def draw(results: Results, folder: Path) -> None:
    """Draw a heat map, and write a table, for each skew and share of attackers."""
    cells: dict[tuple[str, str], dict[tuple[str, str], PlannedPoint]] = {}
    for point in points_of(results):
        labels = point.labels
        cell = cells.setdefault((labels["data.alpha"], labels["attackers"]), {})
        cell[labels["defence"], labels["attack"]] = point
    for (alpha, share), grid in cells.items():
        name = f"alpha-{alpha}-attackers-{share}"
        caption = f"Accuracy after the last round; Dirichlet {alpha}, {float(share):.0%} of the nodes lie"
        _heat_map(grid, folder, name, caption)
        table = table_of(grid, name, caption)
        table.show()
        write_atomically(folder / f"{name}.md", table.as_markdown().encode())
        write_atomically(folder / f"{name}.tex", table.as_latex(caption).encode())


def table_of(grid: Grid, name: str, caption: str) -> Table:
    """Return a row for each defence: without attack, its price, each attack, the worst, and whom it leaves out."""
    attacks = [attack for attack in _labels(grid, 1) if attack != HONEST]
    heads = ["defence", HONEST, "price", *attacks, "worst", "by", "backdoor success", "honest left out", "most often"]
    return Table.of_texts(name, caption, heads, [_row(grid, each, attacks) for each in _labels(grid, 0)], words=1)


def _labels(grid: Grid, place: int) -> list[str]:
    """Return the labels of an axis in the plan's order, as the other axis's label with most of them has it."""
    most = Counter(labels[1 - place] for labels in grid).most_common(1)[0][0]
    first = [labels[place] for labels in grid if labels[1 - place] == most]
    return list(dict.fromkeys([*first, *(labels[place] for labels in grid)]))


def _row(grid: Grid, defence: str, attacks: Sequence[str]) -> list[str]:
    accuracy = {attack: _mean(grid, defence, attack) for attack in (HONEST, *attacks)}
    known = {attack: value for attack, value in accuracy.items() if value is not None and attack != HONEST}
    worst = min(known, key=lambda attack: known[attack]) if known else ""
    plain, price = _mean(grid, PLAIN, HONEST), accuracy[HONEST]
    runs = [run for (each, _), point in grid.items() if each == defence for run in point.runs]
    return [
        defence,
        _text(price),
        "-" if price is None or plain is None else f"{plain - price:+.3f}",
        *(_text(accuracy[attack]) for attack in attacks),
        _text(known.get(worst)),
        worst or "-",
        _text(_mean(grid, defence, BACKDOOR, SUCCESS)),
        *_left_out(runs),
    ]


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _mean(grid: Grid, defence: str, attack: str, name: str = ACCURACY.name) -> float | None:
    point = grid.get((defence, attack))
    return None if point is None or name not in point.runs[0].summary else point.over_seeds(name).mean


def _left_out(runs: Sequence[StoredRun]) -> tuple[str, str]:
    """Return which share of the honest reports was left out, and the node of one seed that was left out most often."""
    counts: Counter[tuple[int, int]] = Counter()  # (seed, partition) -> rounds without it
    rounds: Counter[int] = Counter()  # seed -> rounds of all its runs
    honest = 0
    for run in runs:
        seed, lying = int(run.summary["seed"]), set(run.summary.get("attackers", ()))
        rounds[seed] += int(run.summary["rounds"])
        honest += int(run.summary["rounds"]) * (int(run.settings["clients"]) - len(lying))
        counts.update((seed, node) for node in left_out(run) if node not in lying)
    if not counts:
        return "0.000", "-"
    (seed, node), most = counts.most_common(1)[0]
    share = f"{sum(counts.values()) / honest:.3f}"
    return share, f"{node}: {most / rounds[seed]:.2f} of rounds{_skew_of(runs, seed, node)}"


def left_out(run: StoredRun) -> Iterable[int]:
    """Yield the partition of each report of a committed round that the gate refused, or the defence left out."""
    seen: dict[tuple[int, int], list[int]] = {}
    for event in EventTail(run.folder / EVENTS).read():
        at = (event.get("round", 0), event.get("attempt", 0))
        if event["event"] == "refused":
            seen.setdefault(at, []).append(event["partition"])
        elif event["event"] == "left-out":
            seen.setdefault(at, []).extend(event["partitions"])
        elif event["event"] == "committed":
            yield from seen.get(at, ())


def _skew_of(runs: Sequence[StoredRun], seed: int, node: int) -> str:
    """Return how far the labels of a node are from those of all, as a rank among the nodes; empty where unknown."""
    run = next(run for run in runs if run.summary["seed"] == seed)
    dealt = read_dealt(run.folder)
    if dealt is None:
        return ""
    counts = np.array(dealt.counts, np.float64)  # (labels, nodes)
    away = np.abs(counts / counts.sum(axis=0) - (counts.sum(axis=1) / counts.sum())[:, np.newaxis]).sum(axis=0)
    return f", skew rank {int((away > away[node]).sum()) + 1} of {len(away)}"


def _heat_map(grid: Grid, folder: Path, name: str, caption: str) -> None:
    """Draw accuracy, a row for each defence and a column for each attack, with the numbers in the cells."""
    defences, attacks = _labels(grid, 0), _labels(grid, 1)
    values = np.array([[_mean(grid, row, column) for column in attacks] for row in defences], np.float64)
    size = (1.2 + 0.85 * len(attacks), 1.6 + 0.45 * len(defences))
    with drawn(folder, name, size=size) as (panel,):
        image = panel.imshow(values, cmap="viridis", vmin=0, vmax=np.nanmax(values), aspect="auto")
        for (row, column), value in np.ndenumerate(values):
            if not np.isnan(value):
                color = "black" if value > 0.6 * np.nanmax(values) else "white"
                panel.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=8, color=color)
        panel.set_xticks(range(len(attacks)), attacks, rotation=35, ha="right")
        panel.set_yticks(range(len(defences)), defences)
        panel.grid(visible=False)
        panel.set_title(caption, fontsize=9)
        panel.figure.colorbar(image, ax=panel, label="test accuracy")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep, and draw it."""
    experiment("byzantine", __doc__, draw, arguments)


if __name__ == "__main__":
    main()
