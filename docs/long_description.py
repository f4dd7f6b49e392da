"""Give the package its long description: README.md with the absolute links that a package index needs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(r"(!?\[[^\]]*\])\((?!https?://|#)([^)\s]+)\)")


def absolute(text: str, source: str) -> str:
    """Return a page whose links and pictures lead into the repository at `source`.

    >>> absolute("![a](docs/a.svg) [b](b.md) [c](https://c.org)", "https://example.org/x")
    '![a](https://example.org/x/raw/main/docs/a.svg) [b](https://example.org/x/blob/main/b.md) [c](https://c.org)'
    """

    def lead(link: re.Match[str]) -> str:
        kind = "raw" if link[1].startswith("!") else "blob"
        return f"{link[1]}({source}/{kind}/main/{link[2]})"

    return RELATIVE.sub(lead, text)


class LongDescription(MetadataHookInterface):
    """Fills the field `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the field, as hatchling asks when it builds."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = metadata["urls"]["Source"]
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, source)}
