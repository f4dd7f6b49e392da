"""Tables of a sweep for people: on the screen, as Markdown, and as LaTeX for the booktabs package."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments.sweeps.results import MB, Group, mean_and_sd, over_seeds

WIDE = 160  # columns, where it is not a terminal that is printed to


def shown(values: Sequence[float], *, sign: str = "") -> str:
    """Return a mean and its spread, which is left out where there is one value.

    >>> shown([0.5, 0.7]), shown([0.5], sign="+")
    ('0.6000 ± 0.1414', '+0.5000')
    """
    mean, spread = mean_and_sd(values)
    return f"{mean:{sign}.4f}" if spread is None else f"{mean:{sign}.4f} ± {spread:.4f}"


def table_of(groups: Sequence[Group], **more: Sequence[str]) -> list[dict[str, str]]:
    """Return one row a point: labels, accuracy, uploaded megabytes and compression ratio, and further columns."""
    rows = []
    for place, group in enumerate(groups):
        ratios = [result.summary["compression_ratio"] for result in group]
        row: dict[str, str] = {**group[0].run.labels, "seeds": str(len(group))}
        row["accuracy"] = shown([result.summary["accuracy"] for result in group])
        row |= {name: column[place] for name, column in more.items()}
        row["MB up"] = f"{over_seeds(group, 'bytes_up')[0] / MB:,.2f}"
        row["ratio"] = f"{mean_and_sd(ratios)[0]:.1f}"
        rows.append(row)
    return rows


def write_table(rows: Sequence[Mapping[str, str]], folder: Path, name: str, *, caption: str) -> None:
    """Print a table; write it as Markdown and, for the booktabs package, as LaTeX."""
    table = Table(title=caption, title_justify="left", box=SIMPLE, pad_edge=False)
    for column, is_number in _columns(rows[0]).items():
        width = max(len(row[column]) for row in rows) if is_number else None
        style = {"justify": "right", "min_width": width} if is_number else {"overflow": "fold"}
        table.add_column(column.replace("_", " "), **style)
    for row in rows:
        table.add_row(*(escape(text) for text in row.values()))
    Console(highlight=False, width=None if sys.stdout.isatty() else WIDE).print(table)
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    (folder / f"{name}.md").write_text("".join(f"| {' | '.join(line)} |\n" for line in lines))
    (folder / f"{name}.tex").write_text(_latex(rows, caption))


def _columns(row: Mapping[str, str]) -> dict[str, bool]:
    """Return the columns, and which hold numbers: those from ``seeds`` on."""
    names = list(row)
    return {name: place >= names.index("seeds") for place, name in enumerate(names)}


def _latex(rows: Sequence[Mapping[str, str]], caption: str) -> str:
    alignment = "".join("r" if is_number else "l" for is_number in _columns(rows[0]).values())
    head, *body = (
        " & ".join(_escaped(text) for text in line) + r" \\" for line in (list(rows[0]), *(r.values() for r in rows))
    )
    lines = [
        r"\begin{table}", r"\centering", rf"\caption{{{_escaped(caption)}}}",
        rf"\begin{{tabular}}{{{alignment}}}", r"\toprule", head, r"\midrule", *body,
        r"\bottomrule", r"\end{tabular}", r"\end{table}", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _escaped(text: str) -> str:
    for character in "&%$#_":
        text = text.replace(character, f"\\{character}")
    return text.replace("±", r"$\pm$")
