"""Measures of single nodes, each on examples of its own (``evaluation.nodes``), and how they are spread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from fedlearn import wire
from fedlearn.config import RunConfig
from fedlearn.core.gains import Compared, Gains, beside, columns_on_nodes
from fedlearn.core.metric import ALONE, TEST_EXAMPLES, Measured
from fedlearn.core.metrics import Metrics
from fedlearn.core.seeding import rng_for
from fedlearn.core.spread import Spread
from server.feature import Added, Feature, Measure, Measures, NewState
from server.phases.evaluation_answers import answers_to, finite, measured_by, sound_answers
from server.rules import Asked, Rule
from server.run import ServerRun
from strategies.base import RoundStrategy

BESIDE = "evaluation.beside"


class OfNode(NamedTuple):
    """The metrics of the new state on one node, and how many of its own examples they are of."""

    partition_id: int
    examples: int
    means: Measured


class MeasuresOnNodes(Feature):
    """Lets nodes measure each new state on examples of their own, and what else they have beside it."""

    run: ServerRun
    rules = (
        Rule(
            "evaluation.nodes", lambda asked: asked.config.evaluation.nodes and asked.traits.is_private,
            "clients would send what they measured on data that model or learner keeps private, and no budget covers "
            "that", "use 0",
        ),
        Rule(
            BESIDE, lambda asked: asked.config.evaluation.beside and not asked.config.evaluation.nodes,
            "no client measures", "say by evaluation.nodes how many are to",
        ),
        Rule(
            BESIDE, lambda asked: _begins_alone(asked) and not asked.is_virtual,
            "a model alone begins as the run does, and clients of a network do not have model.initial", "leave one out",
        ),
    )  # fmt: skip

    @classmethod
    def is_asked(cls, config: RunConfig, strategy: RoundStrategy[Any]) -> bool:
        """Return whether nodes are to measure, or are to measure something beside the state."""
        return bool(config.evaluation.nodes or config.evaluation.beside)

    def metrics(self, of_model: Metrics) -> Added:
        """Return how the headline is spread over the nodes, and what a node measures, in a report and of a new state.

        A report brings the measures before and after training, if its node makes them.
        """
        kinds, headline = self.config.evaluation.kinds, of_model.headline
        names = [metric.name for metric in of_model.evaluated]
        of_nodes = (*names, *(f"{name}_{kind}" for kind in kinds for name in names))
        return Added(columns_on_nodes(headline, kinds) if headline else (), of_nodes, of_model.on_nodes)

    def measured(self, new: NewState, measure: Measure) -> Measures:
        """Return the measures with those of as many nodes as the settings say.

        The nodes are drawn at random among those that are connected; those of which nothing comes within the reporting
        deadline, or nothing sound, are left out.
        """
        found = measure(new)
        headline = self.run.traits.metrics.headline
        if headline is None or new.once:
            return found
        nodes = self._measured(new) if self.config.is_evaluated(new.at.round_number) else ()
        rows = {node.partition_id: {TEST_EXAMPLES: node.examples, **node.means} for node in nodes}
        return replace(found, columns={**found.columns, **self._spread(nodes)}, nodes=rows)

    def _measured(self, new: NewState) -> Sequence[OfNode]:
        run, kinds = self.run, self.config.evaluation.kinds
        nodes, deadline = self._drawn(new.at.round_number), run.rounds.reporting_deadline
        names = self.metrics(run.traits.metrics).nodes
        record, number = wire.pack_arrays(new.state), new.at.round_number
        messages = [
            wire.evaluation(node, record, round_number=number, ttl=deadline, beside=bool(kinds)) for node in nodes
        ]
        measures = []
        partitions = {node: run.directory.partition_of(node) for node in nodes}
        replies = answers_to(run, messages, deadline)
        of_some = [name for name in names if name.endswith(tuple(f"_{kind}" for kind in kinds))]
        for place, reply in sound_answers(run, replies, partitions, number, of_some=of_some).items():
            examples, means = measured_by(reply)
            derived = run.traits.metrics.completed_on_nodes(means, kinds)
            measured = finite({**run.traits.metrics.completed(means), **derived}, names)
            measures.append(OfNode(partitions[nodes[place]], examples, measured))
        return measures

    def _drawn(self, round_number: int) -> list[int]:
        """Return the nodes that are to measure, in the order of their partitions."""
        nodes = self.run.directory.nodes(ttl=self.run.rounds.reporting_deadline)
        wanted = self.config.evaluation.nodes
        if wanted >= len(nodes):
            return [int(node) for node in nodes]
        rng = rng_for(self.config.seed, purpose="nodes that measure", round_number=round_number)
        return [int(nodes[place]) for place in sorted(rng.choice(len(nodes), wanted, replace=False).tolist())]

    def _spread(self, nodes: Sequence[OfNode]) -> Measured:
        """Return how the headline is spread over the nodes, of their models and beside them."""
        metric, kinds = self.run.traits.metrics.headline, self.config.evaluation.kinds
        assert metric is not None
        found = Spread(metric).of(_values(nodes, metric.name))
        for kind in kinds:
            column = beside(metric, kind)
            found |= Spread(column).of(_values(nodes, column.name))
        if ALONE in kinds:
            found |= Gains(metric).of(list(_compared(nodes, metric.name)))
        return found


def _begins_alone(asked: Asked) -> bool:
    return ALONE in asked.config.evaluation.kinds and bool(asked.config.model.initial)


def _values(nodes: Sequence[OfNode], name: str) -> list[tuple[int, float]]:
    return [(node.examples, value) for node in nodes if (value := node.means.get(name)) is not None]


def _compared(nodes: Sequence[OfNode], name: str) -> Iterator[Compared]:
    for node in nodes:
        got, alone = node.means.get(name), node.means.get(f"{name}_{ALONE}")
        if got is not None and alone is not None:
            yield Compared(node.examples, got, alone)
