"""``fedlearn status``: show the clients and the latest runs of a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fedlearn.core.errors import printable


def status(
    keys: Annotated[Path, typer.Option(metavar="FOLDER", help="The server's keys.")] = Path("keys"),
    state: Annotated[Path, typer.Option(metavar="FOLDER", help="The server's database of messages.")] = Path("state"),
    runs: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder of the runs.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Show the clients of a server on this machine, its latest runs, disks and certificate; it need not run."""
    from fedlearn.engine.deployment.status import status_of

    found = status_of(keys=keys, state=state, runs=runs)
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        _show(found)


def _show(found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from fedlearn.engine.deployment.status_page import clock_of

    console = Console()
    sites = Table(
        "client",
        "key",
        "online",
        "last seen (UTC)",
        "version",
        "clock",
        "updates",
        "refusals",
        box=None,
        padding=(0, 2, 0, 0),
    )
    for each in found["sites"]:
        words = ", ".join(f"{word} {count}" for word, count in each["refusals"].items())
        number = str(each["client"]) if each["client"] >= 0 else "?"
        online = "[green]yes[/]" if each["is_online"] else "[yellow]no[/]"
        seen = each["last_seen"] or "never"
        sites.add_row(
            number,
            each["fingerprint"],
            online,
            seen,
            each["version"],
            clock_of(each["behind"]),
            str(each["updates"]),
            escape(printable(words)),
        )
    runs = Table("run", "state", "rounds", "attempt", "phase", "last trouble", box=None, padding=(0, 2, 0, 0))
    for each in found["runs"]:
        rounds = f"{each['completed']}/{each['rounds']}"
        texts = (each["name"], each["state"], rounds, str(each["attempt"]), each["phase"], each["warning"])
        runs.add_row(*(escape(printable(str(text))) for text in texts))
    console.print(sites if found["sites"] else "no client is registered")
    console.print()
    console.print(runs if found["runs"] else "there is no run")
    free = ", ".join(f"{name} {size / 1e9:.1f} GB" for name, size in found["disk_free_bytes"].items())
    console.print(
        f"\nfree: {free or 'no such folders'}; certificate until {found['certificate_until'][:10] or 'unknown'}"
    )
