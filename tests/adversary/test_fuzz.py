"""The fuzzer's short form, and that it would find what it looks for."""

from __future__ import annotations

import numpy as np
import pytest

import server.gate.gate
from fedlearn.compression import CODECS
from fedlearn.compression.chain import Chain
from fedlearn.models import MODELS
from server.schedules import SCHEDULES
from tests.adversary import fuzz
from tests.adversary.subjects import chains, subjects
from tests.marked import some_long

KINDS = {
    "codec": 12,
    "trees": 6,
    "sums": 30,
    "runs": 60,
    "ready": 200,
    "instructions": 100,
    "memor": 50,
}  # attacks on each
SUBJECTS = {kind: [subject for subject in subjects() if subject.name.startswith(kind)] for kind in KINDS}


@pytest.mark.parametrize("kind", some_long(KINDS, "trees"))
def test_nothing_gets_through(kind):
    chosen = SUBJECTS[kind]
    tallies = fuzz.attacked(chosen, reports=KINDS[kind] * len(chosen), seed=1)
    assert {tally.subject.name: tally.found for tally in tallies if tally.found} == {}
    assert sum(tally.checked for tally in tallies) >= KINDS[kind] * len(chosen)
    assert sum(tally.accepted for tally in tallies) > 0  # what is honest enough


def test_every_subject_is_of_a_kind():
    assert sum(map(len, SUBJECTS.values())) == len(subjects())


def test_every_codec_tree_and_schedule_of_the_tables_is_attacked():
    names = [subject.name for subject in subjects()]
    for stage in CODECS:
        used = [chain for chain in chains() if stage in [word.partition(":")[0] for word in chain.split(",")]]
        assert used and all(f"codec {chain}" in names for chain in used), stage
    for name, row in MODELS.items():
        assert (f"trees {name}, round 1" in names) == (not row.trains_in_steps and not row.sums)
        assert (f"sums {name}, round 1" in names) == (row.sums and row.is_private)
    assert {f"runs {name}" for name in SCHEDULES} <= {*names}


def test_a_new_codec_is_attacked_as_soon_as_it_has_its_line(monkeypatch):
    monkeypatch.setattr("fedlearn.compression.CODECS._table", {**CODECS, "new": "fedlearn.compression.sign:Sign"})
    assert {"new", "residual,new", "drop:0.3,new", "new,entropy"} <= {*chains()}


def found_with(name, reports=300):
    (chosen,) = [subject for subject in subjects() if subject.name == name]
    (tally,) = fuzz.attacked([chosen], reports=reports, seed=1)
    return tally


def test_a_gate_that_lets_nan_through_is_found(monkeypatch):
    monkeypatch.setattr(server.gate.gate, "norm_of", lambda update, base=None: 0.0)
    tally = found_with("codec drop")
    assert tally.wrong > 0 and any("not finite" in what for _, what in tally.found)


def test_a_codec_that_raises_is_found(monkeypatch):
    checked = Chain._checked

    def careless(self, payload, parts):
        if any(array.size > 10**6 or array.ndim != 1 for array in payload.values()):
            raise IndexError("too many indices")
        return checked(self, payload, parts)

    monkeypatch.setattr(Chain, "_checked", careless)
    tally = found_with("codec quantize")
    assert tally.exceptions > 0


def test_a_gate_that_allocates_what_a_header_claims_is_found(monkeypatch):
    kept = []
    count = server.gate.gate.wire.read_num_examples
    monkeypatch.setattr(server.gate.gate.wire, "read_num_examples", lambda c: kept.append(np.ones(4 << 20)) or count(c))
    monkeypatch.setattr(fuzz, "MOST", 24 << 20)
    held = np.ones(32 << 20)  # a process that once had more memory finds it, too
    del held
    assert "MiB" in found_with("codec fp16", reports=5).found[0][1]


def test_a_gate_that_allocates_little_is_not_found(monkeypatch):
    kept = []
    count = server.gate.gate.wire.read_num_examples
    monkeypatch.setattr(server.gate.gate.wire, "read_num_examples", lambda c: kept.append(np.ones(1 << 20)) or count(c))
    monkeypatch.setattr(fuzz, "MOST", 24 << 20)
    assert not found_with("codec fp16", reports=5).found


def test_the_command_prints_counts_and_ends_well(capsys):
    with pytest.raises(SystemExit) as ended:
        fuzz.main(reports=20, seed=1, only=["checkpoint"])
    words = capsys.readouterr().out.splitlines()[-1].split()
    assert ended.value.code == 0
    assert (words[:2], words[3:5]) == (["all", "21"], ["0", "0"])


def test_the_command_prints_what_makes_a_finding_again(capsys, monkeypatch):
    monkeypatch.setattr(fuzz, "LONGEST", -1.0)
    with pytest.raises(SystemExit) as ended:
        fuzz.main(reports=1, seed=5, only=["checkpoint"])
    assert ended.value.code == 1
    assert "--only 'memories of a checkpoint' --seed 5 --case 0" in capsys.readouterr().out
