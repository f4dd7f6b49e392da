"""What a compose file says of a service, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class ComposeError(Exception):
    """The compose file asks for something that is wrong, or that the harness cannot do."""


@dataclass(frozen=True)
class Mount:
    """A folder or file that a container sees: from the host (`source`), or from a volume or inline text."""

    target: str
    source: Path | None = None
    volume: str = ""
    content: str = ""
    read_only: bool = False


@dataclass(frozen=True)
class HealthCheck:
    """A command that says whether a container is healthy; times in seconds."""

    command: tuple[str, ...]
    interval: float = 30.0
    timeout: float = 30.0
    retries: int = 3
    start_period: float = 0.0
    start_interval: float = 5.0


@dataclass(frozen=True)
class Joined:
    """How a service is on a network: its fixed IPv4 address and the network's first three bytes; empty where free."""

    address: str = ""
    subnet: str = ""


@dataclass(frozen=True)
class Service:
    """One service: its command, its world, and whom it waits for."""

    name: str
    build: Mapping[str, Any]  # empty: the image is taken from elsewhere
    entrypoint: tuple[str, ...] | None
    command: tuple[str, ...] | None
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]
    tmpfs: Mapping[str, str]  # path -> mount options
    networks: Mapping[str, Joined]
    depends_on: Mapping[str, str]  # service -> service_started, service_healthy, service_completed_successfully
    health: HealthCheck | None
    restart: str  # no, always, unless-stopped, on-failure or on-failure:N
    replicas: int
    grace: float  # seconds between SIGTERM and SIGKILL
    user: str
    working_dir: str
    hostname: str
    read_only: bool
    init: bool
    capabilities: tuple[str, ...] | None  # kernel capabilities that are left; None: as Docker gives them
