"""Runs that protect nodes: whole runs on neighboring federations are replayed exactly, and mistakes are planted.

Neighbors: one node sends what an attacker has chosen, or is not there. Both runs get the same noisy sums. What noise is
to hide may then differ by the claim at most, and everything that is released must be the same to the last bit.
"""

from __future__ import annotations

import csv
import math
import re
import signal
from itertools import count, pairwise

import numpy as np
import pytest

import client.answer
import server.gate
import server.node_privacy
import server.phases.reporting
import server.phases.selection
import server.round_clip
from fedlearn.folding import STATE
from fedlearn.privacy.accounts import GaussianRounds, epsilon_of
from fedlearn.privacy.clipping import clipped
from fedlearn.privacy.nodes import NodePlan
from fedlearn.runs.checkpoint import RunStore
from fedlearn.runs.names import NODES
from fedlearn.words.errors import RunFailed, SettingError
from server.draws import Draws
from server.node_privacy import NodePrivacy
from server.round_clip import RoundClip
from strategies.masked_mean import MaskedSum
from tests.end_to_end.hostile_changes import FAR, HOSTILE

PRIVATE = {
    "model.name": "odd_nodes:model", "data.dataset": "digits", "clients": 6, "rounds.cohort": 4, "rounds.total": 3,
    "rounds.quorum": 0.1, "privacy.protects": "nodes", "privacy.epsilon": 4.0, "privacy.delta": 1e-5,
    "privacy.clip": 0.5, "training.stack": 1,
}  # fmt: skip
ADAPTIVE = {**PRIVATE, "privacy.clip_quantile": 0.5}
POISSON = {**PRIVATE, "rounds.selector": "poisson", "rounds.cohort": 2}
RELEASED = ("epsilon", "signal_to_noise", "size", "epsilon_counts_in", "clip", "within_clip")  # of metrics.csv
ATTACKER = 2
CHANGES = {**HOSTILE, "nothing": {"scale": 0.0, "weight": 0.0, "bias": 0.0}}


class Audit:
    """Replays a run on neighbors; `largest` is the change of a sum as a share of the claim, infinite if all is lost."""

    def __init__(self, execute, monkeypatch, settings):
        self._execute, self._patch, self._settings = execute, monkeypatch, settings

    def share(self, change):
        first, sums, answers = self._run(change)
        again, others, _ = self._run(None, answers)
        claimed = first.summary["noise_multiplier"]
        if len(sums) != len(others) or len(sums) != first.summary["rounds"]:
            return math.inf, f"{len(sums)} noisy sums of {first.summary['rounds']} rounds"
        if released(first) != released(again):
            return math.inf, "the noisy sums are the same, and what is released differs"
        noises = {(answer - values).round(9).tobytes() for (values, _, _), answer in zip(sums, answers, strict=True)}
        if len(noises) < len(answers):
            return math.inf, "noise was used again"
        unit = 1.0 if "privacy.clip_quantile" in self._settings else 0.5  # the norm of a node's part of a sum
        drawn = GaussianRounds(min(deviation for _, deviation, _ in sums) / unit, len(sums))
        is_sampled = self._settings.get("rounds.selector") == "poisson"
        if not is_sampled and epsilon_of([drawn], delta=1e-5) > first.summary["epsilon"] * (1 + 1e-6):
            return math.inf, "the noise of all rounds costs more than is said"
        moved = [
            np.linalg.norm(one - other) * claimed / deviation
            for (one, deviation, _), (other, _, _) in zip(sums, others, strict=True)
        ]
        return max(moved), ""

    def _run(self, change, answers=None):
        """Return a run, its sums with the deviation of their noise, and the noisy sums."""
        sums, noisy, number = [], [], count()
        exact = server.node_privacy.gaussian

        def asked(values, *, clip, noise_multiplier, noise):
            sums.append((np.array(values), clip * noise_multiplier, noise))
            place = next(number)
            noisy.append(
                exact(values, clip=clip, noise_multiplier=noise_multiplier, noise=noise)
                if answers is None
                else answers[place]
            )
            return noisy[-1]

        import odd_nodes  # whose folder is on the path while tests run

        with self._patch.context() as patch:
            patch.setattr(odd_nodes, "ABSENT", {ATTACKER} if change is None else set())
            rounds = range(1, 4)
            patch.setattr(odd_nodes, "CHANGES", {(ATTACKER, each): change for each in rounds if change is not None})
            patch.setattr(server.node_privacy, "gaussian", asked)
            return self._execute(self._settings, engine="inline"), sums, noisy


