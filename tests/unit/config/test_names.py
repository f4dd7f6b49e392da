"""Names of plugins come from their tables, and every name that there is stands in the help of its setting."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fedlearn.config import names
from fedlearn.config.marks import AlsoCalled, Panel
from fedlearn.config.names import described, flags, marks, other_names, setting_names
from fedlearn.plugins import tables
from fedlearn.plugins.tables import CODECS, TABLES

SETTINGS = sorted(name for name in TABLES if not name.startswith("--"))


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_name_stands_in_the_meaning_of_its_setting(setting):
    text, _ = described(setting)
    assert "{names}" not in text
    for name in names.names_of(setting):
        assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text), name


def test_a_new_codec_shows_by_itself(monkeypatch):
    monkeypatch.setitem(CODECS, "shout", "a:Shout")
    assert described("compression.codec")[0].endswith("or module:Class. Also: shout.")


def test_the_page_of_tables_imports_nothing():
    tree = ast.parse(Path(tables.__file__).read_text(encoding="utf-8"))
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [node.module for node in imported] == ["__future__"]


def test_no_setting_has_a_place_for_names_without_a_table():
    assert [name for name in setting_names() if "{" in described(name)[0].replace("= {", "").replace('or {"', "")] == []


def test_flags_stand_panel_by_panel_and_those_that_come_last_do():
    places = [(list(Panel).index(flag.panel), flag.is_last) for flag in flags().values()]
    assert places == sorted(places)


def test_a_name_that_others_have_means_one_setting():
    assert len(other_names()) == sum(len(each) for name in setting_names() for each in marks(name, AlsoCalled))
    assert not set(other_names()) & {name for name in setting_names() if "." not in name}


def test_help_imports_nothing_heavy():
    program = "import sys, fedlearn.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"torch", "flwr", "numpy", "pandas", "strategies", "matplotlib"}
