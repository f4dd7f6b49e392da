"""The check of wording finds the sentences that stopped a reader, and lets their rewrites pass."""

from __future__ import annotations

import json

import pytest

from tests.docs.pages import ROOT
from tests.plain import main, riddles_in, words_in

PAIRS = json.loads((ROOT / "tests/docs/plain_pairs.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_a_riddle_is_found_and_its_rewrite_is_not(pair):
    assert [text for text in pair["stops a reader"] if not list(riddles_in(text))] == []
    assert [text for text in pair["plain"] if list(riddles_in(text))] == []


@pytest.mark.parametrize(
    "text", ["Each node sends its update.", "All nodes wait.", "With secure sums", "The gate refuses it."]
)
def test_a_word_that_the_glossary_replaces_is_found_in_a_sentence(text):
    assert list(words_in(text))


@pytest.mark.parametrize(
    "text", ["`evaluation.nodes` of a client", "[per client](nodes.md)", "Flower nodes", "| nodes | 3 |"]
)
def test_names_links_and_flowers_nodes_keep_their_words(text):
    assert not list(words_in(text))


def test_documentation_and_help_have_no_riddle(capsys):
    assert main() == 0, capsys.readouterr().out
