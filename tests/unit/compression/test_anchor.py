"""An anchor and the corrections to it: names, numbers, and why no decoded state is coded anew."""

from __future__ import annotations

import numpy as np
import pytest

from fedlearn.compression import anchor_codec, is_ours, load_anchor, load_codec, load_downlink
from fedlearn.compression.anchor import CODES, Anchor, corrected, correction, name_of, number_in
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.core.errors import SettingError
from fedlearn.core.state import layout_of
from tests.oracles.anchors import through

STATE = {
    "w": np.linspace(-3, 5, 3000, dtype=np.float32).reshape(30, 100),
    "double": np.linspace(0, 1, 7),
    "steps": np.array(7, np.int64),
    "mask": np.array([True, False]),
    "none": np.zeros((0, 3), np.float32),
}


def settings_of(downlink):
    return CompressionSettings(downlink=downlink, send="update")


@pytest.mark.parametrize(
    ("participation", "rounds", "share"),
    [
        (1, 10, 0.1), (1, 50, 0.02), (0.1, 10, 0.6513), (0.1, 50, 0.199), (0.2, 10, 0.4463), (0.2, 50, 0.1),
        (0.01, 10, 0.9562), (0.01, 50, 0.79),
    ],
)  # fmt: skip
def test_share_of_instructions_with_an_anchor_is_that_of_the_formula(participation, rounds, share):
    assert Anchor(rounds).sent_share(participation) == pytest.approx(share, abs=5e-5)


def test_share_of_instructions_with_an_anchor_is_that_of_drawn_cohorts():
    rng, rounds, nodes = np.random.default_rng(1), 8, 4000
    drawn = rng.random((rounds, nodes)) < 0.1
    firsts = drawn.any(axis=0).sum()
    assert firsts / drawn.sum() == pytest.approx(Anchor(rounds).sent_share(0.1), rel=0.03)


@pytest.mark.parametrize(
    ("q", "rounds", "bits", "of_correction", "down", "both"),
    [
        (0.1, 10, 32, 1, 1.5, 2.9), (0.1, 10, 4, 1, 8.9, 17.1), (0.1, 50, 4, 1, 17.8, 33.3),
        (0.1, 50, 4, 0.25, 30.6, 54.5), (0.1, 50, 2, 0.25, 49.4, 82.5), (1, 10, 4, 1, 22.9, 41.9),
        (0.01, 100, 4, 1, 9.1, 17.5),
    ],
)  # fmt: skip
def test_bytes_that_anchors_save_are_those_of_the_table(q, rounds, bits, of_correction, down, both):
    cost = Anchor(rounds, bits).sent_share(q) * bits / 32 + of_correction / 32
    assert (1 / cost, 2 / (cost + 1 / 250)) == pytest.approx((down, both), abs=0.06)


@pytest.mark.parametrize("bits", CODES)
def test_anchor_and_correction_come_back_as_the_state_but_for_what_was_coded(bits):
    codec, layout = anchor_codec(Anchor(2, bits)), layout_of(STATE)
    payload = codec.encode(STATE, seed=3)
    assert all(array.ndim == 1 for array in payload.values())  # a checkpoint forgets arrays without dimensions
    update = codec.decode(payload, layout=layout, seed=3)
    anchor = {name: entries.dense(layout[name]) for name, entries in update.items()}
    change = correction(STATE, anchor)
    exact = load_codec(settings_of("identity"))
    again = corrected(anchor, exact.decode(exact.encode(change, seed=1), layout=layout, seed=1), layout)
    for name, array in STATE.items():
        assert again[name].dtype == array.dtype
        assert again[name].shape == array.shape
        np.testing.assert_allclose(again[name], array, rtol=0, atol=1e-6)
    for name in ("steps", "mask"):
        np.testing.assert_array_equal(again[name], STATE[name])


@pytest.mark.parametrize("granularity", ["entry", "tensor"])
def test_what_is_dropped_of_a_correction_keeps_the_value_of_the_anchor(granularity):
    drop = load_codec(CompressionSettings(codec="drop:0.5", send="update", granularity=granularity))
    layout = layout_of(STATE)
    anchor = {name: np.zeros_like(array) for name, array in STATE.items()}
    state = corrected(anchor, drop.decode(drop.encode(STATE, seed=5), layout=layout, seed=5), layout)
    came = np.concatenate([state[name].reshape(-1) for name in ("w", "double")])
    values = np.concatenate([STATE[name].reshape(-1) for name in ("w", "double")])
    assert np.isin(came, [0, *values]).all()
    assert 0.4 < (came != 0).mean() < 0.6 or granularity == "tensor"


