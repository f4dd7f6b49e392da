"""A list of peers: a key enters it only by its fingerprint, a successor only where the key before has signed it."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from fedlearn.cli import app
from fedlearn.engine.deployment.admitting import fingerprint_of
from fedlearn.engine.deployment.deployment_keys import make_keys, release_sums, rotate_node_key
from fedlearn.secure.key_agreement import listed_keys, node_keys_in


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
