"""Nodes that add their own noise, whole or in shares: whole runs are replayed on neighbors, mistakes are planted.

Neighbors: one node's change is what an attacker has chosen, or zeros; it adds its noise either way. Both runs get the
same noisy answers. What noise is to hide may then differ by the claim at most, and all that is released must be the
same to the last bit.
"""

from __future__ import annotations

import csv
import json
import math
import signal
from collections import Counter

import numpy as np
import pytest

import client.handlers.training
import client.noised
import fedlearn.privacy.own_noise
import server.phases.quorum
import server.phases.summing
from fedlearn import flower
from fedlearn.config import to_flower
from fedlearn.engine.apps import load_server_app
from fedlearn.engine.prepare import prepared
from fedlearn.models.presets import settings_from
from fedlearn.privacy import seeded_noise
from fedlearn.privacy.accounts import GaussianRounds, epsilon_of
from fedlearn.privacy.mechanisms.gaussian_share import share_deviation
from fedlearn.privacy.own_noise import OwnNoise
from fedlearn.words.errors import RunFailed, SettingError
from server.node_privacy import NOISE, NodePrivacy
from tests.end_to_end.hostile_changes import FAR, HOSTILE
from tests.end_to_end.vanishing import Killed, Remote, Vanishing

LOCAL = {
    "model.name": "odd_nodes:model", "data.dataset": "digits", "clients": 6, "rounds.cohort": 0, "rounds.total": 3,
    "privacy.protects": "nodes", "privacy.trust": "local", "privacy.epsilon": 4.0, "privacy.delta": 1e-5,
    "privacy.clip": 0.5, "rounds.max_attempts": 2, "rounds.backoff": 0.0, "rounds.quorum": 0.5,
}  # fmt: skip
SHARED = {**LOCAL, "privacy.trust": "distributed", "rounds.minimum_ready": 1.0, "secure.dropouts": 0.2}
BOTH = pytest.mark.parametrize("settings", [LOCAL, SHARED], ids=["local", "distributed"])
RELEASED = ("epsilon", "size", "epsilon_counts_in")  # columns of metrics.csv
ATTACKER, ZEROS = 2, {"scale": 0.0, "weight": 0.0, "bias": 0.0}
NO_NUMBERS = ("beyond float32", "no number")  # in the node's own arrays: such a change counts as none


def released(run):
    with (run.folder / "metrics.csv").open() as file:
        rows = [[row[name] for name in RELEASED] for row in csv.DictReader(file)]
    said = {name: run.summary[name] for name in ("epsilon", "noise_multiplier", "protects", "size", "best_round")}
    return run.sha, rows, said


class Audit:
    """Replays a run on neighbors: what the attacker's node has lost as a share of the claim, infinite if all."""

    def __init__(self, execute, monkeypatch, settings, absent=frozenset()):
        self._execute, self._patch, self._settings, self._absent = execute, monkeypatch, settings, absent

    def share(self, change):
        run, sent = self._run(change)
        again, others = self._run(ZEROS, sent)
        if released(run) != released(again):
            return math.inf, "the noisy answers are the same, and what is released differs"
        noises = [
            np.subtract(answer, values, dtype=np.float64).round(9).tobytes() for values, _, answer in sent.values()
        ]
        if len({*noises}) < len(noises):
            return math.inf, "noise was used again"
        came = Counter(round_number for round_number, _ in sent)
        lost = 0.0
        for (round_number, node), (values, asked, _) in sent.items():
            if node == ATTACKER:
                apart = np.linalg.norm(np.subtract(values, others[round_number, node][0], dtype=np.float64))
                lost += (apart / self._hiding(asked, came[round_number])) ** 2
        epsilon = epsilon_of([GaussianRounds(lost**-0.5, 1)], delta=1e-5) if lost else 0.0
        return epsilon / run.summary["epsilon"], ""

    @staticmethod
    def _hiding(asked, reports):
        """Return the deviation of all the noise that hides a report, in the unit of its values."""
        if "shares" not in asked:
            return asked["clip"] * asked["noise_multiplier"]
        return share_deviation(asked["sensitivity"], asked["noise_multiplier"], asked["shares"]) * math.sqrt(reports)

    def _run(self, change, answers=None):
        """Return a run, and (round, node) -> what its mechanism was asked, how, and the answer."""
        sent, here = {}, []
        honest = client.handlers.training.noised

        def watched(config, state, task, fit):
            here[:] = [(task.round_number, task.partition_id)]
            return honest(config, state, task, fit)

        def asking(exact):
            def asked(values, **how):
                answer = exact(values, **how) if answers is None else answers[here[0]][2]
                sent[here[0]] = (np.array(values), how, answer)
                return answer

            return asked

        import odd_nodes  # whose folder is on the path while tests run

        with self._patch.context() as patch:
            patch.setattr(odd_nodes, "ABSENT", self._absent)
            patch.setattr(odd_nodes, "CHANGES", {(ATTACKER, each): change for each in (1, 2, 3)})
            patch.setattr(client.handlers.training, "noised", watched)
            for name in ("gaussian", "gaussian_share"):
                exact = getattr(fedlearn.privacy.own_noise, name)
                patch.setattr(fedlearn.privacy.own_noise, name, asking(exact))
            return self._execute(self._settings, engine="inline"), sent


