"""What a stranger types first: the bare command, a short help, a search of settings, a look at the machine."""

from __future__ import annotations

import json
import socket

import pytest

from fedlearn.cli import main
from fedlearn.commands import doctor
from fedlearn.commands.brief import LONGEST


@pytest.fixture
def said(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")

    def said(*arguments, code=0):
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        assert end.value.code == code
        out = capsys.readouterr()
        assert code or not out.err
        return out.err if code else out.out

    return said


def test_the_bare_command_lists_commands_in_groups_and_is_no_error(said):
    text = said()
    groups = ["Run", "Look at runs", "Over a network", "Privacy", "Develop"]
    places = [text.index(f"─ {group} ─") for group in groups]
    assert places == sorted(places)
    assert text == said("--help")


def test_a_short_help_has_the_usual_flags_and_the_long_one_all(said):
    short, whole = said("simulate", "--help"), said("simulate", "--help-all")
    assert "--clients" in short and "--help-all" in short and "--attackers" not in short
    assert "--attackers" in whole and len(short.splitlines()) < 0.6 * len(whole.splitlines())
    assert said("simulate", "--help") == short  # the long one has changed nothing


def test_a_line_of_a_short_help_is_short_and_has_its_default():
    from fedlearn.commands.brief import first_words

    text = first_words("a word, " * 50 + "\\[default: 3]")
    assert len(text) < LONGEST + 20 and text.endswith(" ...  \\[default: 3]".replace("  ", " "))
    assert first_words("One. Two.") == "One."


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("deadline", "rounds.reporting_deadline"),
        ("phones", "devices.name"),
        ("quantize", "compression.codec"),
        ("learning rate", "training.lr"),
        ("zebra", ""),
    ],
)
def test_a_word_is_looked_for_in_names_and_meanings(said, word, found):
    if found:
        assert found in said("settings", word)
    else:
        assert "there is no such setting" in said("settings", word, code=2)


def test_a_setting_that_is_found_names_others_that_speak_of_it(said):
    assert "privacy.noise_multiplier" in said("settings", "noise").partition("see also")[2]
    assert "see also" not in said("settings", "privacy.noise")


def test_the_doctor_names_what_is_there_and_what_is_taken(said):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        doctor.PORTS[port] = "a test"
        try:
            found = {each["name"]: each for each in json.loads(said("doctor", "--json"))}
        finally:
            del doctor.PORTS[port]
    assert found["torch"]["state"] == "ok" and found["python"]["found"][0] == "3"
    assert found[f"port {port}"] | {"found": ""} == {
        "name": f"port {port}", "state": "note", "found": "", "do": "name another port",
    }  # fmt: skip
    assert {"cache", "data", "folder", "gpu", "memory", "nginx", "processor"} <= found.keys()


def test_the_doctor_fails_where_no_run_can_begin(said, monkeypatch):
    from fedlearn.runs import environment

    genuine = environment.environment
    monkeypatch.setattr(environment, "environment", lambda: {**genuine(), "packages": {"torch": None}})
    assert said("doctor", code=1).startswith("error: torch: not installed; pip install")


def test_without_a_data_folder_the_doctor_says_what_is_used(said, monkeypatch):
    monkeypatch.delenv("FEDLEARN_DATA", raising=False)
    found = {each["name"]: each for each in json.loads(said("doctor", "--json"))}
    assert found["data"]["found"] == "FEDLEARN_DATA is not set" and "digits" in found["data"]["do"]
