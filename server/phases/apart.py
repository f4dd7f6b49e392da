"""Evaluation where each node trains alone (``training.baseline = "local"``): all nodes' models, on one test set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fedlearn import wire
from fedlearn.config import RunConfig
from fedlearn.config.baselines import LOCAL
from fedlearn.core.cohort import Fate
from fedlearn.core.metric import Measured, Metric
from fedlearn.core.metrics import Metrics
from fedlearn.core.spread import Spread
from fedlearn.core.state import State
from server.attempt import Reporting
from server.phases.answers import answers_to, finite, measured_by, sound_answers
from server.run import ServerRun

ON_TEST_SET = "evaluate.on_test_set"
ON_TEST_ROWS_ONCE = "evaluate.on_test_rows_once"
AT_ONCE = 50  # nodes that are asked together: each measures a whole test set, within one reporting deadline


def is_apart(config: RunConfig) -> bool:
    """Return whether the server's test set measures the nodes' own models, and not the state."""
    return config.training.baseline == LOCAL and config.evaluation.where == "server"


def apart_metrics(config: RunConfig, of_model: Metrics) -> tuple[Metric, ...]:
    """Return the further columns: how the headline is spread over the nodes' models on the common test set."""
    headline = of_model.headline
    if headline is None or not is_apart(config):
        return ()
    name, title = f"{headline.name}_models", headline.title
    better, unit = headline.better, headline.unit
    return (
        Metric(f"{name}_worst", f"{title} of the worst tenth", better, unit=unit, note="of models", is_result=True),
        Metric(f"{name}_deviation", f"spread of {title}", "down", unit=unit, note="over models", is_result=True),
    )


def reported_in(reporting: Reporting) -> dict[int, int]:
    """Return node -> partition of the nodes that have reported in a round."""
    ends = zip(reporting.members, reporting.reports, strict=True)
    return {member.node_id: member.partition_id for member, report in ends if report.fate is Fate.REPORTED}


def all_nodes(run: ServerRun) -> dict[int, int]:
    """Return node -> partition of all nodes of a simulation."""
    return {node: partition for partition, node in enumerate(run.exchange.nodes_by_partition() or ())}


def evaluated_apart(
    run: ServerRun, state: State, asked: Mapping[int, int], *, round_number: int, on: str = ON_TEST_SET
) -> Measured:
    """Return the means over the nodes' models of what each measures on the test set, and the spread of the headline.

    A node of which no sound answer comes within the reporting deadline is left out.

    Parameters
    ----------
    asked
        Node -> partition of the nodes that are asked.
    on
        The type of the messages: it says which rows are measured.
    """
    members = list(asked)
    record, deadline = wire.pack_arrays(state), run.rounds.reporting_deadline
    names = [metric.name for metric in run.model_metrics.evaluated]
    rows: list[Measured] = []
    for start in range(0, len(members), AT_ONCE):
        some = members[start : start + AT_ONCE]
        messages = [
            wire.evaluation(node, record, round_number=round_number, ttl=deadline, on=on) for node in some
        ]  # fmt: skip
        for reply in sound_answers(run, answers_to(run, messages, deadline), asked, round_number).values():
            _, means = measured_by(reply)
            rows.append(finite(run.model_metrics.completed(means), names))
    return {**_means(rows, names), **_spread(run, rows)}


def _means(rows: Sequence[Measured], names: Sequence[str]) -> dict[str, float | None]:
    """Return the plain mean of each metric over the models; None where a model's value is not finite."""
    columns = {name: [row[name] for row in rows] for name in names}
    return {
        name: float(np.mean(values)) if (values := [v for v in column if v is not None]) == column and column else None
        for name, column in columns.items()
    }


def _spread(run: ServerRun, rows: Sequence[Measured]) -> Measured:
    columns, headline = apart_metrics(run.config, run.model_metrics), run.model_metrics.headline
    if headline is None or not columns:
        return {}
    of_models = Spread(headline).of([(1, value) for row in rows if (value := row[headline.name]) is not None])
    return {metric.name: of_models[metric.name.replace("_models_", "_nodes_")] for metric in columns}
