"""Write the packages that the image installs, with the SHA-256 of each file, as pip resolves them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILE = ROOT / "fedlearn" / "engine" / "deployment" / "requirements.txt"
PROCESSORS = ("x86_64", "aarch64")
GLIBC = (28, 27, 26, 24, 17)  # whose wheels Debian 12 can run
HEAD = """\
# What docker-compose.yml installs, for Python 3.11 on Linux, x86_64 and aarch64, by `python -m tests.compose lock`.
# torch and torchvision need no GPU: of the index that the compose file names. To renew it: docs/howto/deployment.md.
"""


def declared() -> list[str]:
    """Return the requirements of pyproject.toml: to run all, to be built, and to be installed in place."""
    read = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = read["project"]["optional-dependencies"]
    wanted = re.findall(r"\w+", extras["all"][0].partition("[")[2])
    needed = [*read["project"]["dependencies"], *(each for name in wanted for each in extras[name])]
    return [*needed, *read["build-system"]["requires"], "editables"]


@dataclass
class Package:
    """One package: the SHA-256 of its files, and the names of the packages that it asks for."""

    hashes: set[str] = field(default_factory=set)
    needs: set[str] = field(default_factory=set)


Packages = dict[tuple[str, str], Package]  # by name and version


def name_of(requirement: str) -> str:
    """Return the name of a package in a requirement, as it is written in the file."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._-]", requirement.strip())[0]).lower()


def resolved(requirements: Sequence[str], processor: str, options: Sequence[str] = ()) -> Packages:
    """Return what pip would install on a kind of processor, without installing it."""
    tags = [f"--platform=manylinux_2_{number}_{processor}" for number in GLIBC]
    tags += [f"--platform=manylinux2014_{processor}", f"--platform=linux_{processor}"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed"]
        command += ["--only-binary=:all:", "--python-version=3.11", "--implementation=cp", "--abi=cp311", "--abi=abi3"]
        command += ["--abi=none", *tags, f"--target={folder}", f"--report={report}", *options, *requirements]
        subprocess.run(command, check=True)
        found = json.loads(report.read_text(encoding="utf-8"))["install"]
    return {
        (name_of(about["name"]), about["version"]): Package(
            {each["download_info"]["archive_info"]["hashes"]["sha256"]},
            set(map(name_of, about.get("requires_dist") or ())),
        )
        for each in found
        for about in [each["metadata"]]
    }


def locked(index: str) -> str:
    """Return the file's text; `index`: where torch without a GPU is."""
    return written([resolved(declared(), processor, [f"--extra-index-url={index}"]) for processor in PROCESSORS])


def written(of_processors: Sequence[Packages]) -> str:
    """Return the text of a requirements file: each package, its files' SHA-256, and who asks for it."""
    packages: Packages = defaultdict(Package)
    for key, package in (each for found in of_processors for each in found.items()):
        packages[key].hashes |= package.hashes
        packages[key].needs |= package.needs
    names = [name for name, _ in packages]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        sys.exit(f"not of one version on all processors: {', '.join(twice)}. Name one in pyproject.toml")
    if for_gpu := [name for name in names if name.startswith(("nvidia-", "cuda-"))]:
        sys.exit(f"for a GPU: {', '.join(for_gpu)}. The index of torch without one has not the newest yet")
    lines, asked = [], set(map(name_of, declared()))
    for (name, version), package in sorted(packages.items()):
        who = ["pyproject.toml"] * (name in asked)
        who += sorted(other for (other, _), each in packages.items() if name in each.needs and other != name)
        lines += [f"{name}=={version.partition('+')[0]} \\"]
        lines += [f"    --hash=sha256:{each} \\" for each in sorted(package.hashes)]
        lines[-1] = lines[-1].removesuffix(" \\")
        lines += [f"    # for {', '.join(who)}"]
    return HEAD + "\n".join(lines) + "\n"
