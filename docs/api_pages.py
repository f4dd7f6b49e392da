"""Make a page of each class, function and constant that a page of `reference/api` lists; what autodoc shows of them."""

from __future__ import annotations

import inspect
import re
from enum import Enum
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from pydantic import BaseModel
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext import napoleon
from sphinx.ext.viewcode import viewcode_anchor
from sphinx.pycode import ModuleAnalyzer

import fedlearn
from fedlearn import api, extend
from fedlearn.plugins import tables

FOLDER = Path(__file__).parent / "reference" / "api"
OURS = ("fedlearn.", "client.", "server.", "strategies.")
LINE, OTHERS = r"^   ~(\S+)$", r"^   others of (\w+)\n"
PAGE = """:orphan:

{name}
{line}

Part of :doc:`{group}`.

.. auto{kind}:: {module}::{name}
{options}"""
OF_A_CLASS = """\
   :members:
   :exclude-members: T_destination, call_super_init, dump_patches, training
   :{inherits}:
"""

fedlearn.runs = api.runs  # type: ignore[attr-defined]  # the function: a package of this name is imported


@cache
def texts() -> dict[str, str]:
    """Return the text of each page; plugins of a table that no page names stand for a line ``others of TABLE``."""
    pages = {page.stem: page.read_text(encoding="utf-8") for page in sorted(FOLDER.glob("*.md"))}
    named = {id(_object(name)) for text in pages.values() for name in re.findall(LINE, text, re.MULTILINE)}

    def others(line: re.Match[str]) -> str:
        places = [each.replace(":", ".") for each in dict.fromkeys(vars(tables)[line[1]].values())]
        names = [each if each.startswith("fedlearn.") else f"fedlearn.{each}" for each in places]
        return "".join(f"   ~{name}\n" for name in names if id(_object(name)) not in named)

    return {name: re.sub(OTHERS, others, text, flags=re.MULTILINE) for name, text in pages.items()}


