"""Names of plugins come from their tables, and every name that there is stands in the help of its setting."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from fedlearn.config import names
from fedlearn.config.load import described, setting_names
from fedlearn.plugging.registry import Registry, load_reference

SETTINGS = sorted(name for name in names.TABLES if not name.startswith("--"))


@pytest.mark.parametrize("setting", sorted(names.TABLES))
def test_names_read_from_the_text_are_those_of_the_table(setting):
    place = names.TABLES[setting].replace("/__init__.py", "").replace(".py", "").replace("/", ".")
    table = load_reference(place)
    assert names.names_of(setting) == tuple(table)
    assert not isinstance(table, Registry) or table.setting == setting


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_name_stands_in_the_meaning_of_its_setting(setting):
    text, _ = described(setting)
    assert "{names}" not in text
    for name in names.names_of(setting):
        assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text), name


def test_a_new_codec_shows_by_itself(tmp_path, monkeypatch):
    place = tmp_path / "fedlearn" / "compression" / "__init__.py"
    place.parent.mkdir(parents=True)
    place.write_text('CODECS = Registry("compression.codec", {"drop": "a:Drop", "shout": "a:Shout"})\n')
    monkeypatch.setattr(names, "ROOT", tmp_path)
    names.names_of.cache_clear()
    try:
        assert described("compression.codec")[0].endswith("or module:Class. Also: shout.")
    finally:
        names.names_of.cache_clear()


def test_no_setting_has_a_place_for_names_without_a_table():
    assert [name for name in setting_names() if "{" in described(name)[0].replace("= {", "").replace('or {"', "")] == []


def test_help_imports_nothing_heavy():
    program = "import sys, fedlearn.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"torch", "flwr", "numpy", "pandas", "strategies", "matplotlib"}
