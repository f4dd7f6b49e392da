"""``fedlearn worth``: the contribution of each client to the score of a run's model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from fedlearn.core.errors import printable


def worth(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A completed run with contributions.keep = true.")],
    rows: Annotated[
        Literal["test", "validation", "clients"],
        typer.Option(help="Rows of the score: the server's test or validation rows, or those that clients measure on."),
    ] = "test",
    permutations: Annotated[
        int, typer.Option(metavar="N", min=2, help="Random orders, for more than 10 clients; 10 and fewer are exact.")
    ] = 100,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of the orders.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Value each client: leave-one-out and Shapley values, with intervals; for the table and chart of the report.

    The value of a coalition is the score of the model that the stored changes of its clients make, without training.
    """
    from fedlearn.commands.valuing import valued

    found = valued(folder, rows=rows, permutations=permutations, seed=seed)
    print(found.to_json() if as_json else printable(found.summary()))
