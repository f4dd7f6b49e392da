"""``fedlearn status``: show the clients and the latest runs of a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from fedlearn.core.errors import RunFailed, UsageError, printable


def status(
    keys: Annotated[Path, typer.Option(metavar="FOLDER", help="The server's keys.")] = Path("keys"),
    state: Annotated[Path, typer.Option(metavar="FOLDER", help="The server's database of messages.")] = Path("state"),
    runs: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder of the runs.")] = Path("runs"),
    ledger: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Show a client's own status instead: its --ledger.")
    ] = None,
    policy: Annotated[Path | None, typer.Option(metavar="FILE", help="With --ledger: the client's --policy.")] = None,
    ask: Annotated[Path | None, typer.Option(metavar="FOLDER", help="A client's own status: its --ask.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Show the clients of a server on this machine, its latest runs, disks and certificate; it need not run.

    With --ledger or --ask: what a client on this machine has done and spent, and what is left.
    """
    if policy is not None and ledger is None:
        raise UsageError("--policy: give --ledger FOLDER, too: what is left is that of a ledger")
    if ledger is not None or ask is not None:
        mine = _of_client(ledger, policy, ask)
        print(json.dumps(mine, indent=2) if as_json else "\n".join(_lines(mine)))
        return
    from fedlearn.engine.deployment.server_status import status_of

    found = status_of(keys=keys, state=state, runs=runs)
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        _show(found)


def _of_client(ledger: Path | None, policy: Path | None, ask: Path | None) -> dict[str, Any]:
    """Return what a client has spent, by data name, what is left, and its owner's answers, as plain values."""
    from fedlearn.config.policy import Policy
    from fedlearn.privacy.bookings import bookings
    from fedlearn.privacy.ledger import Ledger
    from fedlearn.privacy.ledger_lines import LedgerDamaged
    from fedlearn.runs.agreements import Agreements
    from fedlearn.runs.ledgers import LedgerFile, names_in

    for name, folder in (("--ledger", ledger), ("--ask", ask)):
        if folder is not None and not folder.is_dir():
            raise UsageError(f"{name} {folder}: there is no such folder")
    limits = Policy.of_file(policy) if policy is not None else None
    found: dict[str, Any] = {"data": [], "waiting": [], "answers": []}
    place = ledger
    try:
        for name in names_in(ledger) if ledger is not None else ():
            file = LedgerFile(ledger, name)  # type: ignore[arg-type]
            kept = Ledger(file, most=limits.largest_epsilon, delta=limits.delta) if limits else Ledger(file)
            spent, booked = kept.spent(), bookings(kept.entries())
            about = {"name": name, "spent_epsilon": spent.epsilon, "answers": len(booked)}
            about |= {"runs": list(dict.fromkeys(each.run for each in booked))}
            if limits:
                about |= {
                    "left_epsilon": max(limits.largest_epsilon - spent.epsilon, 0.0),
                    "left_answers": max(limits.most_questions - len(booked), 0),
                }
            found["data"].append(about)
        place = ask
        if ask is not None:
            agreements = Agreements(ask)
            found["waiting"] = [*agreements.waiting()]
            found["answers"] = [
                {"when": each.when[:19], "run": each.run or each.page, "answer": each.answer, "why": each.why}
                for each in agreements.answers()
            ]
    except LedgerDamaged as error:
        raise RunFailed(f"{place}: {error}: restore a copy of the folder") from None
    return found


def _lines(mine: dict[str, Any]) -> Iterator[str]:
    for each in mine["data"]:
        yield f"{each['name']}: epsilon {each['spent_epsilon']:.6g} spent in {each['answers']} answers"
        if "left_epsilon" in each:
            yield f"  left: epsilon {each['left_epsilon']:.6g}, {each['left_answers']} answers"
        for run in each["runs"]:
            yield printable(f"  run {run}")
    for run in mine["waiting"]:
        yield f"run {run}: waits for your answer"
    for each in mine["answers"]:
        what = "" if each["answer"].endswith("code") else "run "
        yield printable(f"{each['when']} {what}{each['run']}: {each['answer']} {each['why']}".strip())
    if not any(mine.values()):
        yield "this client has done nothing yet"


def _show(found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from fedlearn.engine.deployment.status_page import clock_of, memory_of

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
    until = found["certificate_until"][:10] or "unknown"
    memory = memory_of(found["memory_bytes"])
    console.print(f"\nfree: {free or 'no such folders'}; memory: {memory}; certificate until {until}")
