"""Accuracy against uploaded bytes for one codec after another, with the Pareto front.

    FEDLEARN_DATA=... python -m experiments.sweeps.frontier --quick

CIFAR-10, `cnn-large`, 100 nodes of 500 images. Two claims of Konecny et al. 2016 (arXiv:1610.05492) can be read off
the table: random masks (``drop``) cost nothing in rounds, and rotation with 1/16 of the entries kept at 2 bits is 256
times smaller at little cost. ``configs/frontier.toml`` has the settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.sweeps import figures, tables
from experiments.sweeps.results import MB, Group, by_point, mean_and_sd, over_seeds
from experiments.sweeps.sweep import Results, experiment

PLAIN = "identity"  # the label of the runs that the others are compared with
NEARLY = 0.95  # share of the plain run's last accuracy that is to be reached


def draw(results: Results, folder: Path) -> None:
    """Draw the frontier; write the table, smallest upload first."""
    groups = sorted(by_point(results), key=_megabytes)
    places = [(_megabytes(group), over_seeds(group, "accuracy")[0]) for group in groups]
    front = figures.pareto_front(places)
    _frontier(groups, places, front, folder)
    rows = tables.table_of(groups, **_columns(groups, front))
    tables.write_table(rows, folder, "table", caption="Accuracy after the last round, by codec")


def _frontier(
    groups: Sequence[Group], places: Sequence[tuple[float, float]], front: Sequence[int], folder: Path
) -> None:
    """Draw each codec as a number, which the key beside the figure explains."""
    with figures.drawn(folder, "frontier", size=(9.0, 5.2)) as (panel,):
        steps = list(zip(*(places[place] for place in front), strict=True))
        panel.step(*steps, where="post", color=figures.COLOURS[1], linewidth=1.2, alpha=0.6, zorder=1)
        for place, (group, (megabytes, accuracy)) in enumerate(zip(groups, places, strict=True)):
            best = place in front
            look = {"color": figures.COLOURS[1 if best else 0], "marker": "o" if best else "s", "linestyle": "none"}
            label = f"{place + 1}  {group[0].run.labels['codec']}"
            figures.line(panel, [megabytes], [group], "accuracy", label=label, **look)
            panel.annotate(
                str(place + 1), (megabytes, accuracy), (5, 4), textcoords="offset points", fontsize=8,
                color=look["color"],
            )  # fmt: skip
        panel.set_xscale("log")
        x, y = "MB uploaded by all nodes, in all rounds", "test accuracy, last round"
        figures.label_axes(panel, title="round markers and line: the Pareto front", x=x, y=y)
        figures.legend(panel, "codec")


def _megabytes(group: Group) -> float:
    return over_seeds(group, "bytes_up")[0] / MB


def _columns(groups: Sequence[Group], front: Sequence[int]) -> dict[str, list[str]]:
    """Return what the table says beside accuracy and bytes: the loss by compression, in accuracy and in rounds."""
    plain = next((group for group in groups if group[0].run.labels["codec"] == PLAIN), None)
    on_front = ["yes" if place in front else "" for place in range(len(groups))]
    if plain is None:
        return {"on front": on_front}
    goal = NEARLY * over_seeds(plain, "accuracy")[0]
    return {
        "minus plain": [_difference(group, plain) for group in groups],
        f"rounds to {goal:.3f}": [_rounds_to(goal, group) for group in groups],
        "on front": on_front,
    }


def _difference(group: Group, plain: Group) -> str:
    """Return the mean difference to the plain run of the same seed, and its spread."""
    accuracy = {result.run.seed: result.summary["accuracy"] for result in plain}
    pairs = [r.summary["accuracy"] - accuracy[r.run.seed] for r in group if r.run.seed in accuracy]
    if not pairs:
        return ""
    return tables.shown(pairs, sign="+")


def _rounds_to(goal: float, group: Group) -> str:
    """Return in which round each seed first reached an accuracy, the mean of them; a dash if one did not."""
    first = [next((at for at, value in r.curve("accuracy") if value >= goal), None) for r in group]
    reached = [number for number in first if number is not None]
    return f"{mean_and_sd(reached)[0]:.3g}" if len(reached) == len(first) else "-"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweep and draw it."""
    experiment("frontier", __doc__, draw, arguments)


if __name__ == "__main__":
    main()
