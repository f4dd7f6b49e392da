"""The page "What goes with what" has each rule, and none twice."""

from __future__ import annotations

import importlib
from string import Formatter

import pytest

from server.planning.plan_rules import rules
from tests.docs.pages import ROOT

RULES = list(rules())


@pytest.fixture(scope="module")
def rows():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs")
        generated = importlib.import_module("generated")
    return [line for line in generated.rules_page() if line.startswith("| `")]


def test_each_rule_is_on_the_page_with_its_reason_and_its_advice(rows):
    plain = [row.translate({ord(sign): None for sign in "`'"}) for row in rows]
    for rule in RULES:
        texts = (rule.because, rule.instead, rule.before.removeprefix("with ").strip())
        said = [literal.replace("'", "") for text in texts for literal, *_ in Formatter().parse(text)]
        assert [row for row in plain if row.startswith(f"| {rule.setting} |") and all(each in row for each in said)], (
            rule
        )
    assert not any(sign in row for row in plain for sign in "{}")


def test_a_rule_of_several_features_stands_once_with_all_that_it_is_of(rows):
    assert [row for row in rows if "public_sizes" in row] == [
        "| `privacy.public_sizes` | secure sums; `privacy.trust` = `local`; `privacy.trust` = `distributed` "
        "| no client tells its number of records | use false |"
    ]
    assert len(rows) == len(set(rows)) < len(RULES)
