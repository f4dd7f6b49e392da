"""Write the two tables of an experiment: one for programs, one for papers."""

from __future__ import annotations

from pathlib import Path

from fedlearn.report.tables import Table
from fedlearn.runs.files import write_atomically


def write(out: Path, long: Table, wide: Table, caption: str, *, table: str = ".table.csv") -> None:
    """Write a table as CSV and another as LaTeX with a caption, beside each other.

    Parameters
    ----------
    out
        The path of both files without their suffixes.
    """
    write_atomically(out.with_name(out.name + table), long.as_csv().encode())
    write_atomically(out.with_name(f"{out.name}.tex"), wide.as_latex(caption).encode())
