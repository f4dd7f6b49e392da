"""What a run will do, found and checked before anything is stored or sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedlearn.config import RunConfig
from fedlearn.core.client_facts import NodeTraits
from fedlearn.core.errors import SettingError, UsageError
from fedlearn.core.metric import WORK_DONE, Metric, virtual_time
from fedlearn.core.metrics import Metrics
from fedlearn.models.loaded import Traits
from fedlearn.models.loaded import traits as traits_of
from fedlearn.plugins.tables import CLIENT_ABOUT
from fedlearn.runs.history import COLUMNS
from fedlearn.runs.log import OF_EVENTS
from fedlearn.runs.spending import check_records, cost_of_initial, counted_in, notices_of, promised, without_exact
from server.early_stopping import check_stopping, check_validation, hides_rows
from server.exchange.exchange import Exchange
from server.feature import Feature, features_of
from server.planning.compatibility import check_fitting, check_schedule, check_stack
from server.planning.dropping_cost import cost_of_dropping
from server.planning.plan_rules import OF_PLANS
from server.rules import Asked, check_rules
from server.schedules import load_schedule, metrics_of
from strategies import RoundStrategy


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will do, all of it checked.

    Parameters
    ----------
    config
        The settings, without what private test rows forbid.
    fingerprint
        Of the data; empty where it would tell of a private row.
    traits
        Of the model and its data; their metrics are what nodes and evaluation measure in this run.
    columns
        What the table of rounds has: the metrics, and what strategy, schedule and devices add.
    notes
        Lines for the results.
    """

    config: RunConfig
    traits: Traits
    fingerprint: str
    columns: Metrics
    make_schedule: Callable[..., Any]
    features: Sequence[Feature] = ()
    notes: Sequence[str] = ()


def planned(config: RunConfig, exchange: Exchange, strategy: RoundStrategy[Any]) -> Plan:
    """Return what the run will do; refuse settings that do not go together."""
    make_schedule = load_schedule(config)
    check_records(config)
    traits = exchange.ask(traits_of)
    if has_private_learner(exchange):
        traits = traits.of_private_learner()
    counts_in = ["spent", counted_in(config)]
    protects = traits.is_private or config.protects_nodes
    # By a fingerprint of private rows someone who knows all but one could find that one.
    fingerprint = "" if protects and not traits.is_public else traits.fingerprint
    if traits.is_private:
        config = without_exact(config, test_is_public=traits.test_is_public)
        counts_in += notices_of(config, test_is_public=traits.test_is_public)
    features = features_of(config, strategy)
    check_fitting(config, traits, strategy)
    asked = Asked(config, traits, strategy, exchange.is_virtual)
    check_rules(OF_PLANS, asked)
    for each in features:
        each.check(asked)
    if config.protects_nodes:
        traits = measuring_nothing(traits, but_loss=config.nodes_add_noise)
    check_stack(config, stacks=exchange.stacks)
    check_schedule(make_schedule, config, traits, strategy, exchange)
    of_model = traits.metrics.within(promised(config).epsilon, note="; ".join(counts_in))
    if config.training.partial:
        of_model = replace(of_model, reported=(*of_model.reported, WORK_DONE))
    on_devices = virtual_time(exchange.timed.groups) if exchange.timed else ()
    of_features = metrics_added(features, of_model)
    columns = with_columns(of_model, (*strategy.metrics, *metrics_of(make_schedule), *on_devices, *of_features))
    hides = hides_rows(config, strategy, is_private=traits.is_private)
    who = {"is_private": hides, "test_is_public": traits.test_is_public}
    if config.data.validates:
        check_validation(config, **who)
        columns = columns.on_validation_rows()
    stops = check_stopping(config, columns, **who)
    notes = (cost_of_initial(config, columns), stops, cost_of_dropping(config))
    traits = replace(traits, metrics=of_model)
    return Plan(config, traits, fingerprint, columns, make_schedule, features, tuple(filter(None, notes)))


def measuring_nothing(traits: Traits, *, but_loss: bool) -> Traits:
    """Return the traits of nodes that report nothing that they have measured, but what they have spent, if they do."""
    reported = tuple(metric for metric in traits.metrics.reported if but_loss and metric.is_privacy_loss)
    return replace(traits, metrics=replace(traits.metrics, reported=reported))


def has_private_learner(exchange: Exchange) -> bool:
    """Return whether nodes keep their examples private, as model or learner says.

    On a network a learner may be known to the nodes alone: then the server does not know.
    """
    try:
        return exchange.ask(CLIENT_ABOUT, NodeTraits).is_private
    except SettingError:
        if exchange.is_virtual:
            raise
        return False


def metrics_added(features: Sequence[Feature], of_model: Metrics) -> tuple[Metric, ...]:
    """Return the columns that features add to the table of rounds."""
    return tuple(metric for each in features for metric in each.metrics(of_model).rounds)


def with_columns(of_model: Metrics, added: tuple[Metric, ...]) -> Metrics:
    """Return what is measured in a run, with what strategy, schedule, devices and features add."""
    metrics = replace(of_model, reported=(*of_model.reported, *added))
    if taken := [name for name in metrics.columns if name in {*COLUMNS, *OF_EVENTS}]:
        raise UsageError(f"metric {taken[0]!r}: every round has a column of this name: give the metric another one")
    return metrics
