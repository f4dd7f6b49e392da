"""The steps of a Dockerfile, done without Docker.

Without a root file system, files are copied into a folder that lies over the host's own, and RUN steps are left out:
the host's Python stands for what they install. With one (a clean Debian that stands for FROM), RUN steps are run in it
once, by ``python -m tests.compose build ROOT``; it then serves any number of stacks.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.compose.file import filled
from tests.compose.service import ComposeError

NOT_COPIED = shutil.ignore_patterns(".git", ".*_cache", ".venv", "__pycache__", ".hypothesis")


@dataclass(frozen=True)
class Image:
    """What a container starts from."""

    folder: Path  # what the steps have copied; the whole root file system where `complete`
    complete: bool = False
    environment: tuple[tuple[str, str], ...] = ()
    working_dir: str = "/"
    user: str = "0:0"
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()

    def inside(self, path: str) -> Path:
        """Return where a path of the image lies on the host."""
        return self.folder / os.path.normpath(os.path.join(self.working_dir, path)).lstrip("/")  # noqa: PTH118


def build_image(build: Mapping[str, Any], folder: Path, root: Path | None = None, *, with_run: bool = False) -> Image:
    """Do the steps of a service's Dockerfile, RUN only if asked for; without a Dockerfile the image is empty."""
    image = Image(root or folder, complete=root is not None)
    image.folder.mkdir(parents=True, exist_ok=True)
    context = build.get("context", Path())
    variables: dict[str, str] = {}
    for word, rest in _steps(build):
        if word == "ARG":
            name, _, value = rest.partition("=")
            variables[name] = str((build.get("args") or {}).get(name, value))
        elif word == "RUN":
            if with_run:
                _run(image, rest, variables)
        else:
            image = _step(image, word, filled(rest, {**variables, **dict(image.environment)}), context)
    return image


def _steps(build: Mapping[str, Any]) -> list[tuple[str, str]]:
    if not build:
        return []
    text = build.get("dockerfile_inline") or (build["context"] / build.get("dockerfile", "Dockerfile")).read_text()
    lines = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    return [(line.split(None, 1)[0].upper(), line.split(None, 1)[1].strip()) for line in lines if line.strip()]


def _step(image: Image, word: str, rest: str, context: Path) -> Image:
    match word:
        case "FROM":
            return image
        case "WORKDIR":
            image = replace(image, working_dir=os.path.join(image.working_dir, rest))  # noqa: PTH118
            image.inside(".").mkdir(parents=True, exist_ok=True)
            return image
        case "USER":
            return replace(image, user=rest)
        case "ENV":
            pairs = tuple((pair.partition("=")[0], pair.partition("=")[2]) for pair in shlex.split(rest))
            return replace(image, environment=image.environment + pairs)
        case "ENTRYPOINT":
            return replace(image, entrypoint=_words(rest))
        case "CMD":
            return replace(image, command=_words(rest))
        case "COPY":
            _copy(image, [entry for entry in shlex.split(rest) if not entry.startswith("--")], context)
            return image
        case "EXPOSE" | "LABEL" | "HEALTHCHECK" | "STOPSIGNAL" | "VOLUME":
            return image
    raise ComposeError(f"the harness cannot do the Dockerfile step {word}")


def _words(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text)) if text.startswith("[") else ("/bin/sh", "-c", text)


def _copy(image: Image, words: list[str], context: Path) -> None:
    *sources, target = words
    into = image.inside(target)
    for pattern in sources:
        for source in sorted(context.glob(pattern)) if pattern != "." else [context]:
            if source.is_dir():
                shutil.copytree(source, into, ignore=NOT_COPIED, dirs_exist_ok=True)
            else:
                goal = into / source.name if len(sources) > 1 or target.endswith(("/", ".")) else into
                goal.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, goal)


def _run(image: Image, command: str, variables: Mapping[str, str]) -> None:
    """Run a step in the image's own root file system, as it is; with network, as `docker build` has it."""
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    env = {"PATH": path, "HOME": "/root", **dict(image.environment), **variables}
    inside = f"cd {shlex.quote(image.working_dir)} && {command}"
    user = ["--userspec", image.user] if image.user != "0:0" else []
    done = subprocess.run(["chroot", *user, image.folder, "/bin/sh", "-c", inside], env=env)
    if done.returncode:
        sys.exit(f"RUN {command}: exit code {done.returncode}")
