"""Each public name is on a page of the API reference, which autodoc makes of the docstrings."""

from __future__ import annotations

import doctest
import inspect
import re
from importlib import import_module
from pkgutil import resolve_name

import pytest

from fedlearn import api
from fedlearn.models.spec import ModelSpec
from fedlearn.plugins import tables
from tests.docs.pages import ROOT

PACKAGES = ["fedlearn.extend", "fedlearn.data", "fedlearn.privacy", "fedlearn.private_trees"]
TABLES = ["MODELS", "OBJECTIVES", "LEARNERS", "STRATEGIES", "CODECS", "SCHEDULES", "SELECTORS", "ATTACKS", "DEVICES"]
SHOWN_ONLY = {"session", "Run.export", "Run.stop"}  # start workers, need a package, stop another process
TEXTS = [page.read_text(encoding="utf-8") for page in (ROOT / "docs/reference/api").glob("*.md")]
LISTED = [name for text in TEXTS for name in re.findall(r"^   ~(\S+)$", text, re.MULTILINE)]


def named(name):
    module, _, attribute = name.rpartition(".")
    return getattr(api if module == "fedlearn" else import_module(module), attribute)  # fedlearn.runs: a package, too


@pytest.fixture(scope="module")
def on_pages():
    return {id(named(name)) for name in LISTED}


def test_a_name_is_listed_once():
    assert len(LISTED) == len({*LISTED}) > 200


def test_what_users_call_is_on_a_page():
    assert {f"fedlearn.{name}" for name in api.__all__} - {*LISTED} == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_each_public_name_of_a_package_is_on_a_page(package, on_pages):
    module = import_module(package)
    assert {name for name in module.__all__ if id(getattr(module, name)) not in on_pages} == set()


@pytest.mark.parametrize("table", TABLES)
def test_each_plugin_of_a_table_is_on_a_page(table, on_pages):
    ours = {name: reference for name, reference in vars(tables)[table].items() if not reference.startswith("torch.")}
    lacking = {name for name, reference in ours.items() if id(plugin(reference)) not in on_pages}
    assert not lacking or f"   others of {table}\n" in "".join(TEXTS), lacking


def plugin(reference):
    """Return what a line of a table stands for: of the row of a model the function or class that makes the model."""
    found = resolve_name(reference)
    if not isinstance(found, ModelSpec):
        return found
    built = resolve_name(found.build if isinstance(found.build, str) else found.build.args[0])
    return getattr(built, "__self__", built)  # the class of a class method


def test_each_class_and_function_says_what_it_is():
    objects = {name: named(name) for name in LISTED}
    called = {name: found for name, found in objects.items() if inspect.isclass(found) or inspect.isroutine(found)}
    assert len(called) > 250
    assert {name for name, found in called.items() if not doc_of(found)} == set()


def test_each_public_member_of_a_run_says_what_it_is():
    members = [getattr(api.Run, name) for name in dir(api.Run) if name[0] != "_"]
    assert len(members) > 20 and all(member.__doc__ for member in members)


def doc_of(found):
    """Return the docstring of an object itself: not one that it inherits, nor one that dataclasses writes."""
    doc = inspect.getdoc(found) if not inspect.isclass(found) else found.__dict__.get("__doc__")
    return "" if not doc or doc.startswith(f"{found.__name__}(") else doc


def test_what_users_call_and_all_members_of_a_run_have_an_example_that_is_run():
    called = {name: getattr(api, name) for name in api.__all__}
    members = {f"Run.{name}": getattr(api.Run, name) for name in dir(api.Run) if name[0] != "_"}
    assert {name for name, found in (called | members).items() if not has_example(found)} == SHOWN_ONLY


def has_example(found):
    examples = doctest.DocTestParser().get_examples(found.__doc__)
    return any(doctest.SKIP not in example.options for example in examples)