QUICK = ("far in the parameter without a dimension", "half of a share", "local clip forgotten")  # the others are slow


def quick_or_slow(names):
    return [pytest.param(each, marks=() if each in QUICK else pytest.mark.long) for each in names]


@BOTH
@pytest.mark.parametrize("change", quick_or_slow(HOSTILE))
def test_whatever_a_node_has_learned_it_loses_the_claim_at_most(execute, monkeypatch, settings, change):
    share, why = Audit(execute, monkeypatch, settings).share(HOSTILE[change])
    assert not why and share <= 1 + 1e-6
    assert share == 0.0 if change in NO_NUMBERS else share > 0.5
    if settings is LOCAL and change.startswith("far"):  # its account is tight
        assert share > 0.999


@pytest.mark.long
def test_with_the_fewest_reports_of_a_sum_the_account_is_tight(execute, monkeypatch):
    settings = {**SHARED, "rounds.quorum": 0.6}  # four of six, and four come
    share, why = Audit(execute, monkeypatch, settings, {4, 5}).share(FAR)
    assert not why and 0.999 < share <= 1 + 1e-6
    more, _ = Audit(execute, monkeypatch, settings).share(FAR)
    assert more < 0.9  # all six: their further noise


def halved(honest):
    def added(self, change, noise):
        less = OwnNoise(4.0, 1e-5, self.clip, 3, self.shares, self.reach, given=self.multiplier / 2)
        return honest(less, change, noise)

    return added


def unclipped(values, *, clip, reach):
    return np.rint(np.asarray(values) * 3 * reach / max(np.linalg.norm(values), clip)).astype(np.int64)


def of_one_round(config, task):
    return seeded_noise(task.partition_id)


def a_round_less(self, rounds):
    return HONEST(self, max(rounds - 1, 1))


HONEST = OwnNoise.spent_after
MISTAKES = {
    "half of a share": (
        SHARED,
        "fedlearn.privacy.own_noise:OwnNoise.share_added_to",
        halved(OwnNoise.share_added_to),
        "",
    ),
    "half of the local noise": (LOCAL, "fedlearn.privacy.own_noise:OwnNoise.added_to", halved(OwnNoise.added_to), ""),
    "clip forgotten": (SHARED, "fedlearn.privacy.own_noise:whole_steps", unclipped, ""),
    "local clip forgotten": (LOCAL, "client.noised:clipped", lambda change, clip: dict(change), ""),
    "noise used again": (SHARED, "client.noised:noise_of", of_one_round, "used again"),
    "local noise used again": (LOCAL, "client.noised:noise_of", of_one_round, "used again"),
    "a round forgotten": (LOCAL, "fedlearn.privacy.own_noise:OwnNoise.spent_after", a_round_less, ""),
    "shares of nodes that do not come": (SHARED, "fedlearn.privacy.own_noise:honest_shares", lambda config: 6, ""),
}


