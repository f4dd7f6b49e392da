"""The monitor of a server: its numbers in Prometheus' text form, and whether it lives and is ready.

    python -m fedlearn.engine.deployment.monitor --listen 127.0.0.1:9464 --runs runs --up superlink=127.0.0.1:8000

It reads the event logs below the folder of runs, and asks nothing of the server: a round takes as long with it as
without. Counters begin at zero with the monitor; a run that is in progress then is counted from its start. Of a run
whose draws are secret no counts of reports or bytes stand here (`fedlearn.runs.secret_participation`).

``/metrics`` answers with the numbers, ``/`` with the page of the status, to whom has the token, where there is one;
``/healthz`` always, ``/readyz`` with 200 while all addresses of ``--up`` answer, else with 503 and which do not.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hmac
import shutil
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from fedlearn.core.errors import UsageError
from fedlearn.engine.deployment.programs import start_logging
from fedlearn.engine.deployment.server_processes import answers
from fedlearn.engine.deployment.server_status import RunRead, hides_counts, server_memory, shown_events, status_of
from fedlearn.engine.deployment.status_page import page_of
from fedlearn.engine.processes import die_with
from fedlearn.runs.file_names import EVENTS
from fedlearn.runs.log import ENDED, Event, EventTail, RunView, has_ended

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

MOST_WORDS = 100  # refusals that are told apart; all others are one
MOST_REQUESTS = 32  # that are answered at once
PAUSE = 0.5  # seconds that a wrong token waits: with MOST_REQUESTS, 64 guesses a second at most
MEMORY_EACH = 15.0  # seconds between looks at the server's memory
OTHER = "other"
HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
ASK = {"WWW-Authenticate": 'Basic realm="fedlearn"', "Cache-Control": "no-store"}
STILL = "still"
ROUTES = METRICS, LIVES, READY, PAGE = "/metrics", "/healthz", "/readyz", "/"
OUTCOMES = {"committed": "completed", "abandoned": "abandoned", "too-few-ready": "too-few-ready", "skipped": "skipped"}
DIRECTIONS = {"bytes_down": "downlink", "bytes_up": "uplink", "bytes_protocol": "protocol"}
PHASES = ("selection", "training", "evaluation")
ASKED = ("ready", "not-ready", "rejected")  # events of clients before a round's training

HELP = {
    "fedlearn_runs": ("counter", "Runs that have ended, by status.", ("status",)),
    "fedlearn_rounds": ("counter", "Attempts at rounds, by outcome.", ("outcome",)),
    "fedlearn_updates": ("counter", "Updates of clients, by outcome.", ("outcome",)),
    "fedlearn_refusals": ("counter", "Refusals, of clients and of updates, by word.", ("word",)),
    "fedlearn_bytes": ("counter", "Bytes of messages of completed rounds, by direction.", ("direction",)),
    "fedlearn_phase_seconds": ("summary", "Seconds of the phases of completed rounds.", ("phase",)),
    "fedlearn_runs_in_progress": ("gauge", "Runs that have begun and not ended.", ()),
    "fedlearn_round": ("gauge", "Last completed round of the latest run in progress.", ()),
    "fedlearn_rounds_asked": ("gauge", "Rounds of the latest run in progress.", ()),
    "fedlearn_clients": ("gauge", "Clients of the current attempt of that run, by state.", ("state",)),
    "fedlearn_last_event_timestamp_seconds": ("gauge", "Time of the last event of any run.", ()),
    "fedlearn_up": ("gauge", "Whether a part of the server answers.", ("part",)),
    "fedlearn_disk_free_bytes": ("gauge", "Free space of a folder's disk.", ("folder",)),
    "fedlearn_memory_bytes": ("gauge", "Resident memory of the server's processes.", ()),
    "fedlearn_certificate_expiry_timestamp_seconds": ("gauge", "End of the server's certificate.", ()),
    "fedlearn_unreadable_logs": ("gauge", "Logs of runs that cannot be read.", ()),
}
"""Name -> kind, meaning and labels; a counter's name gets ``_total``."""


class Followed:
    """The log of a run, which may be in progress, or be resumed.

    Parameters
    ----------
    begin
        Bytes that are passed over.
    """

    def __init__(self, path: Path, begin: int = 0) -> None:
        self.tail, self.view = EventTail(path, begin), RunView()
        self.asked: Counter[str] = Counter()
        self.is_over, self.hides = begin > 0, hides_counts(path)


