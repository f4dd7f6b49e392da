"""``fedlearn peers``: the list of clients with which a client sums, which its owner alone changes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedlearn.core.errors import UsageError, quoted


def peers(
    listed: Annotated[Path, typer.Argument(metavar="LIST", help="The list that --peers of fedlearn client names.")],
    add: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="File with lines of public keys; may be repeated.")
    ] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FINGERPRINT", help="Accept this key, after you have compared all digits; may be repeated."
        ),
    ] = None,
) -> None:
    """Show the fingerprints of a list of peers; with --add, accept new ones.

    A new key enters the list only with --accept and its fingerprint, which you compare with its owner by another way,
    such as the telephone. A key that an accepted one has signed (fedlearn keys --rotate), and a release of an accepted
    one, replace its line.
    """
    from fedlearn.engine.deployment.admitting import fingerprint_of
    from fedlearn.runs.files import write_atomically
    from fedlearn.secure.key_agreement import listed_keys

    lines = {fingerprint_of(line): line for line in _lines_of(listed)} if listed.exists() else {}
    before, wanted = dict(lines), [each.lower() for each in accept or []]
    for file in add or []:
        for line in _lines_of(file):
            name = fingerprint_of(line)
            if name in lines or name in wanted:
                lines[name] = line
            else:
                typer.echo(f"{file}: {name} is not accepted: compare it with its owner, then --accept {name}")
    found = [each for each in wanted if each not in lines]
    if found:
        raise UsageError(f"--accept {quoted(found[0])}: no key has this fingerprint, of which all digits are needed")
    if lines != before:
        write_atomically(listed, "".join(f"{line}\n" for line in lines.values()).encode())
    for name, line in lines.items():
        state = "has left" if listed_keys(line.encode())[0].has_left else "new" if name not in before else ""
        typer.echo(f"{name} {state}".strip())


def _lines_of(file: Path) -> list[str]:
    """Return the lines of keys in a file; raise UsageError if one is none."""
    from fedlearn.secure.key_agreement import listed_keys

    try:
        text = file.read_text(encoding="utf-8")
        listed_keys(text.encode())
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{file}: {error}: put a line of public/nodes/N.pub for each client") from None
    return [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