def released(run):
    with (run.folder / "metrics.csv").open() as file:
        rows = [[row.get(name) for name in RELEASED] for row in csv.DictReader(file)]
    said = {name: run.summary[name] for name in ("epsilon", "noise_multiplier", "protects", "size", "best_round")}
    return run.sha, rows, said


@pytest.fixture
def audit(execute, monkeypatch):
    return lambda settings: Audit(execute, monkeypatch, settings)


@pytest.mark.parametrize(
    "settings",
    [PRIVATE, POISSON, pytest.param(ADAPTIVE, marks=pytest.mark.slow)],
    ids=["fixed", "poisson", "adaptive clip"],
)
def test_whatever_a_node_sends_a_sum_moves_by_the_claim_at_most(audit, settings):
    shares = {name: audit(settings).share(change) for name, change in CHANGES.items()}
    assert all(not why for _, why in shares.values()), shares
    assert all(share <= 1 + 1e-9 for share, _ in shares.values()), shares
    assert shares["far in one parameter"][0] > 0.999 or settings is POISSON  # it is tight, where the node is drawn
    if settings is not ADAPTIVE:  # there they say whether they were within the norm, which is paid for
        assert shares["nothing"][0] == shares["no number"][0] == 0.0


@pytest.mark.parametrize("strategy", ["fedavgm", "fedadam"])
def test_optimizers_of_the_server_come_after_the_noise(audit, strategy):
    share, why = audit({**PRIVATE, "strategy.name": strategy}).share(FAR)
    assert (share, why) == (pytest.approx(1.0, abs=1e-5), "")
    assert share <= 1 + 1e-9


def one_parameter(change, clip):
    return {**clipped(change, clip), "weight": change["weight"]}


def no_dimension(change, clip):
    shaped = clipped({name: array for name, array in change.items() if array.ndim}, clip)
    return {name: shaped.get(name, array) for name, array in change.items()}


def by_parameter(change, clip):
    return {name: clipped({name: array}, clip)[name] for name, array in change.items()}


def by_examples(change, clip):
    return {name: array * 21 for name, array in clipped(change, clip).items()}


