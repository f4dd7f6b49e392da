"""``fedlearn predict``: the predictions of a run for a file of new rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedlearn.core.errors import UsageError, printable


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    rows: Annotated[
        Path, typer.Argument(metavar="ROWS", help="CSV, Parquet, .npy, .npz with X, or a folder of pictures.")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Output file, .csv or .parquet.")],
    keep: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="COLUMN", help="A column of ROWS to copy, such as an id; may be repeated."),
    ] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of each class or label.")] = False,
    threshold: Annotated[
        float | None, typer.Option(metavar="P", help="Minimum probability of the second of two classes, or of a label.")
    ] = None,
    top: Annotated[int | None, typer.Option(metavar="K", help="The K likeliest classes, with probabilities.")] = None,
    client: Annotated[
        int | None,
        typer.Option("--client", "--node", metavar="N", help="Predict with the personal model of this client, from 0."),
    ] = None,
    best: Annotated[bool, typer.Option("--best", help="Predict with the best model, not the final one.")] = False,
    delimiter: Annotated[
        str | None, typer.Option(metavar="C", help="Delimiter of CSV \\[default: that of the run's data].")
    ] = None,
    decimal: Annotated[str | None, typer.Option(metavar="C", help="Decimal character of CSV, such as ','.")] = None,
    encoding: Annotated[str | None, typer.Option(metavar="NAME", help="Encoding of CSV, such as cp1252.")] = None,
) -> None:
    """Predict new rows with the model of a run, prepared exactly as in training, in the order of the rows.

    Columns are matched by their names. Files are read in pieces, and may be larger than memory.
    """
    from dataclasses import replace

    from fedlearn.config import config_from
    from fedlearn.predicting.predicted_file import predict_file
    from fedlearn.predicting.predictions_in_words import Wanted
    from fedlearn.predicting.stored_model import chosen_state, predictor_in
    from fedlearn.runs.folder import RunFolder

    folder = RunFolder(run.resolve())
    if not folder.has_settings:
        raise UsageError(f"{run}: there is no run, settings.toml is missing: name a run folder")
    config = config_from({**folder.read_settings(), "out": str(folder.path)}, source=str(folder.path))
    spec = folder.read_spec()
    state = chosen_state(folder.path, config, spec, node=client, best=best)
    predictor = predictor_in(folder.path, config, spec, state)
    given = {"delimiter": delimiter, "decimal": decimal, "encoding": encoding}
    named = {name: value for name, value in given.items() if value is not None}
    dialect = replace(predictor.preparation.dialect, **named)
    dialect.check()
    predictor = replace(predictor, preparation=replace(predictor.preparation, dialect=dialect))
    if out.suffix == "" or not out.parent.is_dir():
        raise UsageError(f"--out {out}: name a file in a folder that is there")
    count, lines = predict_file(predictor, rows, out, keep=keep or [], wanted=Wanted(threshold, top), proba=proba)
    for line in lines:
        typer.echo(printable(f"note: {line}"), err=True)
    typer.echo(printable(f"{out}: {count:,} rows"))
