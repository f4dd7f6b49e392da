"""All containers of a compose file: started in order, watched, and stopped, as `docker compose` does it."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.compose.container import TICK, Container, Wiring
from tests.compose.file import read_project
from tests.compose.image import Image, build_image
from tests.compose.namespaces import NamespaceWiring
from tests.compose.plain import PlainWiring
from tests.compose.service import ComposeError, Service

FILE = Path(__file__).parents[2] / "docker-compose.yml"


class Stack:
    """A compose file under way; a context manager that stops what it has started."""

    def __init__(
        self,
        file: Path,
        folder: Path,
        wiring: Wiring,
        *,
        variables: Mapping[str, str] | None = None,
        overrides: Sequence[Path] = (),
        scale: Mapping[str, int] | None = None,
        root: Path | None = None,
        echo: Callable[[str], None] | None = None,
    ) -> None:
        self.folder = folder
        self.notes: list[str] = []
        self._echo = echo
        self.wiring = wiring
        self._lock = threading.Lock()
        self._since = time.monotonic()
        services = read_project(file, variables or {}, *overrides)
        for name, number in (scale or {}).items():
            services[name] = replace(services[name], replicas=number)
        self.services = services
        self._images: dict[str, Image] = {}
        self._root = root
        self._containers = {
            name: [self._container(service, number) for number in range(1, service.replicas + 1)]
            for name, service in services.items()
        }
        for container in self.containers:
            wiring.place(container)

    @property
    def containers(self) -> list[Container]:
        """All containers, in the order of the file."""
        return [one for many in self._containers.values() for one in many]

    def __getitem__(self, name: str) -> Container:
        """Return a container by its name, as client-2; a service's only one also by the service's."""
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
        wanted = self._with_dependencies(services or tuple(self.services))
        for name in wanted:
            for container in self._containers[name]:
                self._begin(container)

    def add(self, service: str, **changes: Any) -> Container:
        """Start one more container of a service, with some of its settings changed, as `docker compose run` does."""
        number = len(self._containers[service]) + 1
        container = self._container(replace(self.services[service], **changes), number)
        self._containers[service].append(container)
        self.wiring.place(container)
        self._begin(container)
        return container

    def down(self) -> None:
        """Stop all, those first on whom nobody depends."""
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
        self.wiring.close()

    def wait(self, name: str, seconds: float) -> int:
        """Return the exit code of a container that ends by itself; kept waiting too long, say what has happened."""
        container = self[name]
        self.until(lambda: container.status == "exited", f"the end of {name}", seconds)
        return -1 if container.code is None else container.code

    def until(self, condition: Callable[[], object], what: str, seconds: float) -> None:
        """Wait for a condition; kept waiting too long, fail with what has happened."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"waited {seconds:g} s for {what}\n{self.story()}")
            time.sleep(TICK)

    def story(self, lines: int = 15) -> str:
        """Return what has happened, and the end of each log: for the reader of a failed test."""
        ends = [
            f"--- {container.name}: {container.status}, code {container.code}\n"
            + "\n".join(container.read_log().splitlines()[-lines:])
            for container in self.containers
        ]
        return "\n".join([*self.notes, *ends])

    def note(self, text: str) -> None:
        """Write down what has happened to a container, with the seconds since the start."""
        with self._lock:
            self.notes.append(f"{time.monotonic() - self._since:7.2f} s  {text}")
            if self._echo:
                self._echo(self.notes[-1])

    def _begin(self, container: Container) -> None:
        container.begin([
            (other, condition)
            for dependency, condition in container.service.depends_on.items()
            for other in self._containers[dependency]
        ])  # fmt: skip

    def _container(self, service: Service, number: int) -> Container:
        folder = self.folder / "containers" / f"{service.name}-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return Container(service, number, self._image(service), folder, self.wiring, self.note)

    def _image(self, service: Service) -> Image:
        """Build each Dockerfile once."""
        key = str(sorted(service.build.items()))
        if key not in self._images:
            self._images[key] = build_image(
                service.build, self.folder / "images" / str(len(self._images)), self._root if service.build else None
            )
        return self._images[key]

    def _with_dependencies(self, names: Sequence[str]) -> list[str]:
        wanted = set(names)
        while True:
            more = {other for name in wanted for other in self.services[name].depends_on} - wanted
            if not more:
                return [name for name in self.services if name in wanted]
            wanted |= more


def open_stack(
    folder: Path,
    *,
    plain: bool,
    file: Path = FILE,
    variables: Mapping[str, str] | None = None,
    overrides: Sequence[Path] = (),
    scale: Mapping[str, int] | None = None,
    root: Path | None = None,
    echo: Callable[[str], None] | None = None,
) -> Stack:
    """Return the project's own stack, ready to start: `with` starts and stops it."""
    given = dict(variables or {})
    wiring = PlainWiring(folder) if plain else NamespaceWiring(folder)
    if isinstance(wiring, PlainWiring):  # the certificate must hold the addresses that stand for superlink and proxy
        names = [given.get("FEDLEARN_HOSTNAME", "localhost"), *(f"{wiring.network}.{n}" for n in range(2, 12))]
        given["FEDLEARN_HOSTNAME"] = ",".join(names)
    return Stack(file, folder, wiring, variables=given, overrides=overrides, scale=scale, root=root, echo=echo)