def plant(monkeypatch, mistake):
    """Plant one mistake into client or server; the gate is blind where it would have found the mistake."""
    if mistake in CLIPS:
        monkeypatch.setattr(client.answer, "clipped", CLIPS[mistake])
        monkeypatch.setattr(server.gate, "is_clipped", lambda arrays, clip: True)
        return
    released, measured = NodePrivacy.released, NodePrivacy.measured

    def half(self, sums, noise, round_number):
        drawn, whole = server.node_privacy.gaussian, self.plan
        self.plan = whole.keeping(whole.noise_multiplier / 2)
        try:
            assert drawn
            return released(self, sums, noise, round_number)
        finally:
            self.plan = whole

    def clip_after(self, sums, noise, round_number):
        total = sums[STATE]
        norm = math.sqrt(sum(float(np.square(each).sum()) for each in total.totals.values()))
        limit = self.plan.clip * total.reports[0]
        short = {name: each * min(1.0, limit / (norm or 1.0)) for name, each in total.totals.items()}
        shorter = MaskedSum(total.layout, short, total.weights)
        shorter.reports = total.reports
        return released(self, {STATE: shorter}, noise, round_number)

    def who_came(self, sums, noise, round_number):
        noisy, total = released(self, sums, noise, round_number), sums[STATE]
        came = MaskedSum(total.layout, noisy.totals, {name: np.array([total.reports[0]]) for name in noisy.totals})
        came.reports = total.reports
        return came

    def forgotten(self, noisy, round_number):
        return {**measured(self, noisy, round_number), "epsilon": self._spent[max(round_number - 2, 0)]}

    if mistake == "noise used again":
        again = Draws.noise
        monkeypatch.setattr(Draws, "noise", lambda self, at, of="": again(self, at._replace(round_number=1), of=of))
    elif mistake == "a round forgotten":
        monkeypatch.setattr(NodePlan, "spent_by_round", _less_one(NodePlan.spent_by_round))
        monkeypatch.setattr(NodePrivacy, "measured", forgotten)
    else:
        table = {"half the noise": half, "clipped after the sum": clip_after, "divided by who came": who_came}
        monkeypatch.setattr(NodePrivacy, "released", table[mistake])
        if mistake == "clipped after the sum":
            monkeypatch.setattr(client.answer, "clipped", lambda change, clip: dict(change))
            monkeypatch.setattr(server.gate, "is_clipped", lambda arrays, clip: True)


def _less_one(honest):
    return lambda self: [0.0, *honest(self)[:-1]]


CLIPS = {
    "clip forgotten for one parameter": one_parameter,
    "clip forgotten where there is no dimension": no_dimension,
    "clipped parameter by parameter": by_parameter,
    "weighed by examples": by_examples,
}
MISTAKES = {
    **dict.fromkeys(CLIPS, ""),
    "half the noise": "",
    "clipped after the sum": "",
    "divided by who came": "what is released differs",
    "noise used again": "used again",
    "a round forgotten": "costs more than is said",
}


QUICK = ("half the noise", "a round forgotten", "clip forgotten for one parameter")  # the others are slow


@pytest.mark.parametrize(
    "mistake", [pytest.param(each, marks=() if each in QUICK else pytest.mark.slow) for each in MISTAKES]
)
def test_planted_mistakes_are_found(audit, monkeypatch, mistake):
    plant(monkeypatch, mistake)
    changes = (FAR, HOSTILE["far in the parameter without a dimension"], {"scale": 9.0, "weight": 9.0, "bias": 9.0})
    shares = [audit(PRIVATE).share(change) for change in changes]
    found = [(share, why) for share, why in shares if share > 1 + 1e-6 and MISTAKES[mistake] in why]
    assert found, shares


def test_nothing_of_a_single_node_is_written_down(execute):
    run = execute(PRIVATE, engine="inline")
    everything = b"".join(path.read_bytes() for path in run.folder.rglob("*") if path.is_file())
    assert b"0.123456" not in everything and b"train_loss" not in everything
    assert all("norm" not in event and "examples" not in event for event in run.events_of("reported"))
    assert not (run.folder / NODES).exists()


def test_a_longer_change_is_refused_without_a_number(execute, monkeypatch):
    monkeypatch.setattr(client.answer, "clipped", lambda change, clip: {k: v * 0 + 1.0 for k, v in change.items()})
    with pytest.raises(RunFailed, match=r"norm-too-large: the change is longer than privacy\.clip$"):
        execute({**PRIVATE, "rounds.max_attempts": 1}, engine="inline")


