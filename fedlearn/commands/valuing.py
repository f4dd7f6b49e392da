"""Value the clients of a run by the scores of the models of coalitions, and store the answer in worth.json."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache, reduce
from operator import add
from pathlib import Path

from fedlearn.commands.shapley import MOST_EXACT, Share, leave_one_out, sampled, shapley
from fedlearn.config import RunConfig, config_from
from fedlearn.core.errors import RunFailed, UsageError
from fedlearn.core.metric import Metric
from fedlearn.data.data_spec import Examples
from fedlearn.data.partitioning import partition_table
from fedlearn.data.rows_of_nodes import measured_on
from fedlearn.models.loaded import loaded, rows_measured
from fedlearn.plugins import objects
from fedlearn.plugins.registry import load_reference
from fedlearn.plugins.tables import REBUILT
from fedlearn.runs.analysis_answers import WORTH_COLUMN, Answer, AnswerTable, Cell, write_worth
from fedlearn.runs.folder import RunFolder

NORMAL = 1.959964  # standard errors of a 95 % interval


def valued(folder: Path, *, rows: str = "test", permutations: int = 100, seed: int = 1) -> Answer:
    """Return what each client is worth, having stored it in the run folder.

    Parameters
    ----------
    rows
        By which rows models are scored: ``test``, ``validation`` or ``clients``.
    permutations, seed
        Of the estimate, where the run has more than 10 clients.
    """
    config = config_from({**RunFolder(folder).read_settings(), "out": str(folder)}, source=str(folder))
    objects.look_in(folder)
    begin = time.process_time()
    rebuilt = load_reference(REBUILT)(folder, config, RunFolder(folder).read_summary()["rounds"])
    clients = rebuilt.clients
    metric, examples = _metric(config), _examples(config, rows, clients)
    model, sign = loaded(config)[1], -1 if metric.better == "down" else 1

    @cache
    def value(coalition: frozenset[int]) -> float:
        state = rebuilt.state_of(coalition)
        total = reduce(add, (model.evaluate(state, each) for each in examples))
        score = model.metrics.completed({**total.means, **total.scores}).get(metric.name)
        if score is None:
            raise RunFailed(f"the model of clients {sorted(coalition)} has no {metric.name} on these rows")
        return sign * float(score)

    is_exact = len(clients) <= MOST_EXACT
    shares = shapley(clients, value) if is_exact else sampled(clients, value, permutations=permutations, seed=seed)
    table = _table(shares, leave_one_out(clients, value))
    everyone, nobody = value(frozenset(clients)), value(frozenset())
    facts: dict[str, Cell] = {
        "rows": rows, "Shapley values": "exact" if is_exact else f"by {permutations} random orders of clients",
        f"{metric.name} of all": sign * everyone, f"{metric.name} before round 1": sign * nobody,
        "coalitions": value.cache_info().currsize, "CPU seconds": round(time.process_time() - begin, 3),
    }  # fmt: skip
    turned = f"; {metric.name} is better if smaller, so its decrease counts" if sign < 0 else ""
    note = "A coalition's model is made of changes that its clients computed from the states of all."
    title = f"Contribution of each client to {metric.name}{turned}"
    found = Answer(title=title, facts=facts, tables=(table,), forest=WORTH_COLUMN, notes=(note,))
    write_worth(folder, found)
    return found


def _metric(config: RunConfig) -> Metric:
    metric = loaded(config)[1].metrics.headline
    if metric is None:
        raise UsageError(f"model.name = {config.model.name!r}: it has no score by which clients could be valued")
    return metric


def _examples(config: RunConfig, rows: str, clients: Sequence[int]) -> list[Examples]:
    """Return the examples by which models are scored, in parts."""
    dataset = loaded(config)[0]
    if rows == "clients":
        table = partition_table(dataset, config.data, num_partitions=config.clients, seed=config.seed)
        return [measured_on(dataset, table, client) for client in clients]
    if rows == "validation" and not config.data.validates:
        raise UsageError("--rows validation: the run has no validation rows: use test, or clients")
    found = rows_measured(config, dataset, once=rows == "test")
    return [found.at(0, len(found))]


def _table(shares: dict[int, Share], left_out: dict[int, float]) -> AnswerTable:
    ends = [f"{WORTH_COLUMN} {end} %" for end in ("2.5", "97.5")]
    rows = [
        (f"client {client}", value, value - NORMAL * error, value + NORMAL * error, error, left_out[client])
        for client, (value, error) in shares.items()
    ]
    return AnswerTable("worth", ("client", WORTH_COLUMN, *ends, "standard error", "leave-one-out"), tuple(rows))
