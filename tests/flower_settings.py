"""Write the settings and their defaults into ``pyproject.toml``, where Flower looks for those of an app.

    python -m tests.flower_settings      # after a change of `fedlearn/config/tables/`

Flower refuses a setting that the table ``[tool.flwr.app.config]`` does not declare, so the table must be whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import tomli_w

from fedlearn.config import RunConfig, to_flower

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
HEAD = "[tool.flwr.app.config] # the defaults of fedlearn/config/tables/, written by python -m tests.flower_settings\n"
NEXT = "\n# --- tools "  # what follows the table
CLIENTS = 2  # with the default of 100, `flwr run .` would wait in vain for nodes
WHY = " # but this one: so many nodes `flwr run .` has, as it comes"


def lines() -> Iterator[str]:
    """Yield a line of TOML for each setting."""
    for name, value in to_flower(RunConfig(clients=CLIENTS)).items():
        written = tomli_w.dumps({"value": value}).removeprefix("value = ").rstrip("\n")
        yield f"{name} = {written}{WHY if name == 'clients' else ''}\n"


def with_settings(pyproject: str) -> str:
    """Return the text of a ``pyproject.toml`` with the table of settings written anew."""
    before, _, rest = pyproject.partition(HEAD.partition(" ")[0])
    _, following, after = rest.partition(NEXT)
    return f"{before}{HEAD}{''.join(lines())}{following}{after}"


if __name__ == "__main__":
    PYPROJECT.write_text(with_settings(PYPROJECT.read_text(encoding="utf-8")), encoding="utf-8")