def test_a_round_without_any_node_is_committed_and_paid(execute):
    run = execute({**POISSON, "clients": 6, "rounds.cohort": 1, "rounds.total": 6}, engine="inline")
    with (run.folder / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert any(row["cohort"] == "0" for row in rows), rows
    spent = [float(row["epsilon"]) for row in rows]
    assert spent == sorted(spent) and spent[-1] == pytest.approx(4.0, rel=1e-3) and spent[-1] <= 4.0
    assert "Poisson sampling of nodes, rate 0.16" in run.summary["protects"]


@pytest.mark.parametrize("settings", [PRIVATE, POISSON, ADAPTIVE], ids=["fixed", "poisson", "adaptive clip"])
def test_the_same_bytes_on_all_engines_and_after_a_stop(execute, undisturbed, settings):
    reference = undisturbed(settings)
    assert execute({**settings, "engine.workers": 1}).sha == reference.sha
    assert execute({**settings, "engine.workers": 2}).sha == reference.sha


@pytest.mark.slow
def test_killed_in_the_middle_of_a_round_it_resumes_to_the_same_noise(in_the_middle, execute, undisturbed):
    settings = {**PRIVATE, "model.name": "faulty:model", "rounds.cohort": 0}
    killed = in_the_middle(settings, "hang:3:2")
    killed.signal(signal.SIGKILL)
    run, reference = execute(settings, out=killed.run.folder), undisturbed(settings)
    assert run.sha == reference.sha and run.summary["epsilon"] == reference.summary["epsilon"]


def test_a_resumed_run_keeps_its_noise_and_its_account(execute):
    run = execute({**PRIVATE, "rounds.total": 3}, engine="inline")
    noise = run.summary["noise_multiplier"]
    with pytest.raises(SettingError, match="a run that has begun keeps its noise"):
        execute({**PRIVATE, "rounds.total": 4}, engine="inline", out=run.folder)
    assert run.summary["noise_multiplier"] == noise and run.committed == 3


def test_secure_noise_is_never_the_same(execute):
    secure = {**PRIVATE, "privacy.noise": "secure", "rounds.total": 1, "rounds.keep_every": 1}
    first, second = (execute(secure, engine="inline") for _ in range(2))
    assert first.sha != second.sha
    assert first.summary["noise"] == "secure" and not first.summary.get("noise_notice")
    assert (first.folder / "models" / "round-000001.safetensors").exists()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"compression.codec": "drop"}, "dropping to 0.1 would cost 3.16 times the noise"),
        ({"compression.codec": "quantize:4"}, "no proof bounds what it does"),
        ({"compression.send": "weights"}, "clip and send their change"),
        ({"strategy.weighting": "examples"}, "use 'uniform'"),
        ({"strategy.name": "median"}, "reads each report"),
        ({"strategy.steps": '{"clip": {"norm": 1.0}}'}, "may lengthen"),
        ({"rounds.selector": "power-of-choice"}, "go by what nodes report"),
        ({"rounds.store_every": 2}, "released twice"),
        ({"evaluation.where": "nodes"}, "has no noise"),
        ({"evaluation.nodes": 2}, "has no noise"),
        ({"secure.sums": "unmasked"}, "use 'off'"),
        ({"privacy.delta": 0.0}, "Gaussian noise needs one"),
        ({"privacy.noise_multiplier": 0.5}, "3 rounds cost epsilon"),
        (
            {"model.name": "dp-forest", "strategy.name": "forest_union", "data.dataset": "diabetes"},
            "changes are clipped",
        ),
        ({"model.name": "odd_nodes:counting"}, "'batches' holds whole numbers"),
        ({"stop.patience": 2, "stop.metric": "train_loss"}, "not measured"),
    ],
)
def test_what_no_account_covers_is_refused_before_round_1(execute, settings, why):
    with pytest.raises(SettingError, match=why):
        execute({**PRIVATE, **settings}, engine="inline")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"rounds.over_selection": 1.5, "devices.name": "phones"}, "every node must be ready|use 1"),
        ({"devices.name": "phones"}, "every node must be ready"),
        ({"secure.sums": "unmasked"}, "use 'uniform'"),
    ],
)
def test_poisson_sampling_is_refused_where_it_would_not_be_one(execute, settings, why):
    with pytest.raises(SettingError, match=why):
        execute({**POISSON, **settings}, engine="inline")


