"""``fedlearn declare``: a draft of the file by which the owner of private data declares them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fedlearn.core.errors import UsageError


def declare(
    data: Annotated[Path, typer.Argument(metavar="FILE", help="A table, a .npz file or a folder of pictures.")],
    target: Annotated[str, typer.Option(metavar="COLUMN", help="Target column of a table.")] = "",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Output file (default: FILE.toml in its folder).")
    ] = None,
    delimiter: Annotated[str, typer.Option(metavar="CHARACTER", help="Delimiter of a CSV file, such as ';'.")] = "",
    decimal: Annotated[str, typer.Option(metavar="CHARACTER", help="Decimal character of a CSV file.")] = ".",
    encoding: Annotated[str, typer.Option(metavar="NAME", help="Encoding of a CSV file, such as cp1252.")] = "utf-8",
) -> None:
    """Write a draft of the TOML file that declares private data: classes, ranges, categories, sizes.

    Edit the draft: its values come from the records, and are public once the file is used. An existing file is
    not replaced. Guide: docs/howto/private_records.md.
    """
    import tomli_w

    from fedlearn.data.declaring import DRAFT, draft_of
    from fedlearn.data.sources.table_files import Dialect

    path = out or Path(f"{data}.toml" if data.is_dir() else data.with_suffix(".toml"))
    if path.exists():
        raise UsageError(f"{path} is there already: edit it, remove it, or write another by --out")
    dialect = Dialect(delimiter, decimal, encoding)
    dialect.check()
    draft = draft_of(data, target=target, dialect=dialect)
    draft["data"] = str(data.absolute()) if path.parent.resolve() != data.parent.resolve() else draft["data"]
    tables: dict[str, object] = {name: draft.pop(name) for name in ("bounds", "categories") if name in draft}
    said = {name: value for name, value in asdict(dialect).items() if value != getattr(Dialect(), name)}
    path.write_text(DRAFT + tomli_w.dumps({**draft, **said, **tables}), encoding="utf-8")
    typer.echo(
        f"{path}: a draft, read from the records: replace each value by what is publicly known, then use the file"
    )
