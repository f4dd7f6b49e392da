"""The local baseline (``training.baseline = "local"``): each node trains alone, all nodes' models meet one test set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedlearn import wire
from fedlearn.config import RunConfig
from fedlearn.config.baselines import LOCAL, NONE, note_of
from fedlearn.core.cohort import Fate
from fedlearn.core.metric import Measured, Metric
from fedlearn.core.metrics import Metrics
from fedlearn.core.spread import Spread
from server.attempt import Reporting
from server.feature import Added, Feature, Measure, Measures, NewState
from server.phases.evaluation import is_due
from server.phases.evaluation_answers import answers_to, finite, measured_by, sound_answers
from server.rules import Rule
from server.run import ServerRun
from strategies.base import RoundStrategy

ON_TEST_SET = "evaluate.on_test_set"
ON_TEST_ROWS_ONCE = "evaluate.on_test_rows_once"
AT_ONCE = 50  # nodes that are asked together: each measures a whole test set, within one reporting deadline
BASELINE = "training.baseline"


class Baseline(Feature):
    """A run where one node has all data, or each trains alone: what the settings make of it is said."""

    run: ServerRun
    rules = (
        Rule(
            BASELINE, lambda asked: not asked.is_virtual,
            "a baseline is made in a simulation",
            "the clients of a network keep their examples, and send what they learn",
        ),
        Rule(
            BASELINE, lambda asked: asked.config.training.baseline == LOCAL and asked.traits.is_private,
            "clients would send models and scores that no budget pays for, though nothing is averaged", "use 'central'",
        ),
    )  # fmt: skip

    @classmethod
    def is_asked(cls, config: RunConfig, strategy: RoundStrategy[Any]) -> bool:
        """Return whether the run is a baseline."""
        return config.training.baseline != NONE

    def notices(self) -> Sequence[str]:
        """Return what the baseline is."""
        return [note_of(self.config)]

    def metrics(self, of_model: Metrics) -> Added:
        """Return how the headline is spread over the nodes' models on the common test set."""
        headline = of_model.headline
        if headline is None or not self._is_apart:
            return Added()
        name, title = f"{headline.name}_models", headline.title
        better, unit = headline.better, headline.unit
        worst = Metric(
            f"{name}_worst", f"{title} of the worst tenth", better, unit=unit, note="of models", is_result=True
        )
        deviation = Metric(
            f"{name}_deviation", f"spread of {title}", "down", unit=unit, note="over models", is_result=True
        )
        return Added((worst, deviation))

    def measured(self, new: NewState, measure: Measure) -> Measures:
        """Return the measures of the nodes' own models on the server's test rows, in place of those of the state."""
        if not self._is_apart:
            return measure(new)
        if new.once:
            return Measures(self._evaluated(new, self._all_nodes(), on=ON_TEST_ROWS_ONCE))
        if not is_due(self.run, new.at.round_number):
            added = self.metrics(self.run.traits.metrics).rounds
            return Measures({**measure(new).columns, **dict.fromkeys(metric.name for metric in added)})
        self.run.events.write("evaluating", round=new.at.round_number)
        assert new.reporting is not None
        return Measures(self.run.as_columns(self._evaluated(new, _reported_in(new.reporting), on=ON_TEST_SET)))

    @property
    def _is_apart(self) -> bool:
        """Whether the server's test set measures the nodes' own models, and not the state."""
        return self.config.training.baseline == LOCAL and self.config.evaluation.where == "server"

    def _all_nodes(self) -> dict[int, int]:
        """Return node -> partition of all nodes of a simulation."""
        return {node: partition for partition, node in enumerate(self.run.exchange.nodes_by_partition() or ())}

    def _evaluated(self, new: NewState, asked: Mapping[int, int], *, on: str) -> Measured:
        """Return the means over the nodes' models of what each measures, and the spread of the headline.

        A node of which no sound answer comes within the reporting deadline is left out.

        Parameters
        ----------
        asked
            Node -> partition of the nodes that are asked.
        on
            The type of the messages: it says which rows are measured.
        """
        run, members = self.run, list(asked)
        record, deadline, number = wire.pack_arrays(new.state), run.rounds.reporting_deadline, new.at.round_number
        names = [metric.name for metric in run.traits.metrics.evaluated]
        rows: list[Measured] = []
        for start in range(0, len(members), AT_ONCE):
            some = members[start : start + AT_ONCE]
            messages = [wire.evaluation(node, record, round_number=number, ttl=deadline, on=on) for node in some]
            for reply in sound_answers(run, answers_to(run, messages, deadline), asked, number).values():
                _, means = measured_by(reply)
                rows.append(finite(run.traits.metrics.completed(means), names))
        return {**_means(rows, names), **self._spread(rows)}

    def _spread(self, rows: Sequence[Measured]) -> Measured:
        columns, headline = self.metrics(self.run.traits.metrics).rounds, self.run.traits.metrics.headline
        if headline is None or not columns:
            return {}
        of_models = Spread(headline).of([(1, value) for row in rows if (value := row[headline.name]) is not None])
        return {metric.name: of_models[metric.name.replace("_models_", "_nodes_")] for metric in columns}


def _reported_in(reporting: Reporting) -> dict[int, int]:
    """Return node -> partition of the nodes that have reported in a round."""
    ends = zip(reporting.members, reporting.reports, strict=True)
    return {member.node_id: member.partition_id for member, report in ends if report.fate is Fate.REPORTED}


def _means(rows: Sequence[Measured], names: Sequence[str]) -> dict[str, float | None]:
    """Return the plain mean of each metric over the models; None where a model's value is not finite."""
    columns = {name: [row[name] for row in rows] for name in names}
    return {
        name: float(np.mean(values)) if (values := [v for v in column if v is not None]) == column and column else None
        for name, column in columns.items()
    }
