"""The project's own federation under way, to which tests submit runs and in which they make faults."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomli_w

from tests.compose.container import Container
from tests.compose.file import Mount, Service
from tests.compose.stack import Stack, own_services

PLUGINS = Path(__file__).parents[1] / "end_to_end" / "plugins"
SETTINGS = "/settings/run.toml"  # where docker-compose.yml mounts them


@dataclass
class Submitted:
    """A run under way: its job container and its folder on the host."""

    job: Container
    folder: Path

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events that the server has written so far."""
        path = self.folder / "events.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def has(self, kind: str, **fields: object) -> bool:
        """Say whether an event of a kind and with these fields has been written."""
        return any(e["event"] == kind and all(e.get(k) == v for k, v in fields.items()) for e in self.events)

    @property
    def summary(self) -> dict[str, Any]:
        """The summary of the run that has ended."""
        summary: dict[str, Any] = json.loads((self.folder / "summary.json").read_text())
        return summary

    @property
    def last_line(self) -> str:
        """The last line that the job has printed."""
        return self.job.read_log().strip().splitlines()[-1]


def why_not() -> str:
    """Say why this machine cannot start the stack; an empty text where it can."""
    found = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    return "" if found else "nginx is not installed, and the proxy is one: apt-get install nginx-light"


class Federation:
    """A stack with clients, a folder of runs, and a file of faults; `started`: how many clients start, if not all.

    `of_server`, `of_clients`: further variables of the server's environment alone, and of the clients'.

    All find the models of `../end_to_end/plugins`, which misbehave as the file of faults says, and the packages in the
    folder `libraries`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clients: int = 3,
        started: int | None = None,
        variables: Mapping[str, str] | None = None,
        of_server: Mapping[str, str] | None = None,
        of_clients: Mapping[str, str] | None = None,
        libraries: Path | None = None,
    ) -> None:
        self.runs = folder / "runs"
        self.faults = folder / "faults"
        for one in (self.runs, self.faults):
            one.mkdir(parents=True)
        self.fault("")
        self._folder = folder
        self._libraries = () if libraries is None else (Mount("/libraries", libraries, read_only=True),)
        self._count = 0
        services = own_services({"CLIENTS": str(clients), "FEDLEARN_RUNS": str(self.runs), **(variables or {})})
        for name, further in (("serverapp", of_server or {}), ("client", of_clients or {}), ("job", {})):
            services[name] = self._with_faults(services[name], further)
        if started is not None:
            services["client"] = replace(services["client"], replicas=started)
        self.stack = Stack(services, folder)

    def up(self) -> None:
        """Start all but the job."""
        self.stack.up("serverapp", "client")

    def address(self, service: str) -> str:
        """Return the IP address at which a service listens."""
        return self.stack[service].address

    def volume(self, name: str) -> Path:
        """Return the folder of a volume."""
        return self._folder / "volumes" / name

    def fault(self, words: str) -> None:
        """Let nodes misbehave from now on, as tests/end_to_end/plugins/faulty.py says; empty: let them behave."""
        (self.faults / "now").write_text(words)
        (self.faults / "mark").unlink(missing_ok=True)

    def wait_for_hang(self, seconds: float) -> None:
        """Wait until the node hangs whose fault says so."""
        self.stack.until((self.faults / "mark").exists, "a node that hangs", seconds)

    def client_of(self, partition: int) -> Container:
        """Return the container that holds a partition."""
        for container in self.stack.containers:
            held = re.findall(r"holds partition (\d+) of", container.read_log())
            if container.status == "running" and held[-1:] == [str(partition)]:
                return container
        raise LookupError(f"no client holds partition {partition}\n{self.stack.story()}")

    def submit(self, settings: Mapping[str, Any], *words: str) -> Submitted:
        """Start a job with settings as ``{"rounds.total": 3}``; the run has a folder of its own."""
        self._count += 1
        name = f"run-{self._count}"
        toml = self._folder / f"{name}.toml"
        toml.write_text(tomli_w.dumps(dict(settings)))
        service = self.stack.services["job"]
        mounts = tuple(replace(m, source=toml) if m.target == SETTINGS else m for m in service.mounts)
        command = (*(service.command or ()), f"--name={name}", *words)
        return Submitted(self.stack.add("job", mounts=mounts, command=command), self.runs / name)

    def _with_faults(self, service: Service, further: Mapping[str, str]) -> Service:
        path = ":".join(["/plugins", *(each.target for each in self._libraries)])
        environment = {"PYTHONPATH": path, "FAULTS": "/faults/now", "MARK": "/faults/mark", **further}
        mounts = (Mount("/plugins", PLUGINS, read_only=True), Mount("/faults", self.faults), *self._libraries)
        return replace(service, environment={**service.environment, **environment}, mounts=(*service.mounts, *mounts))