@pytest.mark.parametrize("mistake", quick_or_slow(MISTAKES))
def test_planted_mistakes_are_found(execute, monkeypatch, mistake):
    settings, where, planted, word = MISTAKES[mistake]
    absent = {4, 5} if "do not come" in mistake else frozenset()
    owner, names = __import__(where.partition(":")[0], fromlist=["*"]), where.partition(":")[2].split(".")
    for name in names[:-1]:
        owner = getattr(owner, name)
    monkeypatch.setattr(owner, names[-1], planted)
    if "local clip" in mistake:
        monkeypatch.setattr("server.gate._longest", lambda config, layout: math.inf)
    share, why = Audit(execute, monkeypatch, settings, absent).share(FAR)
    assert share > 1.01 and word in why, (share, why)


@pytest.mark.parametrize(
    "settings", [SHARED, pytest.param(LOCAL, marks=pytest.mark.long)], ids=["distributed", "local"]
)
def test_the_same_bytes_on_all_engines(execute, undisturbed, settings):
    reference = undisturbed(settings)
    assert execute({**settings, "engine.workers": 1}).sha == reference.sha
    assert execute({**settings, "engine.workers": 2}).sha == reference.sha


def test_masks_change_no_byte_and_a_lost_node_spoils_nothing(execute, undisturbed, monkeypatch):
    import odd_nodes

    assert execute({**SHARED, "secure.sums": "unmasked"}, engine="inline").sha == undisturbed(SHARED).sha
    monkeypatch.setattr(odd_nodes, "ABSENT", {5})  # its keys came, and its report does not
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


def test_a_killed_server_gets_the_same_sum_and_a_node_draws_one_share_of_a_round(execute, tmp_path, monkeypatch):
    drawn = []
    honest = client.noised.noise_of
    monkeypatch.setattr(
        client.noised, "noise_of",
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
    honest = client.noised.noise_of
    monkeypatch.setattr(
        client.noised, "noise_of",
        lambda config, task: drawn.append((task.round_number, task.partition_id)) or honest(config, task),
    )  # fmt: skip
    config = real({**SHARED, "rounds.total": 1}, tmp_path / "run")
    grid = Vanishing(config, {(1, 1): dict.fromkeys(range(4), "signature")})
    load_server_app()(grid, flower.server_context(to_flower(config)))
    assert sorted(drawn) == [(1, node) for node in range(6)]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["status"], summary["secure"]["asked"]) == ("completed", 1)


def test_a_sum_of_fewer_shares_is_never_unmasked(execute, monkeypatch):
    import odd_nodes

    monkeypatch.setattr(odd_nodes, "ABSENT", {4, 5})
    settings = {**SHARED, "rounds.quorum": 0.8}
    with pytest.raises(RunFailed, match="4 of 6 nodes reported, quorum is 5"):
        execute(settings, engine="inline")
    for phase in (server.phases.quorum, server.phases.summing):  # a server that lies of what it takes for a quorum
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
    with pytest.raises(SettingError, match="was begun with 3"):
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
    honest = client.handlers.training.noised

    def longer(config, state, task, fit):
        found = honest(config, state, task, fit)
        return found.replaced({"weight": found.arrays["weight"] + 1000}) if task.partition_id == 1 else found

    monkeypatch.setattr(client.handlers.training, "noised", longer)
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
        (LOCAL, {"privacy.noise_multiplier": 0.1}, "3 rounds of a node cost epsilon"),
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
        (SHARED, {"client.mods": "odd_nodes:model"}, "use none|mods"),
        (SHARED, {"rounds.selector": "poisson", "rounds.cohort": 3}, "may be smaller|use 'uniform'"),
        (SHARED, {"secure.bits": 3}, "hide a change of 9 entries"),
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
