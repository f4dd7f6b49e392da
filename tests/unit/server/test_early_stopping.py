from __future__ import annotations

import math
from dataclasses import replace

import pytest

from fedlearn.config import RunConfig
from fedlearn.config.tables.reports import StrategySettings
from fedlearn.config.tables.round_settings import EvaluationSettings
from fedlearn.core.errors import SettingError
from fedlearn.core.metric import ACCURACY, EPSILON, LOSS, TRAIN_LOSS, Metric
from fedlearn.core.metrics import NEURAL_CLASSIFIER, Metrics
from fedlearn.runs.checkpoint import RunStore
from fedlearn.runs.history import COLUMNS, RoundRecord
from server.early_stopping import FREE, NOT_FREE, Stopping, check_stopping, check_validation, hides_rows, stops_by
from strategies import load_strategy
from strategies.fedavg import FedAvg
from tests.unit.server.scripted import Node


def rounds(*values, name="accuracy"):
    fixed = dict.fromkeys(COLUMNS, 0)
    return [RoundRecord.from_row({**fixed, "round_number": place, name: v}) for place, v in enumerate(values, start=1)]


def config_of(**stop):
    return RunConfig(stop=stop, rounds={"total": 20})


def stopped_after(values, metric=ACCURACY, *, every=1, **stop):
    """Return the round after which a run with these values stops, and why; None if it never does."""
    config = config_of(**stop).model_copy(update={"evaluation": RunConfig(evaluation={"every": every}).evaluation})
    stopping = Stopping(config, metric)
    for record in rounds(*values, name=metric.name):
        stopping.take(record)
        if stopping.reason:
            return record.round_number, stopping.reason
    return None


def test_run_stops_in_the_first_round_that_reaches_the_target():
    assert stopped_after([0.5, 0.9, 0.95], target=0.9) == (2, "accuracy 0.9 has reached stop.target = 0.9")
    assert stopped_after([0.5, 0.8], target=0.9) is None


def test_target_of_a_loss_is_reached_from_above():
    assert stopped_after([0.5, 0.09], LOSS, target=0.1)[0] == 2


def test_target_of_zero_is_a_target():
    assert stopped_after([0.5, 0.0], LOSS, target=0)[0] == 2


def test_run_stops_once_patience_has_passed_without_improvement():
    round_number, why = stopped_after([0.5, 0.7, 0.6, 0.7, 0.69], patience=3)
    assert (round_number, why) == (5, "accuracy has not improved since 0.7 in round 2 (stop.patience = 3)")


def test_improvements_smaller_than_the_least_do_not_count():
    values = [0.5, 0.505, 0.509, 0.6]
    assert stopped_after(values, patience=2, least_improvement=0.01)[0] == 3
    assert stopped_after(values, patience=2) is None


def test_many_small_improvements_count_together():
    assert stopped_after([0.5, 0.506, 0.512, 0.518, 0.524], patience=3, least_improvement=0.01) is None


def test_patience_counts_rounds_and_stops_in_evaluated_ones():
    assert stopped_after([None, 0.5, None, 0.5, None, 0.5], every=2, patience=3)[0] == 6


def test_metric_that_is_not_finite_improves_nothing():
    assert stopped_after([0.5, None, None], patience=2)[0] == 3
    assert "not improved at all" in stopped_after([None, None], patience=2)[1]


def test_no_setting_never_stops():
    assert stopped_after([0.5] * 20) is None
    assert stops_by(RunConfig(), NEURAL_CLASSIFIER) is None


def test_reaching_the_target_in_the_last_round_is_no_early_stop():
    stopping = Stopping(RunConfig(stop={"target": 0.9}, rounds={"total": 2}), ACCURACY, rounds(0.5, 0.9))
    assert stopping.reason and not stopping.early(2)
    assert stopping.early(1).startswith("in round 1 because")


def test_target_is_stored_as_the_text_of_a_number():
    assert config_of(target="0.90").stop.target == config_of(target=0.9).stop.target == "0.9"
    for wrong in ("much", math.nan, "inf", True, [1]):
        with pytest.raises(ValueError, match=r"number|switch"):
            config_of(target=wrong)


def test_run_pauses_after_a_round_whatever_its_metric():
    stopping = Stopping(config_of(after=3), None, rounds(0.1, 0.2))
    assert not stopping.reason
    (third,) = rounds(0.3)
    stopping.take(replace(third, round_number=3))
    assert (stopping.reason, stopping.is_paused) == ("stop.after = 3", True)


# --- what is refused --------------------------------------------------------------------------------------------------


def checked(
    columns=NEURAL_CLASSIFIER, *, where="server", mods="", is_private=False, is_public=True, strategy=None, **stop
):
    config = RunConfig(stop={"patience": 3, **stop}, evaluation={"where": where}, client={"mods": mods})
    hides = hides_rows(config, strategy or FedAvg(), is_private=is_private)
    return check_stopping(config, columns, is_private=hides, test_is_public=is_public)


def test_metric_that_is_not_measured_is_refused_with_those_that_are():
    with pytest.raises(
        SettingError, match=r"stop.metric = 'f1': it is not measured.*one of loss, accuracy, train_loss"
    ):
        checked(metric="f1")


