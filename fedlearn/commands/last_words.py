"""The last line of a command that was stopped or has failed; with ``--json``, the object on standard output too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any


def as_json(code: int, line: str, folder: Path | None) -> str:
    """Return how a run has ended as JSON: its summary, if it has one, with status, reason and exit code of this end."""
    status = "failed" if code in (1, 2) else "interrupted"
    return json.dumps(
        {**_summary(folder), "status": status, "reason": line, "exit_code": code, "out": str(folder or "")}
    )


def _summary(folder: Path | None) -> dict[str, Any]:
    if folder is None:
        return {}
    from fedlearn.core.errors import UsageError
    from fedlearn.runs.folder import RunFolder

    with suppress(UsageError):
        return RunFolder(folder).read_summary()
    return {}


def asks_for_json(arguments: Sequence[str]) -> bool:
    """Return whether a command that makes a run is to print an object at its end."""
    return arguments[:1] == ["simulate"] and "--json" in arguments
