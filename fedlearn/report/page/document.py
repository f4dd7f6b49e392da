"""Put sections, one style sheet and one small script together as a page.

The page holds everything and needs no network. All texts from run folders are escaped, and the content policy of the
page lets only its own script run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from urllib.parse import quote

SCRIPTS = ("hints", "curves", "save", "choice", "live")  # in this order
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path d="M8 8 3 3m5 5 5-5M8 8v6" stroke="#2a78d6" '
    'stroke-width="1.6"/><circle cx="8" cy="8" r="3" fill="#2a78d6"/><g fill="#1a9e6e"><circle cx="3" cy="3" r="2"/>'
    '<circle cx="13" cy="3" r="2"/><circle cx="8" cy="14" r="2"/></g></svg>'
)  # a server and three nodes


def page_of(sections: Mapping[str, str], *, title: str, stream: str = "") -> str:
    """Return the page as HTML.

    Parameters
    ----------
    stream
        The address of the stream of changed sections for a live page; empty for a file.
    """
    style, script = _resource("page.css"), _script()
    policy = "; ".join(
        [
            "default-src 'none'",
            "style-src 'unsafe-inline'",
            "img-src data:",
            f"script-src 'sha256-{_hash(script)}'",
            *(["connect-src 'self'"] if stream else []),
        ]
    )
    body = "".join(f'<section id="{name}">{inside}</section>' for name, inside in sections.items())
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
        '<meta name="color-scheme" content="light dark">'
        f'<link rel="icon" type="image/svg+xml" href="data:image/svg+xml,{quote(ICON)}">'
        f"<title>{escape(title)} - fedlearn</title><style>{style}</style></head>"
        f'<body data-stream="{escape(stream)}"><main>{body}</main>'
        f'<div id="hint" hidden></div><div id="sheet"></div><script>{script}</script></body></html>\n'
    )


def _script() -> str:
    """Return the script of the page: the files of `script/` in one scope of their own, without indents and comments."""
    lines = (line.strip() for name in SCRIPTS for line in _resource(f"script/{name}.js").splitlines())
    parts = "\n".join(line for line in lines if line and not line.startswith("//"))
    return f'"use strict";\n(() => {{\n{parts}\n}})();\n'


def _resource(name: str) -> str:
    return (files("fedlearn.report.page") / name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
