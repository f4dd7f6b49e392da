"""What nodes keep of their reports is what the server has counted, for every codec, whatever becomes of a report."""

from __future__ import annotations

import numpy as np
import pytest

import fedlearn
from fedlearn import flower, wire
from server import committing
from tests.marked import thinned
from tests.oracles.algorithms.federation import SIZES
from tests.oracles.algorithms.runs import settings_of

RUN = {**settings_of("fedavg"), "rounds.total": 6, "rounds.quorum": 0.2, "rounds.backoff": 0.0}
CODECS = {
    "all": {},
    "dropped": {"compression.codec": "drop:0.4"},
    "change dropped": {"compression.codec": "drop:0.4", "compression.send": "update"},
    "tensors dropped": {
        "compression.codec": "drop", "compression.granularity": "tensor", "compression.keep_ratio": 0.5,
    },
    "largest of the change at 4 bits": {"compression.codec": "top-k:0.3,quantize:4", "compression.send": "update"},
}  # fmt: skip
ALGORITHMS = {"scaffold": "control", "feddyn": "state"}
FIRST = 2  # id of the node of the first partition


@pytest.fixture
def at_the_end(monkeypatch, tmp_path):
    """Make a run; return it with the server's mean and that of what nodes keep, by examples: name -> array."""
    found = {}

    def watched(run, *rest):
        commit(run, *rest)
        memory = dict(run.strategy.memory())
        found["counted"] = memory.pop("counted")
        found["server"] = {name.partition("/")[2]: each for name, each in memory.items()}
        found["nodes"] = {node: flower.from_bytes(data) for node, data in run.exchange._offers.keep.kept.items()}

    commit = committing.commit
    monkeypatch.setattr(committing, "commit", watched)

    def made(algorithm, further):
        run = fedlearn.run(
            settings={**RUN, "strategy.name": algorithm, **further}, progress=False, out=tmp_path / "run"
        )
        key = f"memory.{ALGORITHMS[algorithm]}"
        kept = {node: wire.unpack_arrays(records[key]) for node, records in found["nodes"].items() if key in records}
        weights = {node: SIZES[node - FIRST] for node in kept}
        reports, weight = found["counted"]
        of_all = RUN["clients"] * weight / reports
        mean = {
            name: sum(weights[node] * each[name] for node, each in kept.items() if name in each) / of_all
            for name in found["server"]
        }
        return run, found["server"], mean

    return made


def events_of(run, kind):
    return [line for line in (run.folder / "events.jsonl").read_text().splitlines() if f'"event": "{kind}"' in line]


def assert_same(server, nodes):
    assert server
    for name, mean in server.items():
        np.testing.assert_allclose(nodes[name], mean, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("codec", thinned(CODECS.values(), 2), ids=CODECS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_servers_mean_is_that_of_what_nodes_keep_under_every_codec(at_the_end, algorithm, codec):
    run, server, nodes = at_the_end(algorithm, {**codec, "rounds.cohort": 2})
    assert len(events_of(run, "reported")) == 12
    assert_same(server, nodes)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_refused_report_is_taken_back_by_its_node(at_the_end, algorithm):
    run, server, nodes = at_the_end(algorithm, {"compression.send": "update", "gate.max_norm": 0.5})
    assert events_of(run, "refused")
    assert events_of(run, "reported")
    assert_same(server, nodes)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_abandoned_attempt_is_taken_back_by_its_nodes(at_the_end, monkeypatch, algorithm):
    missing, asked = committing.missing_quorum, []

    def once(run, reporting):
        asked.append(run)
        return "made up" if 3 <= len(asked) <= 4 else missing(run, reporting)  # an attempt asks twice

    monkeypatch.setattr(committing, "missing_quorum", once)
    run, server, nodes = at_the_end(algorithm, {"rounds.cohort": 3})
    assert events_of(run, "abandoned")
    assert_same(server, nodes)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_late_report_is_taken_back_by_its_node(at_the_end, algorithm):
    devices = {"devices.name": "phones", "rounds.reporting_deadline": 1, "rounds.minimum_ready": 0.5}
    run, server, nodes = at_the_end(algorithm, devices)
    assert events_of(run, "late")
    assert_same(server, nodes)
