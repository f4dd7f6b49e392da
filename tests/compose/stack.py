"""All containers of a compose file: started in order, watched, and stopped, as `docker compose` does it."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.compose.container import Container
from tests.compose.file import ComposeError, Service, read_project
from tests.compose.plain import LAST, NETWORK, Surroundings, copied
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"


def own_services(variables: Mapping[str, str]) -> dict[str, Service]:
    """Return the services of the project's own file, whose certificate also holds the addresses of plain processes."""
    names = [variables.get("FEDLEARN_HOSTNAME", "localhost"), *(f"{NETWORK}.{number}" for number in LAST)]
    return read_project(FILE, {**variables, "FEDLEARN_HOSTNAME": ",".join(names)})


class Stack:
    """Services under way; a context manager that stops what it has started. `context` is where images copy from."""

    def __init__(
        self,
        services: Mapping[str, Service],
        folder: Path,
        *,
        context: Path = ROOT,
        echo: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.services = services
        self.notes: list[str] = []
        self._folder = folder
        self._echo = echo
        self._lock = threading.Lock()
        self._since = time.monotonic()
        (*_, build) = [{}, *(service.build for service in services.values() if service.build)]
        self._image = copied(build, context, folder / "image")
        self._surroundings: list[Surroundings] = []
        self._containers = {
            name: [self._container(service, number) for number in range(1, service.replicas + 1)]
            for name, service in services.items()
        }

    @property
    def containers(self) -> list[Container]:
        """All containers, in the order of the file."""
        return [one for many in self._containers.values() for one in many]

    def __getitem__(self, name: str) -> Container:
        """Return a container by its name, as client-2; by the name of a service, the first of the service's."""
        for container in self.containers:
            if name in (container.name, container.service.name):
                return container
        raise KeyError(name)

    def __enter__(self) -> Stack:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def up(self, *services: str) -> None:
        """Start services and those that they depend on; all where none is named."""
        wanted = set(services or self.services)
        while more := {other for name in wanted for other in self.services[name].depends_on} - wanted:
            wanted |= more
        for container in self.containers:
            if container.service.name in wanted:
                self._begin(container)

    def add(self, service: str, **changes: Any) -> Container:
        """Start one more container of a service with some of its values changed, as `docker compose run` does."""
        container = self._container(replace(self.services[service], **changes), len(self._containers[service]) + 1)
        self._containers[service].append(container)
        self._begin(container)
        return container

    def down(self) -> None:
        """Stop all containers; a service is stopped when no running service depends on it."""
        left = list(self.services)
        while left:
            free = [n for n in left if not any(n in self.services[other].depends_on for other in left)]
            if not free:
                raise ComposeError(f"services depend on each other in a circle: {', '.join(left)}")
            stopping = [threading.Thread(target=c.stop) for name in free for c in self._containers[name]]
            for thread in stopping:
                thread.start()
            for thread in stopping:
                thread.join()
            left = [name for name in left if name not in free]

    def wait(self, name: str, seconds: float) -> int:
        """Return the exit code of a container that ends by itself."""
        container = self[name]
        self.until(lambda: container.status == "exited", f"the end of {name}", seconds)
        return -1 if container.code is None else container.code

    def until(self, condition: Callable[[], object], what: str, seconds: float) -> None:
        """Wait for a condition; after `seconds`, fail with what has happened."""
        wait_until(condition, lambda: f"{what}\n{self.story()}", seconds, every=0.05)

    def story(self, lines: int = 15) -> str:
        """Return what has happened, and the end of each log: for the reader of a failed test."""
        ends = [
            f"--- {container.name}: {container.status}, code {container.code}\n"
            + "\n".join(container.read_log().splitlines()[-lines:])
            for container in self.containers
        ]
        return "\n".join([*self.notes, *ends])

    def _note(self, text: str) -> None:
        with self._lock:
            self.notes.append(f"{time.monotonic() - self._since:7.2f} s  {text}")
            self._echo(self.notes[-1])

    def _begin(self, container: Container) -> None:
        container.begin([
            (other, condition)
            for dependency, condition in container.service.depends_on.items()
            for other in self._containers[dependency]
        ])  # fmt: skip

    def _container(self, service: Service, number: int) -> Container:
        name = f"{service.name}-{number}"
        folder = self._folder / "containers" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        surroundings = Surroundings(service, folder, self._image, self._folder / "volumes", self._surroundings)
        return Container(name, surroundings, self._folder / "logs" / f"{name}.log", self._note)
