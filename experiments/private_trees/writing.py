"""The two tables of an experiment: CSV for programs, LaTeX for papers."""

from __future__ import annotations

from pathlib import Path

from fedlearn.report.tables import Table
from fedlearn.runs.files import write_atomically


def write(out: Path, long: Table, wide: Table, caption: str, *, table: str = ".table.csv") -> None:
    """Write one table as CSV, and another as LaTeX with a caption, side by side.

    Parameters
    ----------
    out
        The path of both, without their suffixes.
    """
    write_atomically(out.with_name(out.name + table), long.as_csv().encode())
    write_atomically(out.with_name(f"{out.name}.tex"), wide.as_latex(caption).encode())
