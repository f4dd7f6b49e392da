"""A container's first process: sets its world up, then becomes the command or waits for it as an init.

Started by `namespaces.py` in new namespaces, by the bare interpreter: standard library only. Its argument is a JSON
file.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any


def mount(*words: str) -> None:
    """Run mount(8)."""
    subprocess.run(["mount", *words], check=True)


def build_root(spec: dict[str, Any]) -> Path:
    """Lay a writable layer over the image and mount all that the container sees; return the new root."""
    layer = Path(spec["layer"])
    root, upper, work = (layer / name for name in ("root", "upper", "work"))
    for folder in (root, upper / "etc", work):
        folder.mkdir(parents=True, exist_ok=True)
    if spec["copied"]:  # not a layer of its own: one may not lie inside another
        shutil.copytree(spec["copied"], upper, dirs_exist_ok=True)
    (upper / "etc/hosts").write_text(spec["hosts"])
    (upper / "etc/resolv.conf").write_text("")
    mount("--make-rprivate", "/")
    mount("-t", "overlay", "overlay", "-o", f"lowerdir={spec['lower']},upperdir={upper},workdir={work}", str(root))
    mount("-t", "proc", "proc", str(at(root, "/proc")))
    mount("--rbind", "/dev", str(at(root, "/dev")))
    mount("-t", "tmpfs", "-o", "size=64m", "shm", str(at(root, "/dev/shm")))
    for path, options in spec["tmpfs"].items():
        mount("-t", "tmpfs", "-o", options or "mode=1777", "tmpfs", str(at(root, path)))
    for path in spec["borrowed"]:
        mount("--bind", path, str(at(root, path)))
        for parent in Path(path).parents:
            let_in(at(root, str(parent)))
    for one in spec["mounts"]:
        target = at(root, one["target"], is_file=not Path(one["source"]).is_dir())
        mount("--bind", one["source"], str(target))
        if one["read_only"]:
            mount("-o", "remount,bind,ro", str(target))
    at(root, spec["cwd"])
    if spec["read_only"]:
        mount("-o", "remount,ro", str(root))
    return root


def at(root: Path, path: str, *, is_file: bool = False) -> Path:
    """Return where a path of the container lies, made if it is not there."""
    place = root / path.lstrip("/")
    if is_file:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    elif not place.is_dir():
        place.mkdir(parents=True)
    return place


def let_in(folder: Path) -> None:
    """Let every user through a folder, in our layer: the interpreter may lie in root's home, or in /tmp."""
    folder.chmod(folder.stat().st_mode & 0o7777 | 0o555)


def wait_as_init(command: list[str], env: dict[str, str]) -> int:
    """Run the command, pass signals on to it, and bury every orphan; return the command's exit code."""
    child = subprocess.Popen(command, env=env).pid
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(child, number))
    while True:
        with contextlib.suppress(InterruptedError):
            pid, status = os.wait()
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
                return 128 - code if code < 0 else code


def main() -> None:
    """Set up, change over, run."""
    spec = json.loads(Path(sys.argv[1]).read_text())
    root = build_root(spec)
    socket.sethostname(spec["hostname"])
    os.chroot(root)
    os.chdir(spec["cwd"])
    os.environ["PATH"] = spec["env"]["PATH"]  # where exec looks for the command
    command = [*spec["become"], *spec["words"]]
    if spec["init"]:
        sys.exit(wait_as_init(command, spec["env"]))
    os.execvpe(command[0], command, spec["env"])


if __name__ == "__main__":
    main()
