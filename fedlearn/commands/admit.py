"""``fedlearn request`` and ``fedlearn admit``: a site asks to take part, and the server's operator decides."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedlearn.core.errors import UsageError, quoted

if TYPE_CHECKING:
    from fedlearn.engine.deployment.admitting import Admissions, Step

CA = "public/ca.crt"


def request(
    name: Annotated[str, typer.Option(metavar="TEXT", help="Name of your site, such as 'St. Ann, radiology'.")] = "",
    server: Annotated[str, typer.Option(metavar="HOST:PORT", help="The server's address for clients.")] = "",
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the new key, on this machine.")] = Path(
        "keys"
    ),
    rotate: Annotated[
        bool, typer.Option("--rotate", help="Make a new key, which your present key signs: no decision is needed.")
    ] = False,
    passphrase: Annotated[
        bool, typer.Option("--passphrase", help="Encrypt the key by a passphrase, which is asked for.")
    ] = False,
    passphrase_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with the passphrase of the key.")
    ] = None,
) -> None:
    """Make a key and a signed request to take part, at a site; the private key never leaves it.

    Send the request file to the server's operator, and compare the fingerprint by another way, such as the telephone.
    Called again, it changes nothing.
    """
    from fedlearn.engine.deployment.admitting import make_request, make_rotation, read_request
    from fedlearn.engine.deployment.key_passphrase import Passphrase

    said = Passphrase(passphrase_file, seals=passphrase)
    if rotate:
        if name or server:
            raise UsageError("--rotate: your name and the server's address stay: leave --name and --server out")
        typer.echo(f"{make_rotation(folder, said)}: send this file to the operator of the server")
        typer.echo(f"once it is received: in {folder}, rename N.new to N, and restart fedlearn client")
        return
    if not (name and server):
        raise UsageError("--name TEXT and --server HOST:PORT are needed, but with --rotate")
    file = make_request(folder, name=name, server=server, passphrase=said)
    made = read_request(file.read_bytes())
    typer.echo(f"{file}: send this file to the operator of {made.server}")
    typer.echo(f"fingerprint {made.fingerprint}")
    typer.echo(f"once you are told your number N, rename {folder / 'own.key'} to {folder / 'N'}")


def admit(
    requests: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE...]", help="Request files that sites have sent.")
    ] = None,
    approve: Annotated[str, typer.Option(metavar="FINGERPRINT", help="Approve a request; the first digits do.")] = "",
    refuse: Annotated[str, typer.Option(metavar="FINGERPRINT", help="Refuse a request for good.")] = "",
    revoke: Annotated[str, typer.Option(metavar="FINGERPRINT", help="End an approval; the key is refused then.")] = "",
    until: Annotated[str, typer.Option(metavar="DATE", help="With --approve: when it ends, as 2027-12-31.")] = "",
    why: Annotated[str, typer.Option(metavar="TEXT", help="The reason, for the log; needed unless you approve.")] = "",
    log: Annotated[bool, typer.Option("--log", help="Print all steps, oldest first.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Check that no line of the log was changed.")] = False,
    keys: Annotated[Path, typer.Option(metavar="FOLDER", help="The server's keys.")] = Path("keys"),
    superlink: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="The server's address for runs; an empty text: do not ask it.")
    ] = "127.0.0.1:8000",
    as_json: Annotated[bool, typer.Option("--json", help="Print keys or steps as JSON.")] = False,
) -> None:  # fmt: skip
    """Admit clients on the server's machine: receive, approve, refuse and revoke requests, while the server runs.

    Without options it lists the requests and the admitted clients. Approvals that are over end with the next call.
    """
    from fedlearn.engine.deployment.admitting import Admissions, read_request
    from fedlearn.privacy.ledger_lines import LedgerDamaged

    found, received = Admissions(keys), list["Step"]()
    if sum(map(bool, (approve, refuse, revoke))) > 1:
        raise UsageError("--approve, --refuse, --revoke: one at a time")
    if (refuse or revoke) and not why.strip():
        raise UsageError("--why TEXT: say the reason, for the log")
    try:
        for file in requests or []:
            known = found.receive(asked := read_request(file.read_bytes()))
            received.append(known)
            typer.echo(f"{file}: {asked.name}, fingerprint {asked.fingerprint}: {known.step}")
            for warning in asked.warnings():
                typer.echo(f"{file}: {warning}")
        if approve:
            step = found.approve(approve, why=why, until=_date(until) if until else None)
            typer.echo(f"{step.name} is client {step.client}: send it this number and {keys / CA}")
        if refuse or revoke:
            step = found.refuse(refuse, why=why) if refuse else found.revoke(revoke, why=why)
            typer.echo(f"{step.name}: {step.step}")
        for step in found.expire():
            typer.echo(f"{step.name}, client {step.client}: {step.step}")
        steps = found.steps()
    except LedgerDamaged as error:
        raise UsageError(f"{keys / 'admissions.log'}: {error}: restore a copy of the log") from None
    if superlink and (approve or revoke or not requests or any(each.step == "approved" for each in received)):
        _tell(superlink, keys, found)
    if verify:
        typer.echo(f"{len(steps)} steps, each as it was written")
    elif log or not (requests or approve or refuse or revoke):
        _show(steps if log else list(found.latest().values()), as_json=as_json)


def _tell(superlink: str, keys: Path, found: Admissions) -> None:
    """Register the approved keys at the running server, and unregister all others that it knows.

    A key that was replaced stays registered until its successor is online: the client loses no round by it.
    """
    from fedlearn.engine.deployment.admitting import APPROVED, RECEIVED
    from fedlearn.engine.deployment.server_processes import answers
    from fedlearn.flower.control import Control, key_as_registered

    latest = {each.fingerprint: each for each in found.latest().values() if each.step != RECEIVED}
    if not latest or not answers(superlink):
        if latest:
            typer.echo(f"no server answers at {superlink}: call fedlearn admit again when it runs")
        return
    control = Control(superlink, (keys / CA).read_bytes())
    try:
        registered, online = control.registered(), control.online_keys()
        for each in latest.values():
            key = key_as_registered(each.key.encode(), each.name)
            if each.step == APPROVED and key not in registered:
                control.register(keys / "public" / "nodes" / f"{each.client}.pub", name=f"partition-{each.client}")
                typer.echo(f"client {each.client} is registered")
            elif each.step != APPROVED and key in registered:
                control.unregister(registered[key])
                typer.echo(f"client {each.client} is accepted no more")
        for line, fingerprint in found.keys_before().items():
            now, key = latest[fingerprint], key_as_registered(line.encode(), "a key before")
            if key not in registered:
                continue
            if now.step != APPROVED or key_as_registered(now.key.encode(), now.name) in online:
                control.unregister(registered[key])
                typer.echo(f"client {now.client}: the key before is accepted no more")
            else:
                typer.echo(f"client {now.client}: the key before ends when you call fedlearn admit after the new one "
                           "has come online")  # fmt: skip
    finally:
        control.close()


def _show(steps: list[Step], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([asdict(each) for each in steps], indent=2, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(
        "state", "client", "site", "fingerprint", "when (UTC)", "by", "until", "why", box=None, padding=(0, 2, 0, 0)
    )
    for each in steps:
        client = str(each.client) if each.client >= 0 else ""
        texts = (each.step, client, each.name, each.fingerprint, each.when[:19], each.who, each.until[:10], each.why)
        table.add_row(*map(escape, texts))
    Console().print(table if steps else "there is no request")


def _date(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--until {quoted(text)}: write a date, such as 2027-12-31") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
