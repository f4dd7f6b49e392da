"""A run of few clients that drop entries says before round 1 what dropping has cost, and names a cheaper codec."""

from __future__ import annotations

import pytest

import fedlearn
from fedlearn.compression import load_codec
from fedlearn.config import config_from
from server.planning.dropping_cost import REMEDY, cost_of_dropping


def note(**given):
    return cost_of_dropping(config_from({name.replace("__", "."): value for name, value in given.items()}))


@pytest.mark.parametrize(
    ("given", "unsent"),
    [
        ({"clients": 1, "compression__codec": "drop:0.1"}, "1 client in a round some 90%"),
        ({"clients": 5, "compression__codec": "drop", "compression__keep_ratio": 0.1}, "5 clients in a round some 59%"),
        ({"clients": 100, "rounds__cohort": 10, "compression__codec": "drop:0.1,quantize:4"}, "10 clients"),
        ({"clients": 20, "compression__codec": "drop:0.05"}, "20 clients in a round some 36%"),
        (
            {"clients": 40, "rounds__cohort": 0, "compression__codec": "drop:0.1", "secure__sums": "unmasked",
             "secure__group_size": 10},
            "4 groups in a round some 66%",
        ),
    ],
)  # fmt: skip
def test_few_senders_are_told(given, unsent):
    said = note(**given)
    assert unsent in said
    assert said.endswith(REMEDY)


@pytest.mark.parametrize(
    "given",
    [
        {"compression__codec": "drop"},
        {"clients": 50, "rounds__cohort": 0, "compression__codec": "drop:0.1"},
        {"clients": 2, "compression__codec": "drop:0.7"},
        {"clients": 1, "compression__codec": "drop:1"},
        {"clients": 1},
        {"clients": 1, "compression__codec": "residual,top-k:0.01", "compression__send": "update"},
    ],
)
def test_others_are_not(given):
    assert note(**given) == ""


def test_the_remedy_is_a_codec_that_drops_nothing():
    words = dict(each.split(" = ") for each in REMEDY.partition(": ")[2].split(", "))
    config = config_from({"clients": 1, **words})
    assert not load_codec(config.compression).needs_change or config.compression.send == "update"
    assert cost_of_dropping(config) == ""


def test_the_note_is_in_the_run(tmp_path):
    given = {"data": "digits", "model": "linear", "rounds": 1, "engine": "inline", "progress": False}
    run = fedlearn.run(2, compression="drop:0.1", out=tmp_path / "few", **given)
    assert [each for each in run.summary["notices"] if "2 clients in a round some 81%" in each]
    assert "notices" not in fedlearn.run(2, out=tmp_path / "all", **given).summary