class Monitor:
    """What has happened in the runs below a folder, as a collector of `prometheus_client`.

    Parameters
    ----------
    runs
        Folder of the runs; need not exist yet.
    folders
        Name -> further folder whose disk may fill up.
    up
        Name -> HOST:PORT of what must answer.
    keys
        Folder of the server's keys; None: no certificate is looked at.
    """

    def __init__(
        self, runs: Path, *, folders: Mapping[str, Path], up: Mapping[str, str], keys: Path | None = None
    ) -> None:
        self._runs, self._folders, self._up, self._keys = runs, {"runs": runs, **folders}, up, keys
        self._counted: dict[str, Counter[str]] = {
            name: Counter() for name, (kind, _, labels) in HELP.items() if kind == "counter" and labels
        }
        self._seconds = {phase: [0, 0.0] for phase in PHASES}
        self._followed: dict[Path, Followed] = {}
        self._has_looked = False
        self._last = 0.0
        self._unreadable: set[Path] = set()
        self._memory_at, self._memory_seen = 0.0, dict[str, float]()

    def look(self) -> None:
        """Read what was appended to the logs."""
        for log in self._runs.glob(f"*/{EVENTS}"):
            if log not in self._followed and log not in self._unreadable:
                with suppress(OSError):
                    passed_over = log.stat().st_size if not self._has_looked and has_ended(log) else 0
                    self._followed[log] = Followed(log, passed_over)
        self._has_looked = True
        for log, followed in list(self._followed.items()):
            try:
                for event in shown_events(followed.tail, hides=followed.hides):
                    self._take(event, followed)
            except (OSError, KeyError, TypeError, ValueError):  # a log that is none of ours
                self._unreadable.add(log)
                self._followed.pop(log, None)

    def _take(self, event: Event, followed: Followed) -> None:
        kind, counted = event["event"], self._counted
        followed.view.take(event)
        followed.is_over = kind == "ended"
        self._last = max(self._last, float(event["time"]))
        sum(map(int, (followed.view.committed, followed.view.rounds, followed.view.cohort)))  # numbers, or ValueError
        if kind == "round-started":
            followed.asked.clear()
        if kind in ASKED:
            followed.asked[kind] += 1
        if kind in OUTCOMES:
            counted["fedlearn_rounds"][OUTCOMES[kind]] += 1
        if kind in ENDED:
            counted["fedlearn_updates"][kind] += 1
        if kind in ("refused", "not-ready", "sum-refused"):
            counted["fedlearn_refusals"][self._word(str(event.get("reason", "")))] += 1
        if kind == "ended":
            counted["fedlearn_runs"][str(event["status"])] += 1
        if kind == "committed":
            for name, direction in DIRECTIONS.items():
                counted["fedlearn_bytes"][direction] += int(event.get(name, 0))
            for phase, total in self._seconds.items():
                if (seconds := event.get(f"{phase}_seconds")) is not None:
                    total[0], total[1] = total[0] + 1, total[1] + float(seconds)

    def _word(self, reason: str) -> str:
        """Return the word that a reason begins with; `OTHER` for what is no word, and once there are too many words."""
        word = reason.partition(":")[0].strip()
        is_word = word.replace("-", "").isalpha() and word.isascii() and len(word) <= 40
        known = self._counted["fedlearn_refusals"]
        return word if is_word and (word in known or len(known) < MOST_WORDS) else OTHER

    def not_ready(self) -> list[str]:
        """Return the parts that do not answer."""
        return [name for name, address in self._up.items() if not answers(address)]

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics, in the order of `HELP`."""
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily

        self.look()
        gauges = self._gauges()
        for name, (kind, meaning, labels) in HELP.items():
            if kind == "summary":
                summary = SummaryMetricFamily(name, meaning, labels=labels)
                for phase, (count, seconds) in self._seconds.items():
                    summary.add_metric([phase], int(count), seconds)
                yield summary
                continue
            family = (CounterMetricFamily if kind == "counter" else GaugeMetricFamily)(name, meaning, labels=labels)
            for label, value in sorted((self._counted[name] if kind == "counter" else gauges[name]).items()):
                family.add_metric([label] if labels else [], value)
            yield family

    def _gauges(self) -> dict[str, dict[str, float]]:
        """Return the present values of the gauges by label, which is empty where a gauge has none."""
        going_on = [each for each in self._followed.values() if not each.is_over]
        latest = max(going_on, key=lambda each: each.view.about.get("time", 0.0), default=None)
        view, missing = (latest.view if latest else RunView()), self.not_ready()
        clients = {
            "selected": view.cohort,
            **view.nodes,
            **{name: (latest.asked[name] if latest else 0) for name in ASKED},
        }
        found: dict[str, dict[str, float]] = {
            "fedlearn_runs_in_progress": {"": len(going_on)},
            "fedlearn_round": {"": view.committed},
            "fedlearn_rounds_asked": {"": view.rounds},
            "fedlearn_clients": {name: float(count) for name, count in clients.items()},
            "fedlearn_last_event_timestamp_seconds": {"": self._last} if self._last else {},
            "fedlearn_up": {name: float(name not in missing) for name in self._up},
            "fedlearn_disk_free_bytes": {
                name: float(shutil.disk_usage(folder).free) for name, folder in self._folders.items() if folder.is_dir()
            },
            "fedlearn_memory_bytes": self._memory() if not any(each.hides for each in going_on) else {},
            "fedlearn_certificate_expiry_timestamp_seconds": {},
            "fedlearn_unreadable_logs": {"": len(self._unreadable)},
        }
        if self._keys is not None:
            from fedlearn.engine.deployment.deployment_keys import valid_until

            with suppress(OSError, ValueError):
                found["fedlearn_certificate_expiry_timestamp_seconds"] = {"": valid_until(self._keys).timestamp()}
        return found

    def _memory(self) -> dict[str, float]:
        """Return the server's memory, as of at most `MEMORY_EACH` ago: the system counts pages for it."""
        if not self._memory_at or time.monotonic() - self._memory_at > MEMORY_EACH:
            found = server_memory(self._folders["state"]) if "state" in self._folders else None
            self._memory_at, self._memory_seen = time.monotonic(), {} if found is None else {"": float(found)}
        return self._memory_seen