def _object(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


@cache
def groups() -> dict[str, str]:
    """Return the name of each listed object -> the page that lists it."""
    return {name: group for group, text in texts().items() for name in re.findall(LINE, text, re.MULTILINE)}


@cache
def _listed() -> dict[str, Any]:
    return {name: _object(name) for name in groups()}


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx calls this before it looks for pages."""
    for old in FOLDER.glob("*.rst"):
        if old.stem not in map(_page_of, groups()):
            old.unlink()
    for name, group in groups().items():
        page, text = FOLDER / f"{_page_of(name)}.rst", _text(name, group)
        if not page.exists() or page.read_text(encoding="utf-8") != text:  # a page that is written is read again
            page.write_text(text, encoding="utf-8")
    app.connect("source-read", _with_others)
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-signature", _signature)
    app.connect("doctree-read", _anchors, priority=600)  # after viewcode
    app.connect("env-check-consistency", _sources)
    for each in [*app.events.listeners["autodoc-process-docstring"]]:
        if each.handler is napoleon._process_docstring:
            app.disconnect(each.id)  # `_docstring` calls it
    app.connect("autodoc-process-docstring", _docstring)
    app.connect("missing-reference", _by_last_word)
    app.connect("html-page-context", _side_bar_of_its_group, priority=400)  # before the theme reads it
    return {"parallel_read_safe": True}


def _with_others(app: Sphinx, name: str, source: list[str]) -> None:
    """Name on a page the plugins that its table alone names."""
    folder, _, page = name.rpartition("/")
    if folder == "reference/api" and page in texts():
        source[0] = texts()[page]


def _page_of(name: str) -> str:
    """Return the name of an object's page, which no other has where small and capital letters are the same."""
    twins = [each for each in groups() if each.lower() == name.lower()]
    return name if twins[0] == name else f"{name}-class"


def _text(name: str, group: str) -> str:
    """Return the text of an object's page; a class whose base has a page leaves to that what it inherits."""
    found = _listed()[name]
    is_class = inspect.isclass(found)
    is_error = is_class and issubclass(found, BaseException)
    kind = "exception" if is_error else "class" if is_class else "function" if inspect.isroutine(found) else "data"
    options = ""
    if kind == "class":
        has_base = any(each is base for base in found.__mro__[1:] for each in _listed().values())
        options = OF_A_CLASS.format(inherits="show-inheritance" if has_base else "inherited-members")
    module, _, attribute = name.rpartition(".")
    line = "=" * len(attribute)
    return PAGE.format(line=line, group=group, kind=kind, module=module, name=attribute, options=options)


def _skip(app: Sphinx, kind: str, name: str, found: Any, skip: bool, options: Any) -> bool | None:
    """Skip members that another library's class defines; keep those of an enumeration, which have no docstring."""
    if isinstance(found, Enum):
        return False
    function = getattr(found, "fget", None) or getattr(found, "func", found)
    if callable(function) or inspect.isdatadescriptor(found):
        module = getattr(function, "__module__", None) or ""
        return None if f"{module}.".startswith(OURS) else True
    return None


def _signature(
    app: Sphinx, kind: str, name: str, found: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str, None] | None:
    """Leave out the signatures of classes that users do not call."""
    is_called = kind != "class" or not (getattr(found, "_is_protocol", False) or issubclass(found, Enum | BaseModel))
    return None if is_called else ("", None)


def _docstring(app: Sphinx, kind: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Give a constant its own text, which stands in the module that it comes from, and a class no generated text.

    Napoleon takes the first line of an attribute or property for a type where it has a colon, and reads no sections.
    """
    module, _, attribute = name.rpartition(".")
    if kind == "data":
        home = extend._MODULE_OF.get(attribute, module) if module == "fedlearn.extend" else module
        own = ModuleAnalyzer.for_module(import_module(home).__name__).find_attr_docs().get(("", attribute))
        lines[:] = own or []
    elif kind == "class" and lines and lines[0].startswith(f"{attribute}("):  # dataclasses writes it
        lines.clear()
    if kind in ("attribute", "data", "property"):
        kind = "function"
    napoleon._process_docstring(app, kind, name, found, options, lines)


def _anchors(app: Sphinx, page: nodes.document) -> None:
    """Give each object the anchor to which its source leads back, of the module by which viewcode met that source."""
    for link in page.findall(viewcode_anchor):
        module = link["reftarget"].partition("/")[2].replace("/", ".")
        anchor = f"{app.env._viewcode_modules[module][3]}.{link['refid']}"  # type: ignore[attr-defined]
        if anchor not in link.parent["ids"]:
            link.parent["ids"].append(anchor)


def _sources(app: Sphinx, env: BuildEnvironment) -> None:
    """Drop modules without source, such as builtins: viewcode lists them in its index, and makes no page."""
    modules = env._viewcode_modules  # type: ignore[attr-defined]
    env._viewcode_modules = {name: entry for name, entry in modules.items() if entry}  # type: ignore[attr-defined]


@cache
def _by_last_words() -> dict[str, str]:
    last_words = [name.rpartition(".")[2] for name in groups()]
    return {last: name for last, name in zip(last_words, groups(), strict=True) if last_words.count(last) == 1}


def _by_last_word(app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: nodes.Element) -> Any:
    """Resolve a type by its last word, by which an annotation or a docstring names it, if one object has that name."""
    target = node["reftarget"]
    last = target.rpartition(".")[2]
    is_ours = target.startswith(OURS) or (last == target and last[:1].isupper())
    if node.get("refdomain") != "py" or not is_ours or last not in _by_last_words():
        return None
    python = env.domains.python_domain
    return python.resolve_xref(env, node["refdoc"], app.builder, "obj", _by_last_words()[last], node, shown)


@cache
def _groups_of_pages() -> dict[str, str]:
    return {f"reference/api/{_page_of(name)}": f"reference/api/{group}" for name, group in groups().items()}


def _side_bar_of_its_group(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Show on the page of an object the side bar of its group: one with all objects would be on every page."""
    if group := _groups_of_pages().get(page):
        context["toctree"] = partial(_side_bar, app.builder, group)


@cache
def _side_bar(builder: Any, page: str, **options: Any) -> str:
    return str(builder._get_local_toctree(page, **options))
