"""``fedlearn peers``: the list of clients with which a client sums, which its owner alone changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedlearn.core.errors import UsageError, quoted

if TYPE_CHECKING:
    from fedlearn.secure.key_agreement import Signer


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
    study: Annotated[
        str, typer.Option(metavar="FINGERPRINT", help="With --add: accept all keys that this study's key has signed.")
    ] = "",
    sign: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Sign all keys of the list by a study's key, which is made if it is missing."
        ),
    ] = None,
) -> None:
    """Show the fingerprints of a list of peers; with --add, accept new ones.

    A new key enters the list only with --accept and its fingerprint, which you compare with its owner by another way,
    such as the telephone. A key that an accepted one has signed (fedlearn keys --rotate), and a release of an accepted
    one, replace its line.

    A study's coordinator compares the fingerprints once, and signs the list by a key that no server has (--sign). The
    others compare the fingerprint of that key, and accept all that it has signed (--study).
    """
    from fedlearn.engine.deployment.admitting import fingerprint_of, grouped
    from fedlearn.runs.files import write_atomically
    from fedlearn.secure.key_agreement import listed_keys

    if study and not add:
        raise UsageError("--study: give the signed list by --add FILE")
    lines = {fingerprint_of(line): line for line in _lines_of(listed)} if listed.exists() else {}
    before, wanted = dict(lines), [each.lower() for each in accept or []]
    for file in add or []:
        for line in _lines_of(file):
            name, (new,) = fingerprint_of(line), listed_keys(line.encode())
            present = listed_keys(lines[name].encode())[0].key if name in lines else new.key
            if present != new.key and f"follows={present.hex()}:" not in line:
                typer.echo(f"{file}: {name} is not accepted: this key does not follow the one of the list")
            elif name in lines or name in wanted or (study and new.study and grouped(new.study) == study.lower()):
                lines[name] = line
            else:
                typer.echo(f"{file}: {name} is not accepted: compare it with its owner, then --accept {name}")
    found = [each for each in wanted if each not in lines]
    if found:
        raise UsageError(f"--accept {quoted(found[0])}: no key has this fingerprint, of which all digits are needed")
    if sign is not None:
        signer = _study_key(sign)
        lines = {name: _signed(line, signer) for name, line in lines.items()}
        typer.echo(f"signed by the study {grouped(signer.public)}")
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


def _signed(line: str, study: Signer) -> str:
    """Return a line of a key with a study's signature in place of that of another study."""
    from fedlearn.secure.key_agreement import STUDY, listed_keys, membership

    (listed,) = listed_keys(line.encode())
    rest = [word for word in line.split() if not word.startswith(STUDY.decode())]
    return " ".join([*rest, membership(study, listed.first).decode()])


def _study_key(file: Path) -> Signer:
    """Return the key of a study, made where there is none; never on a server, whose lists it is to vouch for."""
    from fedlearn.secure.key_agreement import SIZE, Signer, fresh_secret

    if any(
        (file.absolute().parent / name).exists() for name in ("authority", "server", "server.key", "admissions.log")
    ):
        raise UsageError(f"--sign {file}: this is a server's folder: keep a study's key where no server is")
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(f"{fresh_secret().hex()}\n")
    try:
        secret = bytes.fromhex(file.read_text().strip())
    except (OSError, ValueError):
        secret = b""
    if len(secret) != SIZE:
        raise UsageError(f"--sign {file}: it is no key of a study: name another file, and one is made")
    return Signer(secret)
