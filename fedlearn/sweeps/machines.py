"""Runs of a sweep on the machines of a Ray cluster: each a whole run, server and nodes in one process, as in a lane.

A run begins with what its folder has already, and its folder comes back when it has ended. A run whose process or
machine dies is made anew on another, with the same bytes; if it dies there, too, it has failed.
"""

from __future__ import annotations

import io
import shutil
import zipfile
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from fedlearn.config import RunConfig
from fedlearn.core.errors import RunFailed, UsageError, error_of
from fedlearn.engine.ray_runtime.calls import called
from fedlearn.engine.ray_runtime.cluster import versions, why_unequal
from fedlearn.sweeps.parallel import Ended, outcome_of


def can_spread(configs: Sequence[RunConfig]) -> bool:
    """Return whether runs go onto the machines of one cluster: several, on Ray, that name no number of workers."""
    if len(configs) < 2 or any(config.engine != configs[0].engine for config in configs):
        return False
    return configs[0].engine.name == "ray" and not configs[0].engine.workers


def on_machines(
    configs: Sequence[RunConfig], *, address: str = "", client_cpus: float = 1.0, client_gpus: float = 0.0
) -> Generator[Ended, None, None]:
    """Make runs wherever the cluster has room; yield each as it ends. The options are those of the engine `ray`."""
    ours = versions()
    begun = [(config, ours, packed(Path(config.out))) for config in configs]
    with closing(called(_made, begun, address=address, cpus=client_cpus, gpus=client_gpus)) as ended:
        for place, outcome in ended:
            if isinstance(outcome, RunFailed):
                yield place, outcome
                continue
            code, text, folder = outcome
            unpack(folder, Path(configs[place].out))
            yield place, error_of(code, text) if code else None


def _made(config: RunConfig, wanted: dict[str, str], before: bytes) -> tuple[int, str, bytes]:
    """Make a run in a temporary folder; return its exit code, the reason of a failure, and the folder."""
    if why := why_unequal(wanted, versions()):
        return UsageError.exit_code, why, b""
    with TemporaryDirectory(prefix="fedlearn-") as place:
        folder = Path(place) / "run"
        unpack(before, folder)
        code, text = outcome_of(config.model_copy(update={"out": str(folder)}))
        return code, text.replace(str(folder), config.out), packed(folder)


def packed(folder: Path) -> bytes:
    """Return all files of a folder as a zip; empty if there is no folder."""
    if not folder.exists():
        return b""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", strict_timestamps=False) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder))
    return file.getvalue()


def unpack(content: bytes, folder: Path) -> None:
    """Make the folder from `packed`; a folder that is there is replaced once the new one is whole."""
    if not content:
        return
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(part)  # never beside `part`, whatever the names
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
