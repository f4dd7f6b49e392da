"""The keywords of `fedlearn.run` have the types of the settings, in a file that a command writes."""

from __future__ import annotations

from typing import Any, Literal, get_type_hints

from fedlearn.api.given import KEYWORDS
from fedlearn.api.keywords import Keywords
from tests.keywords import FILE, OF_THE_CALL, text


def test_file_is_what_the_command_writes():
    assert FILE.read_text(encoding="utf-8") == text(), "run python -m tests.keywords"


def test_every_keyword_has_the_type_of_its_setting():
    types = get_type_hints(Keywords)
    assert {*types} == {*KEYWORDS} - {*OF_THE_CALL}
    assert types["rounds"] == int | None and types["lr"] == float | None and types["strategy"] is Any
    assert types["send"] == Literal["weights", "update"] | None
