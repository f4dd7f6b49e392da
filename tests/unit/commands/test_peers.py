"""A list of peers: a key enters it only by its fingerprint, a successor only where the key before has signed it."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from fedlearn.cli import app
from fedlearn.engine.deployment.admitting import fingerprint_of
from fedlearn.engine.deployment.deployment_keys import (
    make_keys,
    new_node_key,
    public_line,
    release_sums,
    rotate_node_key,
)
from fedlearn.secure.key_agreement import NodeKey, link, listed_keys, node_keys_in


@pytest.fixture
def place(tmp_path, monkeypatch):
    make_keys(tmp_path / "keys", clients=3)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def line_of(place, number):
    return (place / "keys" / "public" / "nodes" / f"{number}.pub").read_text()


def said(*words, code=0):
    ended = CliRunner().invoke(app, ["peers", "list", *words])
    assert (ended.exit_code != 0) == bool(code), ended.output
    return f"{ended.output}{ended.exception or ''}"


def test_a_key_that_a_server_adds_is_not_accepted_until_its_fingerprint_is(place):
    (place / "proposed").write_text("".join(line_of(place, number) for number in range(3)))
    names = [fingerprint_of(line_of(place, number)) for number in range(3)]
    shown = said("--add", "proposed")
    assert all(f"{name} is not accepted" in shown for name in names) and not (place / "list").exists()
    assert said("--add", "proposed", "--accept", names[0], "--accept", names[1].upper()).count("new") == 2
    assert len(node_keys_in((place / "list").read_bytes())) == 2
    assert said().splitlines() == names[:2]
    assert "all digits are needed" in said(
        "--add", "proposed", "--accept", names[2][:-1], code=1
    )  # a prefix can be ground
    assert f"{names[2]} is not accepted" in said("--add", "proposed")


def test_a_successor_that_was_signed_and_a_release_replace_their_line_and_a_stranger_does_not(place):
    (place / "list").write_text(line_of(place, 0) + line_of(place, 1))
    old = listed_keys(line_of(place, 1).encode())[0].key
    rotate_node_key(place / "keys", 1)
    (place / "new").write_text(line_of(place, 1))
    said("--add", "new")
    found = listed_keys((place / "list").read_bytes())
    assert len(found) == 2 and found[1].first == old != found[1].key
    release_sums(place / "keys", 0)
    (place / "new").write_text(line_of(place, 0))
    assert "has left" in said("--add", "new")
    make_keys(place / "other", clients=1)
    stranger = (place / "other" / "public" / "nodes" / "0.pub").read_text().strip()
    chain = next(word for word in line_of(place, 1).split() if word.startswith("follows="))
    (place / "new").write_text(f"{stranger} {chain}\n")
    assert "has not signed it" in said("--add", "new", code=1)
    assert len(listed_keys((place / "list").read_bytes())) == 2


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--accept", "ab"], "all digits are needed"), (["--accept", "0123-4567"], "no key has this fingerprint"),
        (["--add", "absent"], "No such file"), (["--add", "text"], "put a line of public/nodes/N.pub"),
    ],
)  # fmt: skip
def test_what_is_no_key_or_no_fingerprint_is_refused(place, words, why):
    (place / "text").write_text("no key\n")
    assert why in said(*words, code=1)
    assert not (place / "list").exists()


def test_a_study_key_that_no_server_has_vouches_for_all_that_it_has_signed(place):
    lines, names = (
        [line_of(place, each) for each in range(3)],
        [fingerprint_of(line_of(place, each)) for each in range(3)],
    )
    (place / "proposed").write_text("".join(lines[:2]))
    said("--add", "proposed", "--accept", names[0], "--accept", names[1])
    study = said("--sign", "study.key").split("signed by the study ")[1].split()[0]
    assert said("--sign", "study.key").split("signed by the study ")[1].split()[0] == study  # the same key again
    assert (place / "study.key").stat().st_mode & 0o777 == 0o600
    signed = (place / "list").read_text()
    assert signed.count("study=") == 2
    (place / "list").rename(place / "signed")
    added = f"{signed}{lines[2]}"  # a server adds one of its own
    (place / "added").write_text(added)
    shown = said("--add", "added", "--study", study)
    assert shown.count("new") == 2 and f"{names[2]} is not accepted" in shown
    assert len(node_keys_in((place / "list").read_bytes())) == 2

    (place / "list").unlink()
    for other in (study[:-1], "0" * 39):  # a prefix, or another study
        assert said("--add", "signed", "--study", other).count("is not accepted") == 2
    word = next(word for word in signed.split() if word.startswith("study="))
    (place / "moved").write_text(f"{lines[2].strip()} {word}\n")
    assert "a study that has not signed it" in said("--add", "moved", "--study", study, code=1)
    assert not (place / "list").exists()
    said("--add", "signed", "--study", study)
    rotate_node_key(place / "keys", 1)
    (place / "new").write_text(line_of(place, 1))  # a successor needs no new signature
    said("--add", "new")
    assert len(node_keys_in((place / "list").read_bytes())) == 2


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--study", "0000"], "give the signed list by --add"),
        (["--sign", "keys/study.key"], "this is a server's folder"), (["--sign", "text"], "it is no key of a study"),
    ],
)  # fmt: skip
def test_a_study_key_on_a_server_or_that_is_none_is_refused(place, words, why):
    (place / "text").write_text("no key\n")
    assert why in said(*words, code=1)
    assert not (place / "keys" / "study.key").exists() and (place / "text").read_text() == "no key\n"


def test_a_stolen_old_key_replaces_no_line_of_its_successor(place):
    (place / "list").write_text(line_of(place, 1))
    before, old = line_of(place, 1), (place / "keys" / "nodes" / "1").read_bytes()
    rotate_node_key(place / "keys", 1)
    (place / "new").write_text(line_of(place, 1))
    said("--add", "new")
    present = (place / "list").read_text()
    thief = NodeKey(new_node_key())
    forged = f"{public_line(thief.file)} {link(NodeKey(old), thief.public).decode()}\n"
    for line in (forged, before):
        (place / "new").write_text(line)
        assert "does not follow the one of the list" in said("--add", "new")
        assert (place / "list").read_text() == present
