"""``fedlearn doctor``: what this machine has, and what is missing."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedlearn.core.errors import RunFailed, printable
from fedlearn.plugins.extras import EXTRA_OF

OK, NOTE, FAULT = "ok", "note", "fault"
PORTS = {8443: "clients connect to it (fedlearn server)", 8000: "runs are submitted to it", 8765: "--dashboard"}
LEAST_FREE = 5.0  # GB: torch with CUDA takes 5
WITHOUT_DATA = "without it cifar10 is downloaded; digits and diabetes come with scikit-learn"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: how it is (ok, note or fault), what was found, and what to do."""

    name: str
    state: str
    found: str
    do: str = ""


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print only JSON.")] = False,
) -> None:
    """Check this machine: versions, cores, GPU, data, cache, disk, ports; print what to do.

    Exit code 1 if a fault prevents every run.
    """
    found = list(findings())
    if as_json:
        print(json.dumps([asdict(each) for each in found], indent=2))
    else:
        Console(highlight=False).print(_table(found))
    if faults := [each for each in found if each.state == FAULT]:
        raise RunFailed(printable(f"{faults[0].name}: {faults[0].found}; {faults[0].do}"))


def findings() -> Iterator[Finding]:
    """Yield what was found, one thing after another."""
    from fedlearn.engine.deployment.proxy import nginx
    from fedlearn.runs.environment import environment

    here = environment()
    yield Finding("python", OK, f"{here['python']} on {here['platform']}")
    yield from _packages(here["packages"])
    yield Finding("processor", OK, f"{here['cores']} cores, {here['processor']}")
    yield Finding("memory", OK, f"{_memory():.0f} GB")
    yield _gpu(here["gpus"])
    yield _compiled()
    yield from _data()
    yield _cache()
    yield _disk(Path.cwd())
    yield from map(_port, PORTS)
    found = nginx()
    yield Finding("nginx", OK if found else NOTE, found or "not found", "" if found else "fedlearn server needs it")


def _packages(versions: dict[str, str | None]) -> Iterator[Finding]:
    for name, version in versions.items():
        if version is None and (library := name.replace("-", "_")) in EXTRA_OF:
            yield Finding(name, NOTE, "not installed", f'pip install "fedlearn[{EXTRA_OF[library]}]" installs it')
        elif version is None and name != "fedlearn":
            yield Finding(name, FAULT, "not installed", "pip install fedlearn installs it")
        else:
            yield Finding(name, OK, version or "not installed: it runs from its folder")


def _memory() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _gpu(names: list[str]) -> Finding:
    import torch

    if torch.cuda.is_available():
        return Finding("gpu", OK, ", ".join(names) or torch.cuda.get_device_name(), "take it by engine.device=cuda")
    if names:
        return Finding("gpu", NOTE, f"{', '.join(names)}, which torch cannot use", "install torch with CUDA")
    return Finding("gpu", OK, "none: runs train on the processor")


def _compiled() -> Finding:
    from fedlearn.kernels.pooled_convolution import has_vectors

    if has_vectors():
        return Finding("convolutions", OK, "compiled, on vectors of this processor")
    return Finding("convolutions", NOTE, "those of torch: the built-in cnn takes twice the time",
                   "numba, on a processor with AVX2, compiles ours")  # fmt: skip


def _data() -> Iterator[Finding]:
    from fedlearn.data import adult, california, cifar10

    files_of = {
        "cifar10": ("cifar10/train.parquet", cifar10.BATCHES), "california": (california.FILE,), "adult": (adult.FILE,),
    }  # fmt: skip
    named = os.environ.get("FEDLEARN_DATA", "")
    folder = Path(named).expanduser()
    if not named or not folder.is_dir():
        yield Finding("data", NOTE, f"FEDLEARN_DATA = {named!r}: no folder" if named else "FEDLEARN_DATA is not set",
                      WITHOUT_DATA)  # fmt: skip
        return
    there = [name for name, files in files_of.items() if any((folder / file).exists() for file in files)]
    yield Finding("data", OK if there else NOTE, f"{folder}: {', '.join(there) or 'none of ours'}")


def _cache() -> Finding:
    from fedlearn.cache.trusted import cache_folder, named_cache

    found = cache_folder()
    if found is None:
        return Finding("cache", NOTE, f"{named_cache()} cannot be used", "set FEDLEARN_CACHE to your own folder")
    return Finding("cache", OK, f"{found}, {_gigabytes(found):.0f} GB free")


def _disk(folder: Path) -> Finding:
    free = _gigabytes(folder)
    if not os.access(folder, os.W_OK):
        return Finding("folder", NOTE, f"{folder} cannot be written to", "give --out FOLDER")
    return Finding("folder", OK if free > LEAST_FREE else NOTE, f"{folder}, {free:.0f} GB free")


def _gigabytes(folder: Path) -> float:
    return shutil.disk_usage(folder).free / 2**30


def _port(port: int) -> Finding:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError as error:
            return Finding(f"port {port}", NOTE, f"{error.strerror}: {PORTS[port]}", "name another port")
    return Finding(f"port {port}", OK, f"free: {PORTS[port]}")


def _table(found: list[Finding]) -> Table:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for each in found:
        colour = {OK: "green", NOTE: "yellow", FAULT: "red"}[each.state]
        text = f"{each.found}; {each.do}" if each.do else each.found
        table.add_row(f"[{colour}]{each.state}[/]", each.name, escape(printable(text)))
    return table
