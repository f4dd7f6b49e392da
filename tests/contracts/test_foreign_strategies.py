"""Flower's strategies draw from generators that are not ours: same seed, same bytes; or the result says that it is not.

"Silently wrong": a run with a differential privacy wrapper gave other bytes each time, and nothing said so.
"""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from flwr.serverapp.strategy import DifferentialPrivacyServerSideAdaptiveClipping, FedAvg

from fedlearn import wire
from fedlearn.config import RunConfig
from fedlearn.config.tables.reports import StrategySettings
from fedlearn.core.cohort import At
from fedlearn.core.errors import RunFailed, SettingError
from fedlearn.runs.checkpoint import RunStore
from server.results.summary import noise_notice
from server.strategy_rng import Draws
from strategies import load_strategy
from tests.unit.server.scripted import STATE, Node, Scene, honest_content

MODULE = "flwr.serverapp.strategy"
HERE = "tests.contracts.test_foreign_strategies"
DP = {"noise_multiplier": 0.5, "num_sampled_clients": 4, "strategy": f"{MODULE}:FedAvg"}
ADAPTIVE = {**DP, "clipped_count_stddev": 1.0}


class OwnGenerator(FedAvg):
    """Draws from generators of its own, which are not seeded."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng()
        self.old = np.random.RandomState()
        self.dice = random.Random()

    def aggregate_train(self, server_round, replies):
        arrays, metrics = super().aggregate_train(server_round, replies)
        noise = self.rng.normal() + self.old.normal() + self.dice.random()
        return type(arrays)({name: type(a)(a.numpy() + np.float32(noise)) for name, a in arrays.items()}), metrics


def adaptive(noise_multiplier: float = 0.5):
    """A factory: wraps a strategy of its own choice."""
    inner = FedAvg(fraction_train=0.75)
    return DifferentialPrivacyServerSideAdaptiveClipping(
        inner, noise_multiplier, num_sampled_clients=4, clipped_count_stddev=1.0
    )


STRATEGIES = {
    "fixed clipping": (f"{MODULE}:DifferentialPrivacyServerSideFixedClipping", {**DP, "clipping_norm": 1.0}),
    "adaptive clipping": (f"{MODULE}:DifferentialPrivacyServerSideAdaptiveClipping", ADAPTIVE),
    "a factory": (f"{HERE}:adaptive", {}),
    "generators of its own": (f"{HERE}:OwnGenerator", {}),
}


NOISY = list(STRATEGIES)
STRATEGIES["sampling"] = (f"{MODULE}:FedAvg", {"fraction_train": 0.5})


def chosen(name: str) -> StrategySettings:
    reference, options = STRATEGIES[name]
    return StrategySettings(name=reference, options=json.dumps(options))


@pytest.fixture
def scene_of(scene):
    """Return a function that sets up a run with one of these strategies."""

    def make(name: str, *, rounds: int = 3, seed: int = 1, noise: str = "auto", failing: str = ""):
        nodes = {10 + n: Node(n, run_seed=seed) for n in range(6)}
        nodes[12].failing = failing
        run = scene(
            nodes, strategy=load_strategy(chosen(name)), rounds={"total": rounds, "max_attempts": 2, "quorum": 0.1},
            seed=seed, privacy={"noise": noise},
        )  # fmt: skip
        run.store.begin({"w": STATE["w"]})
        return run.with_settings(strategy=chosen(name).model_dump())

    return make


def taken_up(run: Scene, name: str, *, rounds: int) -> Scene:
    """Go on with a run as a new process does."""
    run.store = RunStore(run.folder.path)
    run.store.load()
    run.strategy = load_strategy(chosen(name))
    run.with_settings(rounds={"total": rounds})
    run.strategy.remember(run.server.draws.remember(run.store.memory))
    return run


@pytest.mark.parametrize("name", STRATEGIES)
def test_same_seed_gives_the_same_bytes(scene_of, name):
    first, again = scene_of(name).run(), scene_of(name).run()
    assert first.store.model_sha256 == again.store.model_sha256


@pytest.mark.parametrize("name", STRATEGIES)
def test_another_seed_gives_other_bytes(scene_of, name):
    shas = {scene_of(name, seed=seed, rounds=2).run().store.model_sha256 for seed in range(4)}
    assert len(shas) > 1


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_run_that_is_gone_on_with_ends_with_the_same_bytes_and_notice(scene_of, name):
    whole = scene_of(name, rounds=4).run()
    run = scene_of(name, rounds=2).run()
    taken_up(run, name, rounds=4).run()
    assert run.store.model_sha256 == whole.store.model_sha256
    assert noise_notice(taken_up(run, name, rounds=4).server) == noise_notice(whole.server)
    assert (noise_notice(whole.server) != "") is (name in NOISY)


def test_the_result_says_that_noise_with_a_seed_protects_nobody(scene_of):
    notice = noise_notice(scene_of("fixed clipping").run().server)
    assert "random numbers of strategy 'flwr.serverapp.strategy:Diff" in notice
    assert notice.endswith("are seeded: reproducible, protect nobody")


@pytest.mark.parametrize("name", NOISY)
def test_noise_that_is_to_protect_has_no_seed_and_the_result_says_that_it_is_not_reproducible(scene_of, name):
    runs = [scene_of(name, noise="secure").run() for _ in range(4)]
    assert len({run.store.model_sha256 for run in runs}) > 1
    assert all(noise_notice(run.server).endswith("draws random numbers that no seed gives: not reproducible")
               for run in runs)  # fmt: skip


def test_a_strategy_that_draws_nothing_is_given_no_notice(scene):
    run = scene({10 + n: Node(n) for n in range(4)}, strategy=load_strategy(StrategySettings(name=f"{MODULE}:FedAvg")))
    assert noise_notice(run.run().server) == ""
    assert run.store.memory == {}


def test_the_generators_of_the_process_stand_where_they_stood(scene_of):
    random.seed(3)
    np.random.seed(3)
    expected = random.random(), np.random.normal()
    random.seed(3)
    np.random.seed(3)
    scene_of("fixed clipping").run()
    assert (random.random(), np.random.normal()) == expected


def test_another_attempt_of_a_round_draws_other_noise():
    draws = Draws(RunConfig(), is_virtual=True)
    drawn = []
    for attempt in (1, 2, 1):
        with draws.to_compute(None, "next state", At(3, attempt)):
            drawn.append(np.random.normal())
    assert drawn[0] == drawn[2] != drawn[1]


def test_the_norm_of_adaptive_clipping_is_carried_over(scene_of):
    run = scene_of("adaptive clipping", rounds=2).run()
    norm = run.strategy.strategy.clipping_norm
    assert norm != 0.1  # what it begins with
    taken_up(run, "adaptive clipping", rounds=3)
    assert run.strategy.strategy.clipping_norm == norm


def test_a_wrapper_without_what_it_wraps_says_how_to_name_it():
    options = json.dumps({k: v for k, v in DP.items() if k != "strategy"} | {"clipping_norm": 1.0})
    with pytest.raises(SettingError) as error:
        load_strategy(StrategySettings(name=STRATEGIES["fixed clipping"][0], options=options))
    assert 'strategy.options.strategy = "flwr.serverapp.strategy:FedAvg"' in str(error.value)
    assert "\n" not in str(error.value)


def test_what_a_wrapper_wraps_may_have_options_of_its_own():
    inner = {"name": f"{MODULE}:FedAvg", "options": {"fraction_train": 0.5}}
    options = json.dumps({**DP, "clipping_norm": 1.0, "strategy": inner})
    made = load_strategy(StrategySettings(name=STRATEGIES["fixed clipping"][0], options=options))
    assert made.strategy.strategy.fraction_train == 0.5


@pytest.mark.slow
def test_metrics_of_the_nodes_reach_the_strategy(scene):
    settings = StrategySettings(name=f"{MODULE}:QFedAvg", options='{"client_learning_rate": 0.1}')
    run = scene({10 + n: Node(n) for n in range(4)}, strategy=load_strategy(settings), rounds={"total": 2})
    run.store.begin({"w": STATE["w"]})
    assert len(run.run().store.history.rounds) == 2


def test_a_node_that_leaves_out_a_metric_is_left_out_and_ends_nothing(scene, caplog):
    def without_loss(message, node):
        content = honest_content(message, node.partition_id)
        del content[wire.METRICS]["train_loss"]
        wire.seal(content)
        return [content]

    settings = StrategySettings(name=f"{MODULE}:QFedAvg", options='{"client_learning_rate": 0.1}')
    nodes = {10 + n: Node(n) for n in range(5)}
    nodes[13].report = without_loss
    run = scene(nodes, strategy=load_strategy(settings))
    run.store.begin({"w": STATE["w"]})
    assert len(run.run().store.history.rounds) == 1
    assert "position=3 left out: it has not reported train_loss" in caplog.text


def test_what_a_strategy_raises_is_one_line_that_names_it(scene):
    settings = StrategySettings(
        name=f"{MODULE}:QFedAvg", options='{"client_learning_rate": 0.1, "train_loss_key": "x"}'
    )
    run = scene({10 + n: Node(n) for n in range(4)}, strategy=load_strategy(settings))
    run.store.begin({"w": STATE["w"]})
    with pytest.raises(RunFailed, match=r"strategy QFedAvg: AggregationError: .*'x'") as error:
        run.run()
    assert "\n" not in str(error.value)


def test_uniform_weighting_holds_for_them_too(scene):
    nodes = {10 + n: Node(n) for n in range(4)}
    settings = StrategySettings(name=f"{MODULE}:FedAvg", weighting="uniform")
    run = scene(nodes, strategy=load_strategy(settings))
    run.store.begin({"w": STATE["w"]})
    np.testing.assert_allclose(run.run().state["w"], STATE["w"] + 2.5)  # the mean of 1, 2, 3, 4
