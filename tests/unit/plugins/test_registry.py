from __future__ import annotations

import pytest

from fedlearn.core.errors import SettingError
from fedlearn.plugins.registry import Registry, load_reference

TABLE = Registry("model.name", {"tau": "math:tau", "broken": "no_such_module:thing"})


def test_name_and_full_reference_find_the_same_object():
    assert TABLE.load("tau") == TABLE.load("math:tau") == load_reference("math:tau")
    assert load_reference("os:path.join").__name__ == "join"


def test_unknown_name_lists_the_choices():
    with pytest.raises(SettingError, match=r"model\.name = 'pi': choose one of tau, broken, or give module:attribute"):
        TABLE.load("pi")


@pytest.mark.parametrize("reference", ["no_such_module:x", "math:no_such_name", "math:", ":x", "math:tau.x"])
def test_reference_that_cannot_be_loaded_says_why_in_one_line(reference):
    with pytest.raises(SettingError, match=r"model\.name = ") as error:
        TABLE.load(reference)
    assert "\n" not in str(error.value)


def test_file_is_the_module_that_it_holds(tmp_path, monkeypatch):
    (tmp_path / "mylab").mkdir()
    (tmp_path / "mylab" / "models.py").write_text("class Net: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    named = load_reference("mylab.models:Net")
    assert load_reference("mylab/models.py:Net") is load_reference(f"{tmp_path}/mylab/models.py:Net") is named


def test_file_that_is_not_there_says_so():
    with pytest.raises(SettingError, match=r"there is no file no/file\.py"):
        TABLE.load("no/file.py:Net")


def test_file_in_no_folder_that_imports_look_in_is_loaded_once(tmp_path):
    (tmp_path / "other.py").write_text("class Net: pass\n")
    first = load_reference(f"{tmp_path}/other.py:Net")
    assert load_reference(f"{tmp_path}/other.py:Net") is first


def test_entry_of_our_own_that_is_broken_shows_its_cause():
    with pytest.raises(ModuleNotFoundError):
        TABLE.load("broken")


def test_table_is_a_mapping():
    assert list(TABLE) == ["tau", "broken"]
    assert len(TABLE) == 2
    assert TABLE["tau"] == "math:tau"
