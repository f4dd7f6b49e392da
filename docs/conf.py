"""How Sphinx makes the site: ``make docs``; every page is there without a network, the search too."""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent))

project = "fedlearn"
author = "the fedlearn authors"
copyright = author
release = metadata.version("fedlearn")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "generated"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = "fedlearn"
html_show_search_summary = False  # from a file no page may fetch another: results are titles, without an error
html_static_path = ["_static"]
html_css_files = ["site.css"]
copybutton_exclude = ".linenos, .gp, .go"


def setup(app: Sphinx) -> None:
    """Sphinx calls this before it looks for pages."""
    app.connect("autodoc-process-docstring", _references_as_a_list, priority=400)  # before napoleon


def _references_as_a_list(
    app: Sphinx, what: str, name: str, documented: object, options: object, lines: list[str]
) -> None:
    """Make numbered references, of which a page may have each number once, entries of a list."""
    lines[:] = [re.sub(r"^\.\. \[(\d)\]", r"* [\1]", re.sub(r"\[(\d)\]_", r"[\1]", line)) for line in lines]
