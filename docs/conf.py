"""How Sphinx makes the site: ``make docs``; every page is there without a network, the search too."""

from __future__ import annotations

import os
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

extensions = [
    "myst_parser",
    "sphinx_copybutton",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "generated",
    "search_words",
    "api_pages",
]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]

suppress_warnings = [
    "misc.highlighting_failure",
    "ref.footnote",  # a paper under References, which no sentence of the docstring cites by its number
]

default_role = "py:obj"
toc_object_entries_show_parents = "hide"
maximum_signature_line_length = 88
python_use_unqualified_type_names = True
autosummary_generate = False  # api_pages makes the pages
autodoc_inherit_docstrings = False  # a docstring of scikit-learn or torch is none of ours
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_type_aliases = {name: f"fedlearn.extend.{name}" for name in ("Array", "State")}  # not what they stand for
napoleon_google_docstring = False
napoleon_preprocess_types = True
napoleon_custom_sections = [("Attributes", "params_style")]  # a list, not directives that repeat members
strip_signature_backslash = True  # napoleon escapes names such as classes_ only so
viewcode_follow_imported_members = True

if os.environ.get("READTHEDOCS"):  # set there; elsewhere the site is made without a network, and links to no other
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "torch": ("https://docs.pytorch.org/docs/stable", None),
        "pandas": ("https://pandas.pydata.org/docs", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
        "flwr": ("https://flower.ai/docs/framework", None),
    }

html_theme = "furo"
html_title = "fedlearn"
html_show_search_summary = False  # from a file no page may fetch another: results are titles, without an error
html_static_path = ["_static"]
html_css_files = ["site.css"]
copybutton_exclude = ".linenos, .gp, .go"
