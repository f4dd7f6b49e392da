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
copyright = author
release = metadata.version("fedlearn")

extensions = ["myst_parser", "sphinx_copybutton", "generated", "search_words"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]

suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = "fedlearn"
html_show_search_summary = False  # from a file no page may fetch another: results are titles, without an error
html_static_path = ["_static"]
html_css_files = ["site.css"]
copybutton_exclude = ".linenos, .gp, .go"