def test_metric_without_a_better_side_is_refused():
    with pytest.raises(SettingError, match="no value is the better one"):
        checked(Metrics((Metric("age"),), (LOSS,)), metric="age")


def test_run_that_evaluates_nothing_cannot_stop_by_its_state():
    with pytest.raises(SettingError, match="not evaluated in this run"):
        checked(where="none")
    assert checked(where="none", metric="train_loss") == ""


def test_private_nodes_are_never_asked_for_what_no_budget_pays():
    with pytest.raises(SettingError, match="no budget pays"):
        checked(Metrics((EPSILON, TRAIN_LOSS), (LOSS, ACCURACY)), metric="train_loss", is_private=True)
    with pytest.raises(SettingError, match="no budget pays"):
        checked(where="nodes", is_private=True)
    with pytest.raises(SettingError, match="no budget pays"):
        checked(metric="train_loss", mods="flwr.clientapp.mod:fixedclipping_mod")


def test_strategy_that_adds_noise_stops_by_the_servers_test_set_alone():
    inner = {"name": "flwr.serverapp.strategy:FedAvg"}
    options = {"strategy": inner, "noise_multiplier": 1.0, "clipping_norm": 1.0, "num_sampled_clients": 4}
    name = "flwr.serverapp.strategy:DifferentialPrivacyServerSideFixedClipping"
    noisy = load_strategy(StrategySettings(name=name, options=options))
    with pytest.raises(SettingError, match="no budget pays"):
        checked(metric="train_loss", strategy=noisy)
    assert checked(strategy=noisy) == FREE


def test_private_run_stops_by_public_rows_only():
    assert checked(is_private=True) == FREE
    assert checked(mods="flwr.clientapp.mod:fixedclipping_mod", is_public=False) == NOT_FREE
    with pytest.raises(SettingError, match="a private run chooses by public rows only"):
        checked(is_private=True, is_public=False)
    assert checked() == ""


def test_validation_rows_are_public_rows_of_the_server():
    config = RunConfig(data={"validation_share": 0.2})
    check_validation(config, is_private=True, test_is_public=True)
    with pytest.raises(SettingError, match=r"validation_share = '0.2': a private run chooses by public rows only"):
        check_validation(config, is_private=True, test_is_public=False)
    with pytest.raises(SettingError, match=r"evaluation.where = 'nodes'"):
        by_nodes = config.model_copy(update={"evaluation": EvaluationSettings(where="nodes")})
        check_validation(by_nodes, is_private=False, test_is_public=True)


def test_metric_of_a_stop_is_that_of_the_validation_rows():
    columns = NEURAL_CLASSIFIER.on_validation_rows()
    for metric in ("", "accuracy", "validation_accuracy"):
        found = stops_by(RunConfig(stop={"patience": 3, "metric": metric}), columns)
        assert found.name == "validation_accuracy"


# --- a run ------------------------------------------------------------------------------------------------------------

PATIENT = {"metric": "train_loss", "patience": 2}  # the nodes say 0.5 in every round


def nodes():
    return {10 + partition: Node(partition) for partition in range(4)}


@pytest.mark.parametrize("schedule", ["synchronous", "buffered", "immediate"])
def test_run_stops_early_and_says_so(scene, schedule):
    run = scene(nodes(), rounds={"total": 9, "schedule": schedule}, stop=PATIENT).run()
    assert len(run.store.history.rounds) == 3
    (stopped,) = run.events("stopped")
    assert (stopped["round"], stopped["reason"]) == (3, run.server.stopping.reason)


@pytest.mark.parametrize("schedule", ["synchronous", "buffered", "immediate"])
@pytest.mark.parametrize("killed_after", [1, 2, 3])
def test_resumed_run_stops_after_the_same_round_with_the_same_bytes(scene, schedule, killed_after):
    whole = scene(nodes(), rounds={"total": 9, "schedule": schedule}, stop=PATIENT).run()
    run = scene(nodes(), rounds={"total": killed_after, "schedule": schedule}, stop=PATIENT).run()
    run.with_settings(rounds={"total": 9}).run()
    assert len(run.store.history.rounds) == 3
    assert run.store.model_sha256 == whole.store.model_sha256


def test_stopped_run_goes_on_where_the_settings_no_longer_stop_it(scene):
    straight = scene(nodes(), rounds={"total": 5}).run()
    run = scene(nodes(), rounds={"total": 5}, stop=PATIENT).run()
    run.with_settings(stop={"patience": 0}).run()
    assert run.store.model_sha256 == straight.store.model_sha256


def test_last_round_is_stored_though_others_are_put_off(scene):
    run = scene(nodes(), rounds={"total": 9, "store_every": 5}, stop=PATIENT).run()
    stored = RunStore(run.folder.path, run.store.metrics)
    stored.load()
    assert len(stored.history.rounds) == 3


def test_every_second_model_stays_in_the_folder(scene):
    run = scene(nodes(), rounds={"total": 5, "keep_every": 2, "store_every": 3}).run()
    kept = sorted(path.name for path in (run.folder.path / "models").iterdir())
    assert kept == ["round-000002.safetensors", "round-000004.safetensors"]
    short = scene(nodes(), rounds={"total": 4}).run()
    assert (run.folder.path / "models" / kept[1]).read_bytes() == (short.folder.path / "model.safetensors").read_bytes()