def test_an_anchor_is_named_by_its_round_and_its_bytes():
    payload = {"codes": np.arange(4, dtype=np.uint8)}
    name = name_of(51, payload)
    assert (number_in(name), name) == (51, name_of(51, {"codes": np.arange(4, dtype=np.uint8)}))
    others = [{"code": payload["codes"]}, {"codes": payload["codes"] + 1}, {"codes": payload["codes"].view("i1")}]
    assert len({name_of(51, other) for other in others} | {name, name_of(52, payload)}) == 5
    assert [number_in(odd) for odd in ("", "-", "x-1", "1" * 30 + "-ff", "\N{SUPERSCRIPT TWO}-ff")] == [0] * 5


def test_a_chain_without_an_anchor_is_as_it_was():
    assert load_anchor(settings_of("rotate,quantize:8")) is None
    assert load_anchor(settings_of("anchor:50:2, top-k:0.01,eden")) == Anchor(50, 2)
    assert load_anchor(settings_of("anchor:50,eden")) == Anchor(50, 4)
    assert load_downlink(settings_of("anchor:50,eden")).quantizer.bits == 1
    assert is_ours("anchor:50:4,eden")
    assert not is_ours("anchor:50:4,theirs:Stage")


@pytest.mark.parametrize(
    ("chain", "why"),
    [
        ("anchor:50", "an anchor saves bytes where the correction to it is coded: write anchor:50,eden"),
        ("anchor:50:4,identity", "an anchor saves bytes where the correction to it is coded"),
        ("anchor,eden", "stage 'anchor': say for how many rounds an anchor serves, at least 2"),
        ("anchor:1,eden", "stage 'anchor:1': say for how many rounds"),
        ("anchor:-5,eden", "stage 'anchor:-5': say for how many rounds"),
        ("anchor:50:5,eden", "stage 'anchor:50:5': an anchor travels at 1, 2, 3, 4, 8, 16, 32 bits for each entry"),
        ("anchor:50:,eden", "stage 'anchor:50:': an anchor travels at 1, 2"),
        ("eden,anchor:50", "stage 'anchor:50': it is the first word"),
        ("anchor:50,anchor:50,eden", "stage 'anchor:50': it is the first word"),
        ("anchor:50,eden:9", "stage 'eden:9': the number of bits must be a whole number from 1 to 4"),
    ],
)
def test_an_anchor_that_cannot_be_is_refused(chain, why):
    with pytest.raises(SettingError, match=r"compression\.downlink") as refused:
        load_downlink(settings_of(chain))
    assert why in str(refused.value)


def test_reports_have_no_anchor():
    with pytest.raises(SettingError, match="clients keep an anchor of what is sent down to them: write "):
        load_codec(CompressionSettings(codec="anchor:50,eden"))


QUARTER_BIT = "rand-k:0.25,eden"


def test_a_state_that_is_decoded_and_coded_anew_diverges_and_one_with_an_anchor_does_not():
    """Nodes with the loss |x - t|^2 / 2 each, one step of 0.1 a round; at a quarter bit an entry the error is large."""
    size, rate = 4096, 0.1
    targets = [np.random.default_rng(node).standard_normal(size).astype("f4") / 64 for node in range(4)]
    exact = anew = anchored = np.ones(size, np.float32) / 64  # a norm of 1
    anchor = {}
    norms = []
    for number in range(1, 11):

        def stepped(x):
            return np.mean([rate * (target - x) for target in targets], axis=0, dtype="f4")

        exact = exact + stepped(exact)
        anew = through(QUARTER_BIT, {"x": anew}, number)["x"]  # the server, too, goes on from what nodes have decoded
        anew = anew + stepped(anew)
        if number % 5 == 1:
            anchor = through("eden:4", {"x": anchored}, 100 + number)
        seen = anchor["x"] + through(QUARTER_BIT, {"x": anchored - anchor["x"]}, number)["x"]
        anchored = anchored + stepped(seen)  # x + mean(y - decoded x)
        norms.append([float(np.linalg.norm(each)) for each in (exact, anew, anchored)])
    assert norms[4][1] > 30
    assert norms[9][1] > 1000
    assert max(norm for _, _, norm in norms) < 1.2
    assert norms[9][2] == pytest.approx(norms[9][0], rel=0.2)
