"""The status of a server as one page of HTML, without a script: sites, runs, disks, certificate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from fedlearn.core.errors import printable

SMALL = 2.0  # seconds that a request may have taken
AGAIN = 15  # seconds after which a browser asks anew
CLIENTS = ("client", "key", "state", "last seen (UTC)", "version", "clock", "updates", "refusals")
STYLE = """
:root { color-scheme: light dark; font: 16px/1.45 system-ui, sans-serif; }
body { max-width: 70rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .9rem .35rem 0; border-bottom: 1px solid #8885; }
th { font-weight: 600; } th, td { white-space: nowrap; } td:last-child { white-space: normal; min-width: 15rem; }
[aria-label=runs] td:first-child { min-width: 9rem; }
.wide { outline-offset: 4px; }
td:first-child { white-space: normal; overflow-wrap: anywhere; max-width: 20rem; }
td.number { font-variant-numeric: tabular-nums; }
.yes { color: light-dark(#15692f, #7bd88f); } .no { color: light-dark(#8a4b00, #f2b46b); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1.2rem; } dd { margin: 0; }
"""


def page_of(found: Mapping[str, Any], *, is_still: bool = False) -> str:
    """Return the page of a status, as `fedlearn.engine.deployment.server_status.status_of` gives it.

    Parameters
    ----------
    is_still
        Whether it stays as it is; else a browser asks anew, which takes the focus of the keyboard away.
    """
    sites = [
        (
            str(each["client"]) if each["client"] >= 0 else "?", each["fingerprint"],
            "online" if each["is_online"] else "offline", each["last_seen"].replace("T", " ") or "never",
            each["version"], clock_of(each["behind"]),
            str(each["updates"]), ", ".join(f"{word} {count}" for word, count in each["refusals"].items()),
        )
        for each in found["sites"]
    ]  # fmt: skip
    runs = [
        (
            each["name"], each["state"], f"{each['completed']} of {each['rounds']}", str(each["attempt"]),
            each["phase"], each["warning"],
        )
        for each in found["runs"]
    ]  # fmt: skip
    online = sum(each["is_online"] for each in found["sites"])
    facts = {
        "Clients online": f"{online} of {len(sites)}",
        **{f"Free for {name}": f"{size / 1e9:.1f} GB" for name, size in found["disk_free_bytes"].items()},
        "Memory": memory_of(found["memory_bytes"]),
        "Certificate until": found["certificate_until"][:10] or "unknown",
        "As of": f"{found['time'][:19].replace('T', ' ')} UTC",
    }
    listed = "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in facts.items())
    parts = [
        f"<dl>{listed}</dl>",
        "<h2>Clients</h2>",
        _table(
            ("client", "key", "state", "last seen (UTC)", "version", "clock", "updates", "refusals"),
            sites,
            "No client is registered.",
        ),
        "<h2>Latest runs</h2>",
        _table(("run", "state", "rounds", "attempt", "phase", "last trouble"), runs, "There is no run."),
    ]
    again = "" if is_still else f'<meta http-equiv="refresh" content="{AGAIN}">'
    other = ("./", f"Refresh every {AGAIN} seconds") if is_still else ("?still", "Stop refreshing")
    parts.insert(1, f'<p><a href="{other[0]}">{other[1]}</a></p>')
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{again}<title>fedlearn server</title><style>{STYLE}</style>"
    )
    main = f"<main><h1>fedlearn server</h1>{''.join(parts)}</main>"
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{main}</body></html>'


def memory_of(size: int | None) -> str:
    """Return the memory of a server in words."""
    return "unknown" if size is None else f"{size / 1e9:.2f} GB"


def clock_of(behind: float | None) -> str:
    """Return by how much a client's clock differs; a server admits one that is 5 s ahead to 305 s behind."""
    if behind is None:
        return ""
    return "right" if abs(behind) < SMALL else f"{abs(behind):.0f} s {'behind' if behind > 0 else 'ahead'}"


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]], nothing: str) -> str:
    shown = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    if not shown:
        return f"<p>{nothing}</p>"
    head = "".join(f'<th scope="col">{title}</th>' for title in titles)
    inside = f"<table><thead><tr>{head}</tr></thead><tbody>{shown}</tbody></table>"
    return f'<div class="wide" tabindex="0" role="region" aria-label="{titles[0]}s">{inside}</div>'


def _cell(value: str) -> str:
    kind = {"online": "yes", "completed": "yes", "offline": "no", "failed": "no"}.get(value, "")
    kind = "number" if value.replace(" of ", "").isdecimal() else kind
    return f'<td class="{kind}">{_text(value)}</td>' if kind else f"<td>{_text(value)}</td>"


def _text(value: str) -> str:
    return escape(printable(value))