STUDY = {**PRIVATE, "privacy.population": 1000, "privacy.population_cohort": 1000}


def test_a_population_is_never_said_without_what_is_left_for_these_nodes(execute):
    run = execute(STUDY, engine="inline")
    as_if = r"as if of 1,000 nodes, 1,000 a round: epsilon 4\.00, delta 1e-05; .*; for these 6 nodes: epsilon \d{3,}"
    assert re.search(as_if, run.summary["protects"])
    assert run.summary["epsilon"] > 100 and run.summary["as_if"]["epsilon"] == pytest.approx(4.0, rel=1e-4)
    columns = {metric["name"]: metric for metric in run.summary["metrics"]["reported"]}
    assert "as if of 1,000 nodes, 1,000 a round; for these 6 nodes: " in columns["epsilon_as_if"]["note"]
    assert columns["epsilon"]["note"].startswith("for these 6 nodes") and not columns["epsilon"]["high"]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"privacy.population": 5}, "these 6 nodes are to be some of the population"),
        ({"privacy.population_cohort": 1001}, "a round has no more nodes than there are"),
        ({"clients": 9, "rounds.cohort": 3, "privacy.separation": 2}, "cannot wait as those of a population"),
        ({"clients": 9, "rounds.cohort": 3, "privacy.separation": 2, "privacy.population": 0,
          "privacy.population_cohort": 0, "privacy.clip_quantile": 0.5}, "of the same clipping norm alone"),
    ],
)  # fmt: skip
def test_a_study_that_cannot_be_one_is_refused_before_round_1(execute, settings, why):
    with pytest.raises(SettingError, match=why):
        execute({**STUDY, **settings}, engine="inline")


def test_the_clipping_norm_of_a_round_is_that_of_noisy_sums_and_resumes(execute, undisturbed, monkeypatch, tmp_path):
    save = RunStore.save

    def dying(store, state, memory, record, **more):
        if record.round_number == 3:
            raise KeyboardInterrupt
        save(store, state, memory, record, **more)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(RunStore, "save", dying)
        execute(ADAPTIVE, engine="inline", out=tmp_path / "run")
    run, reference = execute(ADAPTIVE, engine="inline", out=tmp_path / "run"), undisturbed(ADAPTIVE)
    assert run.sha == reference.sha and run.summary["clip"] == reference.summary["clip"] != 0.5
    with (run.folder / "metrics.csv").open() as file:
        rows = [(float(row["clip"]), float(row["within_clip"])) for row in csv.DictReader(file)]
    for (clip, share), (then, _) in pairwise(rows):
        assert then == pytest.approx(clip * math.exp(-0.2 * (min(max(share, 0.0), 1.0) - 0.5)), rel=1e-4)


@pytest.mark.parametrize("said", [0.25, 7.0, np.nan, 0.0])
def test_a_node_that_says_something_else_of_its_norm_is_refused(execute, monkeypatch, said):
    monkeypatch.setattr(client.answer, "within", lambda change, clip: np.array([said], np.float32))
    with pytest.raises(RunFailed, match=r"wrong-values|not-finite"):
        execute({**ADAPTIVE, "rounds.max_attempts": 1}, engine="inline")


def test_a_number_within_that_is_told_without_noise_is_found(audit, monkeypatch):
    parted, joined = RoundClip.parted, RoundClip.joined

    def kept(self, changes, counted, round_number):
        vector = joined(self, changes, counted, round_number)
        monkeypatch.setattr(server.round_clip, "LAST", vector[-1], raising=False)
        return vector

    monkeypatch.setattr(RoundClip, "joined", kept)
    monkeypatch.setattr(
        RoundClip,
        "parted",
        lambda self, noisy, number: parted(self, np.append(noisy[:-1], server.round_clip.LAST), number),
    )
    assert "released differs" in audit(ADAPTIVE).share(FAR)[1]