def app_of(monitor: Monitor, token: str = "", page: Callable[[bool], str] = lambda is_still: "") -> ASGIApp:
    """Return the web application.

    With a token, ``/metrics`` and ``/`` ask for ``Authorization: Bearer TOKEN``, or for the token as the password of
    any user, as browsers send it.

    Parameters
    ----------
    page
        Returns the page of the status, given whether it stays as it is (``/?still``).
    """
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
    from starlette.applications import Starlette
    from starlette.responses import HTMLResponse, PlainTextResponse
    from starlette.responses import Response as Answer
    from starlette.routing import Route

    registry, looking = CollectorRegistry(), asyncio.Lock()
    registry.register(monitor)

    async def guarded(request: Request) -> Response | None:
        if not token or _has(token, request.headers.get("authorization", "")):
            return None
        await asyncio.sleep(PAUSE)
        return PlainTextResponse("a token is needed", status_code=401, headers=ASK)

    async def metrics(request: Request) -> Response:
        if refused := await guarded(request):
            return refused
        async with looking:
            text = await asyncio.to_thread(generate_latest, registry)
        return Answer(text, media_type=CONTENT_TYPE_LATEST)

    async def shown(request: Request) -> Response:
        if refused := await guarded(request):
            return refused
        async with looking:
            return HTMLResponse(await asyncio.to_thread(page, STILL in request.query_params), headers=HEADERS)

    async def lives(request: Request) -> Response:
        return PlainTextResponse("ok")

    async def is_ready(request: Request) -> Response:
        missing = await asyncio.to_thread(monitor.not_ready)
        said = f"no answer: {', '.join(missing)}" if missing else "ok"
        return PlainTextResponse(said, status_code=503 if missing else 200)

    routes: dict[str, Callable[[Request], Awaitable[Response]]] = {
        METRICS: metrics, LIVES: lives, READY: is_ready, PAGE: shown,
    }  # fmt: skip
    return Starlette(routes=[Route(path, answer) for path, answer in routes.items()])


def _has(token: str, given: str) -> bool:
    """Return whether a header has the token, in a time that does not depend on what is wrong with it."""
    kind, _, rest = given.partition(" ")
    if kind.lower() == "basic":
        with suppress(ValueError):
            rest = base64.b64decode(rest, validate=True).decode(errors="replace").partition(":")[2]
    return hmac.compare_digest(rest.encode(), token.encode())


def _pairs(words: Sequence[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until the parent process ends."""
    import uvicorn

    parser = argparse.ArgumentParser(prog="python -m fedlearn.engine.deployment.monitor")
    parser.add_argument("--listen", required=True, metavar="HOST:PORT")
    parser.add_argument("--runs", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--folder", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--up", action="append", default=[], metavar="NAME=HOST:PORT")
    parser.add_argument("--keys", type=Path, metavar="FOLDER")
    parser.add_argument("--token", type=Path, metavar="FILE")
    parser.add_argument("--tls", type=Path, metavar="FOLDER")
    parser.add_argument("--parent-pid", type=int, metavar="PID")
    options = parser.parse_args(arguments)
    die_with(options.parent_pid)
    start_logging()
    folders = {name: Path(folder) for name, folder in _pairs(options.folder).items()}
    monitor = Monitor(options.runs, folders=folders, up=_pairs(options.up), keys=options.keys)
    token = options.token.read_text().strip() if options.token else ""

    read: dict[Path, RunRead] = {}

    def page(is_still: bool) -> str:
        state = folders.get("state", Path("state"))
        try:
            found = status_of(keys=options.keys or Path("keys"), state=state, runs=options.runs, read=read)
            return page_of(found, is_still=is_still)
        except UsageError as error:
            return f"<!doctype html><title>fedlearn server</title><p>{escape(str(error))}</p>"

    secure = (
        {"ssl_certfile": options.tls / "server.crt", "ssl_keyfile": options.tls / "server.key"} if options.tls else {}
    )
    host, _, port = options.listen.rpartition(":")
    uvicorn.run(
        app_of(monitor, token, page), host=host, port=int(port), log_level="warning",
        limit_concurrency=MOST_REQUESTS, timeout_keep_alive=5, server_header=False,
        **secure,
    )  # fmt: skip


if __name__ == "__main__":
    main()
