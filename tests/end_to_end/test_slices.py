"""Clients with slices: each is sent its slice, and sends its slice; the others' entries do not change what it costs."""

import json

import pytest

import fedlearn

WIDE = {
    "data.dataset": "digits", "clients": 3, "rounds.total": 2, "rounds.cohort": 0, "training.local_epochs": 1,
    "training.batch_size": 100, "model.name": "mlp", "model.options.width": 200, "engine.name": "inline",
    "evaluation.where": "none",
}  # fmt: skip
UNITS = (200, 100, 50)


def bytes_of(width):
    return 4 * (3072 * width + width + width * width + width + 10 * width + 10)


OTHERS = [pytest.param(name, marks=pytest.mark.long) for name in ("fedrolex", "fjord")]


@pytest.mark.parametrize("strategy", ["heterofl", *OTHERS])
def test_bytes_down_and_up_are_those_of_the_slice(strategy, tmp_path):
    chosen = {"strategy.name": strategy, "strategy.options.ratios": [1.0, 0.5, 0.25]}
    run = fedlearn.run(settings={**WIDE, **chosen}, progress=False, out=tmp_path / "run")
    events = [json.loads(line) for line in (run.folder / "events.jsonl").read_text().splitlines()]
    up = {(each["round"], each["partition"]): each["bytes"] for each in events if each["event"] == "reported"}
    assert up == pytest.approx({(n, k): bytes_of(UNITS[k]) for n in (1, 2) for k in range(3)}, rel=0.02)
    down = [each["bytes"] for each in events if each["event"] == "configured"]
    assert down == pytest.approx([sum(map(bytes_of, UNITS))] * 2, rel=0.02)
    assert run.summary["rounds"] == 2


def test_a_round_by_hand_reads_slices_too(tmp_path):
    settings = {**WIDE, "model.options.width": 20, "strategy.name": "heterofl", "strategy.options.ratios": [0.5]}
    del settings["engine.name"]  # by hand it is always inline
    with fedlearn.by_hand(settings=settings, out=tmp_path / "run") as rounds:
        (update,) = rounds.train([1])
        assert update.why_not == ""
        before = {name: array.copy() for name, array in rounds.state.items()}
        after = rounds.aggregate([update, *rounds.train([0, 2])])
    assert (after["1.weight"][:10] != before["1.weight"][:10]).any()
    assert (after["1.weight"][10:] == before["1.weight"][10:]).all()
