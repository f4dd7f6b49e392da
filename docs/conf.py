"""How Sphinx makes the site: ``make docs``; every page is there without a network, the search too."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent))

project = "fedlearn"
author = "the fedlearn authors"
release = metadata.version("fedlearn")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "generated"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_google_docstring = False
napoleon_use_rtype = False
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = "fedlearn"
html_static_path: list[str] = []
copybutton_exclude = ".linenos, .gp, .go"
