"""Write the keywords of `fedlearn.run` with their types, for editors and type checkers.

    python -m tests.keywords      # after a change of `fedlearn/config/tables/`

Each flag of ``fedlearn simulate`` is a keyword; its type and its meaning are those of the setting.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args, get_origin

from fedlearn.api.given import KEYWORDS
from fedlearn.config.names import described, field_of
from fedlearn.plugins.tables import TABLES

FILE = Path(__file__).resolve().parents[1] / "fedlearn" / "api" / "keywords.py"
OF_THE_CALL = ("clients", "data", "model")  # parameters of `fedlearn.run` itself
PATHS = ("data.dir", "out", "model.initial")
KINDS = {"string": "str", "number": "float", "array": "Sequence[Any]", "object": "Mapping[str, Any]"}
HEAD = '''"""Keywords of `fedlearn.run` with their types, written by ``python -m tests.keywords``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict


class Keywords(TypedDict, total=False):
    """The flags of ``fedlearn simulate``, and settings for which objects are given; None counts as not given."""

'''


def type_of(setting: str) -> str:
    """Return the type of a setting as Python writes it; Any for names of plugins, as an object may be given."""
    field = field_of(setting)
    if setting in TABLES or "module:" in described(setting)[0]:
        return "Any"
    if setting in PATHS:
        return "str | Path | Any" if setting == "model.initial" else "str | Path | None"
    if get_origin(field.annotation) is Literal:
        names = ", ".join(f'"{name}"' for name in get_args(field.annotation))
        return f"Literal[{names}] | None"
    schemas = [each.json_schema for each in field.metadata if hasattr(each, "json_schema")]
    kinds = [KINDS[kind] for each in schemas for kind in each["type"]] or [field.annotation.__name__]
    return " | ".join([*kinds, "None"])


def text() -> str:
    """Return the content of the file."""
    return HEAD + "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    for keyword, setting in KEYWORDS.items():
        if keyword not in OF_THE_CALL:
            yield f"    {keyword}: {type_of(setting)}"
            meaning = described(setting)[0].replace("\\", "\\\\").replace('"', "'")
            yield from textwrap.wrap(f'"""{meaning}"""', 120, initial_indent="    ", subsequent_indent="    ")


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
