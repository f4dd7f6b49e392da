"""Two features of a round from outside: a floor of noise, and a sum that is asked for by one more message."""

from dataclasses import replace

import numpy as np

from fedlearn.extend import (
    STATE,
    Added,
    Entries,
    Fate,
    Feature,
    MaskedSum,
    Metric,
    NodeFeature,
    Positive,
    Refused,
    Rule,
    ask_nodes,
    layout_of,
)

FLOOR = Metric("noise_floor", "noise floor", "down", low=0, is_result=True)


class NoiseFloor(Feature):
    """Sends nodes a level of noise, and says for each round what is left of it in the mean of the cohort."""

    rules = (
        Rule("secure.sums", lambda asked: asked.config.is_secure, "a secure sum hides single reports", "use 'off'"),
    )

    def __init__(self, *, level: Positive = 0.5):
        self.level = level

    def metrics(self, of_model):
        return Added(rounds=(FLOOR,))

    def instruct(self, instructions):
        instructions.send("noise-floor", {"level": np.array([self.level], np.float32)})

    def measured(self, new, measure):
        found = measure(new)
        floor = self.level / len(new.reporting.members) ** 0.5 if new.reporting else None
        return replace(found, columns={**found.columns, FLOOR.name: floor})


class SumOfAnswers(Feature):
    """Adds up what nodes answer to one more message: their reports hold nothing of their training."""

    on_nodes = "features:Answering"

    def reports(self, plan, at, collect):
        reporting = collect(plan, at)
        both = zip(reporting.members, reporting.reports, strict=True)
        weights = {member.node_id: report.num_examples for member, report in both if report.fate is Fate.REPORTED}
        answers = ask_nodes(self.run, Answering.name, {node: {} for node in weights}, at)
        total = MaskedSum.empty(layout_of(self.run.state))
        for node, parcels in answers.items():
            update = {name: Entries(array.reshape(-1)) for name, array in parcels["trained"].items()}
            total.add([(weights[node], update)])
        return replace(reporting, sums={STATE: total})


class Answering(NodeFeature):
    """Keeps what the node has made of the state until it is asked for it."""

    name = "sum of answers"

    def answer(self, request, answer, state, report):
        request.memory.arrays["waiting"] = {name: array.copy() for name, array in answer.arrays.items()}
        return report(answer._replace(arrays=dict(state)))

    def asked(self, request):
        if "waiting" not in request.memory.arrays:
            raise Refused("undecodable", "nothing waits to be asked for")
        return {"trained": request.memory.arrays.pop("waiting")}
