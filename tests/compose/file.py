"""Read the compose file: what each service runs, what it sees, and which services it waits for.

A key or a form that this reader does not know is an error, so that nothing in the file is left out in silence. The
Compose Specification is checked by `schema`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

READ = {
    "build", "cap_add", "cap_drop", "command", "configs", "depends_on", "deploy", "environment", "healthcheck",
    "network_mode", "networks", "read_only", "restart", "stop_grace_period", "tmpfs", "user", "volumes", "working_dir",
}  # fmt: skip
LEFT_OUT = {"image", "init", "logging", "pids_limit", "ports", "pull_policy", "security_opt"}  # Docker's own business
VARIABLE = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<name>\w+)(?::(?P<sign>[-+])(?P<other>[^}]*))?\}|(?P<unknown>))")


class ComposeError(Exception):
    """The compose file asks for something that this folder cannot do."""


@dataclass(frozen=True)
class Mount:
    """A folder or file that a container sees: of the host (`source`), of a volume, or made of a text (`content`)."""

    target: str
    source: Path | None = None
    volume: str = ""
    content: str = ""
    read_only: bool = False


@dataclass(frozen=True)
class HealthCheck:
    """A command whose exit code says whether a container is healthy; times in seconds."""

    command: tuple[str, ...]
    every: float
    timeout: float


@dataclass(frozen=True)
class Service:
    """One service: its command, its surroundings, and the services that it waits for."""

    name: str
    build: Mapping[str, Any]  # empty where another service builds the image
    command: tuple[str, ...]
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]
    tmpfs: Mapping[str, str]  # path -> mount options
    networks: Mapping[str, str]  # name -> the service's fixed IPv4 address on it; empty where free
    depends_on: Mapping[str, str]  # service -> service_started, service_healthy, service_completed_successfully
    health: HealthCheck | None
    restart: str  # no, unless-stopped or on-failure
    replicas: int
    grace: float  # seconds between SIGTERM and SIGKILL
    user: str
    working_dir: str
    read_only: bool
    capabilities: tuple[str, ...] | None  # the kernel capabilities that are left; None: as Docker gives them


def read_project(path: Path, variables: Mapping[str, str]) -> dict[str, Service]:
    """Return the services of a compose file by name, with variables put in and paths resolved beside the file."""
    tree = filled(yaml.safe_load(path.read_text()), variables)
    return {name: _service(name, body, tree, path.parent) for name, body in tree["services"].items()}


def filled(tree: Any, variables: Mapping[str, str]) -> Any:
    """Return a YAML tree with variables put into each of its texts.

    >>> filled(["${A:-x} ${C} ${C:+y} $$D"], {"A": "", "C": "c"})
    ['x c y $D']
    """
    if isinstance(tree, dict):
        return {key: filled(value, variables) for key, value in tree.items()}
    if isinstance(tree, list):
        return [filled(value, variables) for value in tree]

    def value(match: re.Match[str]) -> str:
        if match["dollar"]:
            return "$"
        if match["unknown"] is not None:
            raise ComposeError(f"{tree!r}: write a variable as ${{NAME}}, ${{NAME:-default}} or ${{NAME:+instead}}")
        given, other = variables.get(match["name"], ""), match["other"] or ""
        return (other if given else "") if match["sign"] == "+" else given or other

    return VARIABLE.sub(value, tree) if isinstance(tree, str) else tree


def _service(name: str, body: dict[str, Any], tree: dict[str, Any], folder: Path) -> Service:
    if unknown := sorted(set(body) - READ - LEFT_OUT):
        raise ComposeError(f"service {name!r}: tests/compose cannot do {', '.join(unknown)}")
    networks = {} if body.get("network_mode") == "none" else body.get("networks") or {"default": {}}
    return Service(
        name=name,
        build=body.get("build") or {},
        command=tuple(map(str, body["command"])),
        environment=dict(body.get("environment") or {}),
        mounts=(*_volumes(body, tree, folder), *_configs(body, tree)),
        tmpfs={entry.partition(":")[0]: entry.partition(":")[2] for entry in body.get("tmpfs") or ()},
        networks={
            each: (networks[each] or {}).get("ipv4_address", "") if isinstance(networks, dict) else ""
            for each in networks
        },
        depends_on={other: entry["condition"] for other, entry in (body.get("depends_on") or {}).items()},
        health=_health(body.get("healthcheck")),
        restart=str(body.get("restart") or "no"),
        replicas=int((body.get("deploy") or {}).get("replicas") or 1),
        grace=_seconds(body.get("stop_grace_period", "10s")),
        user=str(body.get("user") or ""),
        working_dir=body.get("working_dir") or "",
        read_only=bool(body.get("read_only")),
        capabilities=tuple(body.get("cap_add") or ()) if body.get("cap_drop") == ["ALL"] else None,
    )


def _volumes(body: dict[str, Any], tree: dict[str, Any], folder: Path) -> list[Mount]:
    mounts = []
    for entry in body.get("volumes") or ():
        source, target, *mode = entry.split(":")
        if source.startswith((".", "/")):
            mounts.append(Mount(target, (folder / source).resolve(), read_only=mode == ["ro"]))
        elif source in (tree.get("volumes") or {}):
            mounts.append(Mount(target, volume=source, read_only=mode == ["ro"]))
        else:
            raise ComposeError(f"volume {source!r} of {entry!r} is not declared under `volumes`")
    return mounts


def _configs(body: dict[str, Any], tree: dict[str, Any]) -> list[Mount]:
    entries = body.get("configs") or ()
    return [Mount(e["target"], content=tree["configs"][e["source"]]["content"], read_only=True) for e in entries]


def _health(body: dict[str, Any] | None) -> HealthCheck | None:
    if not body:
        return None
    kind, *command = body["test"]
    if kind != "CMD":
        raise ComposeError(f"health check {body['test']}: write it as [CMD, word, ...]")
    return HealthCheck(tuple(command), every=_seconds(body["start_interval"]), timeout=_seconds(body["timeout"]))


def _seconds(duration: str) -> float:
    if not re.fullmatch(r"[\d.]+s", duration):
        raise ComposeError(f"{duration!r}: write it in seconds, as 10s")
    return float(duration[:-1])
