"""Containers as plain processes: no root needed; what is read from the compose file is rewritten to fit.

Each container has a loopback address of its own, so that ports stay as they are. In commands, environments and mounted
text files, ``service:port`` becomes that service's address, the container's own names for itself (``0.0.0.0``,
``127.0.0.1``, ``localhost``) its own, and every path at which something is mounted the folder that stands for it. There
is no isolation: users, capabilities, read-only roots and networks are as on the host, but a service that shares no
network with another does not learn its address.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.compose.container import MARK, Container
from tests.compose.service import Mount

OWN = ("0.0.0.0", "127.0.0.1", "localhost")
SYSTEM = ("/dev", "/etc", "/home", "/opt", "/proc", "/root", "/run", "/srv", "/sys", "/tmp", "/usr", "/var")
SMALL = 1 << 16  # bytes; a mounted file above this is no settings file


class PlainWiring:
    """Addresses 127.x.y.z, folders, and rewritten text."""

    wrappers = 0

    def __init__(self, base: Path, network: str = "") -> None:
        self._base = base
        self.network = network or f"127.{1 + os.getpid() % 250}.{1 + os.getpid() // 250 % 250}"
        self._containers: list[Container] = []

    def place(self, container: Container) -> None:
        self._containers.append(container)
        for target in container.service.tmpfs:
            _own(container, target).mkdir(parents=True, exist_ok=True)
        for mount in container.service.mounts:
            link = _own(container, mount.target)
            link.parent.mkdir(parents=True, exist_ok=True)
            if _text_of(mount) is None:
                source = self._base / "volumes" / mount.volume if mount.volume else mount.source
                assert source is not None
                if not source.exists():
                    source.mkdir(parents=True)
                link.symlink_to(source)

    def command(self, container: Container, words: Sequence[str]) -> tuple[list[str], dict[str, str], Path]:
        image, service = container.image, container.service
        for mount in service.mounts:
            text = _text_of(mount)
            if text is not None:
                _own(container, mount.target).write_text(self._rewritten(text, container))
        given = {**dict(image.environment), **service.environment}
        env = {key: self._rewritten(value, container, alone=True) for key, value in given.items()}
        env = {
            "HOME": str(container.folder), "LANG": "C.UTF-8", **env,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin",
            "PYTHONPATH": ":".join([*filter(None, [env.get("PYTHONPATH")]), str(image.inside("."))]),
            MARK: str(container.folder),
        }  # fmt: skip
        cwd = service.working_dir or image.working_dir
        line = ["setpriv", "--pdeathsig", _last_word(words), *(self._rewritten(word, container) for word in words)]
        return line, env, Path(self._rewritten(cwd, container) if cwd != "/" else container.folder)

    visit = command

    def address(self, container: Container, seen_from: Container) -> str:
        shared = container is seen_from or set(container.service.networks) & set(seen_from.service.networks)
        return f"{self.network}.{2 + self._containers.index(container)}" if shared else ""

    def close(self) -> None:
        """Nothing was made that outlives the processes."""

    def _rewritten(self, text: str, container: Container, *, alone: bool = False) -> str:
        """Put this host's paths and addresses into a text; `alone`: also where a name stands without a port."""
        image = container.image
        app = [image.working_dir] if image.working_dir != "/" else []
        paths = "|".join(map(re.escape, sorted([*_places(container), *app], key=len, reverse=True)))
        names = {c.service.name: c for c in reversed(self._containers) if self.address(c, container)}
        ends = r"(?=:\d|,|$)" if alone else r"(?=:\d)"
        pattern = (
            rf"(?<![\w./-])(?P<path>{paths or '(?!)'})(?![\w.-])"
            rf"|(?:(?<=://)|(?<![\w./-]))(?P<name>{'|'.join(map(re.escape, names))}){ends}"
            rf"|(?<![\w.-])(?P<own>{'|'.join(map(re.escape, OWN))})(?![\w.-])"
        )

        def value(match: re.Match[str]) -> str:
            if match["path"]:
                return str(image.inside(".") if match["path"] in app else _own(container, match["path"]))
            return self.address(names[match["name"]] if match["name"] else container, container)

        return re.sub(pattern, value, text)


def _last_word(words: Sequence[str]) -> str:
    """Return the signal by which a container ends when the harness is killed.

    nginx ends its workers when it is told to end; of one that is killed they go on.
    """
    return "TERM" if words[0] == "nginx" else "KILL"


def _own(container: Container, target: str) -> Path:
    """Return the path below the container's folder that stands for one of its own."""
    return container.folder / target.strip("/")


def _places(container: Container) -> set[str]:
    """Return the container's paths that are elsewhere here: where something is mounted, and what lies above that."""
    targets = {*container.service.tmpfs, *(mount.target for mount in container.service.mounts)}
    above = {str(parent) for target in targets for parent in Path(target).parents}
    return targets | {path for path in above if not any(path == s or path.startswith(s + "/") for s in SYSTEM)} - {"/"}


def _text_of(mount: Mount) -> str | None:
    """Return the text of a file that is mounted to be read; None for anything else."""
    if mount.content:
        return mount.content
    if mount.read_only and mount.source and mount.source.is_file() and mount.source.stat().st_size < SMALL:
        return mount.source.read_text(errors="surrogateescape")
    return None
