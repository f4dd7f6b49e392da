"""The project's own federation under way, to which tests submit runs and in which they make faults."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomli_w

from tests.compose.container import Container
from tests.compose.stack import Stack, open_stack

HERE = Path(__file__).parent
PLUGINS = HERE.parent / "end_to_end" / "plugins"
SETTINGS = "/settings/run.toml"  # where docker-compose.yml mounts them


@dataclass
class Submitted:
    """A run under way: its job container and its folder on the host."""

    job: Container
    folder: Path

    @property
    def events(self) -> list[dict[str, Any]]:
        """What the server has written down so far."""
        path = self.folder / "events.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def has(self, kind: str, **fields: object) -> bool:
        """Say whether such an event has been written."""
        return any(e["event"] == kind and all(e.get(k) == v for k, v in fields.items()) for e in self.events)

    @property
    def summary(self) -> dict[str, Any]:
        """What the run came to."""
        summary: dict[str, Any] = json.loads((self.folder / "summary.json").read_text())
        return summary

    @property
    def last_line(self) -> str:
        """What the job said last."""
        return self.job.read_log().strip().splitlines()[-1]


def why_not() -> str:
    """Say why this machine cannot start the stack; nothing where it can."""
    found = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    return "" if found else "nginx is not installed, and the proxy is one: apt-get install nginx-light"


class Federation:
    """A stack with clients, a folder of runs, and a file of faults; `started` of the clients, if not all."""

    def __init__(
        self,
        folder: Path,
        *,
        plain: bool,
        clients: int = 3,
        started: int | None = None,
        variables: Mapping[str, str] | None = None,
        overrides: Sequence[Path] = (),
    ) -> None:
        self.runs = folder / "runs"
        self.faults = folder / "faults"
        for one in (self.runs, self.faults):
            one.mkdir(parents=True)
            one.chmod(0o777)
        self.fault("")
        (self.faults / "now").chmod(0o666)
        self._folder = folder
        self._count = 0
        given = {
            "CLIENTS": str(clients), "FEDLEARN_RUNS": str(self.runs), "PLUGINS": str(PLUGINS),
            "FAULTS": str(self.faults), **(variables or {}),
        }  # fmt: skip
        self.stack: Stack = open_stack(
            folder, plain=plain, variables=given, overrides=[HERE / "faults.yml", *overrides],
            scale={} if started is None else {"client": started},
        )  # fmt: skip

    def up(self) -> None:
        """Start all but the job."""
        self.stack.up("serverapp", "client")

    def address(self, service: str) -> str:
        """Return where a service listens, as the others see it."""
        return self.stack.wiring.address(self.stack[service], self.stack[service])

    def volume(self, name: str) -> Path:
        """Return the folder of a volume, where containers are plain processes."""
        return self._folder / "volumes" / name

    def fault(self, words: str) -> None:
        """Let nodes misbehave from now on; see tests/end_to_end/plugins/faulty.py."""
        (self.faults / "now").write_text(words)
        (self.faults / "mark").unlink(missing_ok=True)

    def wait_for_hang(self, seconds: float) -> None:
        """Wait until a node that was told to hang does."""
        self.stack.until((self.faults / "mark").exists, "a node that hangs", seconds)

    def client_of(self, partition: int) -> Container:
        """Return the container that holds a partition."""
        for container in self.stack.containers:
            held = re.findall(r"holds partition (\d+) of", container.read_log())
            if container.status == "running" and held[-1:] == [str(partition)]:
                return container
        raise LookupError(f"no client holds partition {partition}\n{self.stack.story()}")

    def submit(self, settings: Mapping[str, Any], *words: str) -> Submitted:
        """Start a job with settings as ``{"rounds.total": 3}``; it runs in a folder of its own."""
        self._count += 1
        name = f"run-{self._count}"
        toml = self._folder / f"{name}.toml"
        toml.write_text(tomli_w.dumps(_nested(settings)))
        service = self.stack.services["job"]
        mounts = tuple(replace(m, source=toml) if m.target == SETTINGS else m for m in service.mounts)
        command = (*(service.command or ()), f"--name={name}", *words)
        return Submitted(self.stack.add("job", mounts=mounts, command=command), self.runs / name)


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return tables for dotted keys.

    >>> _nested({"seed": 1, "rounds.total": 3})
    {'seed': 1, 'rounds': {'total': 3}}
    """
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        *tables, last = key.split(".")
        place = tree
        for table in tables:
            place = place.setdefault(table, {})
        place[last] = value
    return tree


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return dotted keys for tables.

    >>> flat({"seed": 1, "rounds": {"total": 3}})
    {'seed': 1, 'rounds.total': 3}
    """
    keys: dict[str, Any] = {}
    for key, value in tree.items():
        keys |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return keys
