"""Let a container be plain processes of this host, without root: what the compose file says of it is rewritten to fit.

Each container has a loopback address of its own, so that ports stay as they are. In commands, environments and mounted
text files three things are rewritten: `service:port` becomes the service's address; the container's names for itself
(`0.0.0.0`, `127.0.0.1`, `localhost`) become its own address; each path at which something is mounted becomes the folder
that stands for it. There is no isolation: users, capabilities and read-only roots are as on the host, and only the
address of a service that shares no network stays unknown to a container.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from tests.compose.file import ComposeError, Mount, Service

OWN = ("0.0.0.0", "127.0.0.1", "localhost")
SYSTEM = ("/dev", "/etc", "/home", "/opt", "/proc", "/root", "/run", "/srv", "/sys", "/tmp", "/usr", "/var")
SMALL = 1 << 16  # bytes; a mounted file above this is no settings file
MARK = "COMPOSE_CONTAINER"  # in the environment of each process of a container, so that its orphans are found, too
NETWORK = f"127.{1 + os.getpid() % 250}.{1 + os.getpid() // 250 % 250}"  # first three bytes of all addresses
LAST = range(2, 252)  # of their last bytes
_numbers = cycle(LAST)
NOT_COPIED = shutil.ignore_patterns("__pycache__")


class Image(NamedTuple):
    """The files that a Dockerfile copies: the folder in the container, and the folder that stands for it here."""

    working_dir: str
    folder: Path


def copied(build: Mapping[str, Any], context: Path, folder: Path) -> Image:
    """Do the COPY steps of a Dockerfile; this host's Python and nginx stand for what its RUN steps install."""
    image = Image("/", folder)
    for line in build.get("dockerfile_inline", "").splitlines():
        word, _, rest = line.partition(" ")
        if word == "WORKDIR":
            image = Image(rest, folder / rest.strip("/"))
        elif word == "COPY":
            *sources, target = rest.split()
            into = image.folder / target
            for source in map(context.joinpath, sources):
                if source.is_dir():
                    shutil.copytree(source, into, ignore=NOT_COPIED, dirs_exist_ok=True)
                else:
                    into.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(source, into)
        elif word not in ("FROM", "ARG", "RUN"):
            raise ComposeError(f"tests/compose cannot do the Dockerfile step {word}")
    return image


class Surroundings:
    """The folders and the address of one service, in place of Docker's isolation, and texts rewritten to both.

    `everyone` holds the surroundings of all containers of the stack, these included. No two of a process have one
    address, as long as 250 are enough.
    """

    def __init__(
        self, service: Service, folder: Path, image: Image, volumes: Path, everyone: list[Surroundings]
    ) -> None:
        self.service = service
        self.folder = folder
        self.address = f"{NETWORK}.{next(_numbers)}"
        self._image = image
        self._everyone = everyone
        everyone.append(self)
        for target in service.tmpfs:
            self._own(target).mkdir(parents=True, exist_ok=True)
        for mount in service.mounts:
            link = self._own(mount.target)
            link.parent.mkdir(parents=True, exist_ok=True)
            if _text_of(mount) is None:
                source = volumes / mount.volume if mount.volume else mount.source
                assert source is not None
                if not source.exists():
                    source.mkdir(parents=True)
                link.symlink_to(source)

    def process(self, words: Sequence[str]) -> tuple[list[str], dict[str, str], Path]:
        """Return command line, environment and working directory of one process of the container."""
        for mount in self.service.mounts:
            text = _text_of(mount)
            if text is not None:
                self._own(mount.target).write_text(self._rewritten(text))
        env = {key: self._rewritten(value, alone=True) for key, value in self.service.environment.items()}
        env = {
            "HOME": str(self.folder), "LANG": "C.UTF-8", **env,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin",
            "PYTHONPATH": ":".join([*filter(None, [env.get("PYTHONPATH")]), str(self._image.folder)]),
            MARK: str(self.folder),
        }  # fmt: skip
        cwd = self.service.working_dir or self._image.working_dir
        line = ["setpriv", "--pdeathsig", _last_signal(words), *map(self._rewritten, words)]
        return line, env, Path(self._rewritten(cwd)) if cwd != "/" else self.folder

    def _rewritten(self, text: str, *, alone: bool = False) -> str:
        """Put this host's paths and addresses into a text; `alone`: also where a name stands without a port."""
        app = self._image.working_dir
        paths = "|".join(map(re.escape, sorted(self._places() | {app} - {"/"}, key=len, reverse=True)))
        shared = [each for each in self._everyone if each is self or self._shares_a_network_with(each)]
        names = {each.service.name: each.address for each in reversed(shared)}  # a scaled service: its first
        ends = r"(?=:\d|,|$)" if alone else r"(?=:\d)"
        pattern = (
            rf"(?<![\w./-])(?P<path>{paths or '(?!)'})(?![\w.-])"
            rf"|(?:(?<=://)|(?<![\w./-]))(?P<name>{'|'.join(map(re.escape, names))}){ends}"
            rf"|(?<![\w.-])(?P<own>{'|'.join(map(re.escape, OWN))})(?![\w.-])"
        )

        def value(match: re.Match[str]) -> str:
            if match["path"]:
                return str(self._image.folder if match["path"] == app else self._own(match["path"]))
            return names[match["name"]] if match["name"] else self.address

        return re.sub(pattern, value, text)

    def _shares_a_network_with(self, other: Surroundings) -> bool:
        return bool(set(self.service.networks) & set(other.service.networks))

    def _own(self, target: str) -> Path:
        """Return the path below the container's folder that stands for one of its own."""
        return self.folder / target.strip("/")

    def _places(self) -> set[str]:
        """Return the paths of the container that lie elsewhere here: mount points, and the folders above them."""
        targets = {*self.service.tmpfs, *(mount.target for mount in self.service.mounts)}
        above = {str(parent) for target in targets for parent in Path(target).parents}
        return targets | {p for p in above if not any(p == s or p.startswith(s + "/") for s in SYSTEM)} - {"/"}


def _last_signal(words: Sequence[str]) -> str:
    """Return the signal that ends a container's first process when our own process is killed.

    nginx ends its workers when it gets SIGTERM; when it is killed, they go on.
    """
    return "TERM" if "nginx" in words or "proxy" in words else "KILL"


def _text_of(mount: Mount) -> str | None:
    """Return the text of a small file that is mounted to be read; None for any other mount."""
    if mount.content:
        return mount.content
    if mount.read_only and mount.source and mount.source.is_file() and mount.source.stat().st_size < SMALL:
        return mount.source.read_text(errors="surrogateescape")
    return None
