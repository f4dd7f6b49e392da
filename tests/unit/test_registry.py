from __future__ import annotations

import pytest

from fedlearn.errors import SettingError
from fedlearn.registry import Registry, load_reference

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


def test_entry_of_our_own_that_is_broken_shows_its_cause():
    with pytest.raises(ModuleNotFoundError):
        TABLE.load("broken")


def test_table_is_a_mapping():
    assert list(TABLE) == ["tau", "broken"]
    assert len(TABLE) == 2
    assert TABLE["tau"] == "math:tau"
