"""Containers in namespaces of their own: the kernel's part of what Docker does. Needs root.

Each container has its own root file system (a layer over the image, or over the host's own root), mounts, process ids,
host name and, on each of its networks, an address of its own. Networks are bridges in a namespace of theirs, without
a way to each other or out; the host's own network is not touched. `cut` pulls a container's cable, `heal` puts it back.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.compose.container import MARK, Container
from tests.compose.service import Mount

INSIDE = Path(__file__).with_name("inside.py")
TOOLS = ("ip", "nsenter", "setpriv", "unshare")


def why_not() -> str:
    """Say why this machine cannot do it; nothing where it can."""
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        return f"{', '.join(missing)} not installed"
    if os.geteuid() != 0:
        return "not root"
    done = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "true"], capture_output=True, text=True)
    return done.stderr.strip()


class NamespaceWiring:
    """Root, mounts, processes and network of each container's own."""

    wrappers = 1  # `unshare`, which waits for the container's first process

    def __init__(self, base: Path, subnet: str = "10.89") -> None:
        self._base = base
        self._subnet = subnet
        self._switch = _holder()
        self._networks: list[str] = []
        self._ports: dict[Container, subprocess.Popen[bytes]] = {}
        self._addresses: dict[tuple[Container, str], str] = {}

    def place(self, container: Container) -> None:
        number = len(self._ports)
        port = self._ports[container] = _holder()
        self._ip(port, "link set lo up")
        for k, (name, joined) in enumerate(container.service.networks.items()):
            bridge = self._bridge(name)
            address = joined.address or f"{joined.subnet or f'{self._subnet}.{bridge}'}.{number + 20}"
            self._addresses[container, name] = address
            self._ip(
                self._switch, f"link add v{number}n{k} type veth peer name c{number}n{k}",
                f"link set c{number}n{k} netns {port.pid} name eth{k}", f"link set v{number}n{k} master br{bridge} up",
            )  # fmt: skip
            self._ip(port, f"addr add {address}/24 dev eth{k}", f"link set eth{k} up")

    def cut(self, container: Container) -> None:
        """Pull the container's cables: what it sends is lost, and nothing reaches it."""
        self._set_cables(container, "down")

    def heal(self, container: Container) -> None:
        """Put the cables back."""
        self._set_cables(container, "up")

    def command(self, container: Container, words: Sequence[str]) -> tuple[list[str], dict[str, str], Path]:
        spec = container.folder / "inside.json"
        spec.write_text(json.dumps(self._inside(container, words), indent=1))
        net = f"--net=/proc/{self._ports[container].pid}/ns/net"
        own = ["--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child"]
        line = ["setpriv", "--pdeathsig", "KILL", "nsenter", net, "unshare", *own, sys.executable, "-IS", str(INSIDE)]
        return [*line, str(spec)], {"PATH": os.environ["PATH"], MARK: str(container.folder)}, Path("/")

    def visit(self, container: Container, words: Sequence[str]) -> tuple[list[str], dict[str, str], Path]:
        inside = self._inside(container, words)
        (_, first, *_) = container.processes()
        line = ["nsenter", "--all", "--root", "--wd", f"--target={first.pid}"]
        return [*line, *inside["become"], *words], inside["env"], Path("/")

    def address(self, container: Container, seen_from: Container) -> str:
        if container is seen_from:
            return "127.0.0.1"
        shared = [n for n in seen_from.service.networks if (container, n) in self._addresses]
        return self._addresses[container, shared[0]] if shared else ""

    def close(self) -> None:
        """End the processes that hold the networks, and with them the networks."""
        for holder in (*self._ports.values(), self._switch):
            holder.kill()
            holder.wait()

    def _inside(self, container: Container, words: Sequence[str]) -> dict[str, Any]:
        """Return all that the container's first process needs to know to set its world up."""
        image, service = container.image, container.service
        user, _, group = (service.user or image.user).partition(":")
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        env = {"HOME": "/", "PATH": path, **dict(image.environment), **service.environment, MARK: str(container.folder)}
        if not image.complete:  # the host's Python stands for the image's
            env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
            env["PYTHONPATH"] = ":".join([*filter(None, [env.get("PYTHONPATH")]), image.working_dir])
        return {
            "layer": str(container.folder),
            "lower": str(image.folder) if image.complete else "/",
            "copied": "" if image.complete else str(image.folder),
            "borrowed": [] if image.complete else sorted({sys.prefix, sys.base_prefix}),
            "mounts": [self._mount(container, number, m) for number, m in enumerate(service.mounts)],
            "tmpfs": {**({} if image.complete else {"/tmp": ""}), **service.tmpfs},
            "read_only": service.read_only,
            "hostname": service.hostname or container.name,
            "hosts": self._hosts(container),
            "cwd": service.working_dir or image.working_dir,
            "env": env,
            "init": service.init,
            "become": _become(user, group or user, service.capabilities),
            "words": list(words),
        }

    def _mount(self, container: Container, number: int, mount: Mount) -> dict[str, Any]:
        source = self._base / "volumes" / mount.volume if mount.volume else mount.source
        if mount.content:
            source = container.folder / f"config-{number}"
            source.write_text(mount.content)
        assert source is not None
        if not source.exists():
            source.mkdir(parents=True)  # as Docker does: root's own
        return {"source": str(source), "target": mount.target, "read_only": mount.read_only}

    def _hosts(self, container: Container) -> str:
        """Return its /etc/hosts: itself, and who shares a network with it; of a scaled service the first."""
        lines = ["127.0.0.1 localhost"]
        for other in self._ports:
            address = self.address(other, container)
            if other is not container and address:
                lines.append(f"{address} {other.name}" + (f" {other.service.name}" if other.number == 1 else ""))
        return "\n".join(lines) + "\n"

    def _bridge(self, network: str) -> int:
        """Return the number of a network's bridge, made the first time."""
        if network not in self._networks:
            self._networks.append(network)
            number = len(self._networks) - 1
            self._ip(self._switch, f"link add br{number} type bridge", f"link set br{number} up")
        return self._networks.index(network)

    def _set_cables(self, container: Container, how: str) -> None:
        number = list(self._ports).index(container)
        count = len(container.service.networks)
        self._ip(self._switch, *(f"link set v{number}n{k} {how}" for k in range(count)))

    def _ip(self, holder: subprocess.Popen[bytes], *commands: str) -> None:
        """Run `ip` commands in the network namespace that a process holds."""
        line = ["nsenter", f"--net=/proc/{holder.pid}/ns/net", "ip", "-batch", "-"]
        subprocess.run(line, input="\n".join(commands), text=True, check=True, capture_output=True)


def _holder() -> subprocess.Popen[bytes]:
    """Start a process whose only task is to have a network namespace; it says when it has it, and dies with us."""
    line = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-c", "echo; exec sleep infinity"]
    process = subprocess.Popen(line, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    return process


def _become(user: str, group: str, capabilities: Sequence[str] | None) -> list[str]:
    """Return the words that take on a user, and leave only some of root's capabilities."""
    ids = [f"--reuid={user}", f"--regid={group}", "--clear-groups", "--no-new-privs"]
    if capabilities is None:
        return ["setpriv", *ids]
    left = "".join(f",+{name.lower()}" for name in capabilities)
    return ["setpriv", *ids, f"--bounding-set=-all{left}", f"--inh-caps=-all{left}"]
