"""Nodes that add their own noise, whole or in shares; `test_audited_nodes.py` replays such runs on neighbors."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest

import client.features.local_noise
import server.features.secure_sums.collect
import server.phases.quorum
from fedlearn import flower
from fedlearn.auditing.nodes.chosen_model import Chosen
from fedlearn.config import to_flower
from fedlearn.core.errors import RunFailed, SettingError
from fedlearn.engine.apps import load_server_app
from fedlearn.engine.prepare import prepared
from fedlearn.models.presets import settings_from
from fedlearn.privacy.accounts.skellam_account import skellam_multiplier_for
from fedlearn.privacy.local_dp import OwnNoise
from server.features.privacy.node_privacy import NOISE, NodePrivacy
from tests.end_to_end.vanishing import Killed, Remote, Vanishing

LOCAL = {
    "model.name": "fedlearn.auditing.nodes.chosen_model:model",
    "data.dataset": "digits", "clients": 6, "rounds.cohort": 0,
    "rounds.total": 3,
    "privacy.protects": "nodes", "privacy.trust": "local", "privacy.epsilon": 4.0, "privacy.delta": 1e-5,
    "privacy.clip": 0.5, "rounds.max_attempts": 2, "rounds.backoff": 0.0, "rounds.quorum": 0.5,
}  # fmt: skip
SHARED = {**LOCAL, "privacy.trust": "distributed", "rounds.minimum_ready": 1.0, "secure.dropouts": 0.2}
SKELLAM = {**SHARED, "privacy.shares": "skellam", "secure.bits": 14}
BOTH = pytest.mark.parametrize("settings", [LOCAL, SHARED], ids=["local", "distributed"])


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [SHARED, *(pytest.param(each, marks=pytest.mark.long) for each in (LOCAL, SKELLAM))],
    ids=["distributed", "local", "skellam"],
)
def test_the_same_bytes_on_all_engines(execute, undisturbed, settings):
    reference = undisturbed(settings)
    assert execute({**settings, "engine.workers": 1}).sha == reference.sha
    assert execute({**settings, "engine.workers": 2}).sha == reference.sha


def test_masks_change_no_byte_and_a_lost_node_spoils_nothing(execute, undisturbed, monkeypatch):
    assert execute({**SHARED, "secure.sums": "unmasked"}, engine="inline").sha == undisturbed(SHARED).sha
    masked, plain = (execute({**SKELLAM, "secure.sums": sums}, engine="inline") for sums in ("masked", "unmasked"))
    assert masked.sha == plain.sha and masked.summary["epsilon"] == pytest.approx(4.0)
    assert masked.summary["noise_multiplier"] == pytest.approx(skellam_multiplier_for(4.0, delta=1e-5, rounds=3))
    monkeypatch.setattr(Chosen, "absent", {5})  # its keys came, and its report does not
    masked = execute(SHARED, engine="inline")
    assert masked.summary["secure"] == {"asked": 3, "skipped": 0, "fewest": 5, "own_keys": False}
    assert execute({**SHARED, "secure.sums": "unmasked"}, engine="inline").sha == masked.sha


@pytest.mark.long
@BOTH
def test_killed_in_the_middle_of_a_round_it_resumes_to_the_same_noise(in_the_middle, execute, undisturbed, settings):
    slow = {**settings, "model.name": "faulty:model"}
    killed = in_the_middle(slow, "hang:3:2")
    killed.signal(signal.SIGKILL)
    run, reference = execute(slow, out=killed.run.folder), undisturbed(slow)
    assert run.sha == reference.sha and run.summary["epsilon"] == reference.summary["epsilon"]


def real(settings, folder):
    """Return settings as the server reads them, of a run whose nodes keep their memories for themselves."""
    flower.enter_run()
    return prepared(settings_from({**settings, "out": str(folder), "evaluation.where": "none"}))


@pytest.mark.long
def test_a_killed_server_gets_the_same_sum_and_a_node_draws_one_share_of_a_round(execute, tmp_path, monkeypatch):
    drawn = []
    honest = client.features.local_noise.noise_of
    monkeypatch.setattr(
        client.features.local_noise, "noise_of",
        lambda config, task: drawn.append((task.round_number, task.partition_id)) or honest(config, task),
    )  # fmt: skip
    config = real({**SHARED, "rounds.total": 2}, tmp_path / "run")
    first = Remote(config, kill_at=("unmasking", 3))
    with pytest.raises(Killed):
        load_server_app()(first, flower.server_context(to_flower(config)))
    resumed = Remote(config, kept=first.kept)
    load_server_app()(resumed, flower.server_context(to_flower(config)))
    assert sorted(drawn) == [(round_number, node) for round_number in (1, 2) for node in range(6)]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["model_sha256"] == execute({**SHARED, "rounds.total": 2, "evaluation.where": "none"}).sha


def test_an_attempt_that_is_made_again_has_the_same_noise(tmp_path, monkeypatch):
    """Half of the nodes vanish before they sign, so nothing is unmasked, and the round is run again."""
    drawn = []
    honest = client.features.local_noise.noise_of
    monkeypatch.setattr(
        client.features.local_noise, "noise_of",
        lambda config, task: drawn.append((task.round_number, task.partition_id)) or honest(config, task),
    )  # fmt: skip
    config = real({**SHARED, "rounds.total": 1}, tmp_path / "run")
    grid = Vanishing(config, {(1, 1): dict.fromkeys(range(4), "signature")})
    load_server_app()(grid, flower.server_context(to_flower(config)))
    assert sorted(drawn) == [(1, node) for node in range(6)]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["status"], summary["secure"]["asked"]) == ("completed", 1)


def test_a_sum_of_fewer_shares_is_never_unmasked(execute, monkeypatch):
    monkeypatch.setattr(Chosen, "absent", {4, 5})
    settings = {**SHARED, "rounds.quorum": 0.8}
    with pytest.raises(RunFailed, match="4 of 6 clients reported, quorum is 5"):
        execute(settings, engine="inline")
    for phase in (
        server.phases.quorum,
        server.features.secure_sums.collect,
    ):  # a server that lies of what it takes for a quorum
        monkeypatch.setattr(phase, "missing_quorum", lambda run, reporting, wanted=0: "")
    monkeypatch.setattr("server.committing.missing_quorum", lambda run, reporting, wanted=0: "")
    with pytest.raises(RunFailed) as failed:
        execute(settings, engine="inline")
    assert "signed" in str(failed.value) or "too few" in str(failed.value)


def test_a_node_takes_part_in_no_more_rounds_than_its_noise_is_made_for(execute):
    """Its ledger counts: five of six nodes take part in a round, and each in four of the five rounds at most."""
    once = {**LOCAL, "rounds.cohort": 3, "privacy.participations": 1, "rounds.minimum_ready": 1.0}
    run = execute({**once, "rounds.total": 2}, engine="inline")
    assert run.summary["nodes_spent"] == 6 and run.summary["epsilon"] == pytest.approx(4.0)
    assert run.summary["noise_multiplier"] == pytest.approx(OwnNoise(4.0, 1e-5, 0.5, 1).multiplier)
    with pytest.raises(RunFailed, match="ready"):
        execute({**once, "rounds.total": 3, "rounds.selection_window": 0.1}, engine="inline")


@BOTH
def test_a_resumed_run_cannot_be_longer(execute, settings):
    run = execute(settings, engine="inline")
    with pytest.raises(SettingError, match="began with 3"):
        execute({**settings, "rounds.total": 4}, engine="inline", out=run.folder)


def test_secure_noise_is_never_the_same_and_says_so(execute):
    secure = {**SHARED, "privacy.noise": "secure", "rounds.total": 1, "evaluation.where": "none"}
    first, second = (execute(secure, engine="inline") for _ in range(2))
    assert first.sha != second.sha and first.summary["noise"] == "secure"
    assert "seeded" not in first.summary["noise_notice"]
    assert "where nobody sees less than a sum of 3 reports" in first.summary["noise_notice"]
    assert "everybody who sees no less than a sum of 3 reports" in first.summary["protects"]


@BOTH
def test_nothing_of_a_single_node_is_written_down(execute, settings):
    run = execute(settings, engine="inline")
    everything = b"".join(path.read_bytes() for path in run.folder.rglob("*") if path.is_file())
    assert b"0.123456" not in everything and b"train_loss" not in everything
    assert all("norm" not in event and "examples" not in event for event in run.events_of("reported"))


def test_what_comes_after_local_noise_is_free(execute):
    """Codecs, weights on the way, and strategies that read each report: all post-processing."""
    free = {"compression.codec": "quantize:8", "compression.send": "update", "strategy.name": "median"}
    assert execute({**LOCAL, **free}, engine="inline").summary["status"] == "completed"
    weights = execute({**LOCAL, "compression.send": "weights"}, engine="inline")
    assert weights.summary["epsilon"] == pytest.approx(4.0)


def test_a_report_longer_than_noise_explains_is_refused(execute, monkeypatch):
    honest = client.features.local_noise.noised

    def longer(config, state, task, fit):
        found = honest(config, state, task, fit)
        return found.replaced({"weight": found.arrays["weight"] + 1000}) if task.partition_id == 1 else found

    monkeypatch.setattr(client.features.local_noise, "noised", longer)
    run = execute(LOCAL, engine="inline")
    assert {event["partition"] for event in run.events_of("refused")} == {1}
    assert all("norm-too-large" in event["reason"] for event in run.events_of("refused"))


@pytest.mark.parametrize(
    ("settings", "further", "why"),
    [
        (LOCAL, {"secure.sums": "masked"}, "takes less noise"),
        (LOCAL, {"privacy.public_sizes": True}, "use false"),
        (LOCAL, {"strategy.weighting": "examples"}, "use 'uniform'"),
        (LOCAL, {"privacy.delta": 0.0}, "Gaussian noise needs one"),
        (LOCAL, {"privacy.noise_multiplier": 0.1}, "3 rounds of a client cost epsilon"),
        (LOCAL, {"model.name": "odd_nodes:counting"}, "'batches' holds whole numbers"),
        (LOCAL, {"training.learner": "dp-sgd"}, "protects records already"),
        (LOCAL, {"strategy.name": "scaffold"}, "has no noise|learner"),
        (LOCAL, {"privacy.trust": "central", "privacy.participations": 2}, "whoever takes part"),
        (SHARED, {"secure.sums": "off"}, "a share of noise hides nothing by itself"),
        (SHARED, {"secure.sums": "unmasked", "privacy.noise": "secure"}, "shares of noise protect nobody"),
        (SHARED, {"secure.group_size": 3}, "each group would need as much"),
        (SHARED, {"secure.weights": "coarse"}, "use 'uniform'"),
        (SHARED, {"secure.colluders": 3}, "no noise is left"),
        (SHARED, {"compression.codec": "quantize:8"}, "identity"),
        (SHARED, {"client.mods": "fedlearn.auditing.nodes.chosen_model:model"}, "use none|mods"),
        (SHARED, {"rounds.selector": "poisson", "rounds.cohort": 3}, "may be smaller|use 'uniform'"),
        (SKELLAM, {"secure.bits": 24}, "a share of Skellam noise would be .* steps wide, .* use \\d bits fewer"),
        (SHARED, {"secure.bits": 3}, "hide a change of 4,099 entries"),
        ({"model.name": "linear", "privacy.trust": "central"}, {}, "it is for privacy.protects"),
    ],
)  # fmt: skip
def test_what_no_account_covers_is_refused_before_round_1(execute, settings, further, why):
    with pytest.raises(SettingError, match=why):
        execute({**settings, **further}, engine="inline")


def test_a_run_that_began_with_noise_of_the_server_does_not_go_on_with_that_of_nodes():
    with pytest.raises(SettingError, match="noise that the server adds"):
        NodePrivacy.of(settings_from(LOCAL), {NOISE: np.array(2.0)})
    assert NodePrivacy.of(settings_from(LOCAL), {}) is None
