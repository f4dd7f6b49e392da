"""``fedlearn settings``: what can be set."""

from __future__ import annotations

import json

from fedlearn.config import RunConfig, to_flower
from fedlearn.config.load import described


def settings() -> None:
    """List every setting with its default and meaning; the list is a file that --config reads."""
    table = ""
    for name, value in to_flower(RunConfig()).items():
        section, _, key = name.rpartition(".")
        if section != table:
            table = section
            print(f"\n[{section}]")
        shown = str(value).lower() if isinstance(value, bool) else json.dumps(value)
        print(f"{key} = {shown}  # {described(name)[0]}")
