"""summary.json: the results of a run in one small file; and statistics.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise

import numpy as np

from fedlearn import wire
from fedlearn.config import RunConfig, to_flower
from fedlearn.config.baselines import NONE
from fedlearn.core.metric import NODE_ROWS, PRIVATE_ROWS, TEST_ROWS, TOKENS, VALIDATION_ROWS, VIRTUAL_SECONDS
from fedlearn.core.metrics import COUNTS_IN
from fedlearn.core.state import Layout, State
from fedlearn.models import model_spec
from fedlearn.models.learning_rates import learning_rate as rate_in
from fedlearn.models.loaded import analysis_of, statistics_of
from fedlearn.runs.analysis_answers import write_answer
from fedlearn.runs.file_names import EVENTS
from fedlearn.runs.folder import RunFolder
from fedlearn.runs.history import History
from fedlearn.runs.machine_usage import memory_bytes, memory_peak_bytes
from fedlearn.runs.secret_participation import is_secret, without_participation
from fedlearn.runs.spending import assumed, neighbors_of, notices_of, promised, spent_by_partition, trust_of
from fedlearn.runs.statistics_json import write_statistics
from server.run import ServerRun

SEEDED_MODS = "what client.mods draw is seeded: reproducible, protects nobody"
SEEDED_NODES = "seeded noise: reproducible, protects nobody"
SECURE_MODS = "what client.mods draw no seed gives: not reproducible"
SAID_OF = 100  # rounds whose learning rates are compared


def write_summary(
    folder: RunFolder, run: ServerRun, *, status: str, reason: str, of_test_rows: Mapping[str, object]
) -> None:  # fmt: skip
    """Write what came of the run, however it ended; all numbers but what was spent are of committed rounds."""
    config, history = run.config, run.store.history
    bytes_up = sum(record.bytes_up for record in history.rounds)
    bytes_down = sum(record.bytes_down for record in history.rounds)
    uploads = sum(record.uploads for record in history.rounds)
    written: dict[str, object] = {
        "status": status,
        "reason": reason,
        "dataset": config.data.dataset,
        "dataset_notice": config.data.notice,
        "model": config.model.name,
        **({"initial": config.model.initial_sha256} if config.model.initial else {}),
        **({"baseline": config.training.baseline} if config.training.baseline != NONE else {}),
        **_scores(history),
        **of_test_rows,
        **_chosen_on(run),
        **_on_nodes(history),
        **_privacy(run),
        **_spent_by_strategy(run),
        **({"noise_notice": notice} if (notice := noise_notice(run)) else {}),
        **({"notices": list(run.notes)} if run.notes else {}),
        **{name: value for each in run.features for name, value in each.summary().items()},
        **({"learning_rate": rate} if (rate := learning_rate(config)) and not run.traits.has_own_rate else {}),
        "metrics": history.metrics.to_plain(),
        "rounds": len(history.rounds),
        **({"stopped_early": early} if (early := run.stopping.early(len(history.rounds))) else {}),
        **({"paused": True} if run.is_paused else {}),
        "clients": config.clients,
        "bytes_up": bytes_up,
        "bytes_down": bytes_down,
        "bytes_protocol": sum(record.bytes_protocol for record in history.rounds),
        "compression_ratio": _ratio(run, uploads, bytes_up),
        "bytes_total": bytes_up + bytes_down,
        **_bits(run, bytes_up, bytes_down, uploads),
        "seconds": round(run.time.seconds, 3),
        **_tokens(history),
        **_virtual(run),
        "cpu_seconds": None if (cpu := run.time.processor.seconds()) is None else round(cpu, 3),
        "memory_bytes": memory_bytes(),
        "memory_peak_bytes": memory_peak_bytes(),
        "seed": config.seed,
        "model_sha256": run.store.model_sha256,
    }
    folder.write_summary(without_participation(written) if is_secret(to_flower(config)) else written)


def write_counted(run: ServerRun) -> None:
    """Store the statistics that the final state of a model tells that counts records."""
    if run.store.history.rounds:
        (plain,) = run.exchange.compute(statistics_of, run.state, [()])
        write_statistics(run.store.folder, plain)


def write_analysis(run: ServerRun) -> None:
    """Store the answer of an analysis that is at its end."""
    if run.stopping.reason and not run.stopping.is_paused:
        (plain,) = run.exchange.compute(analysis_of, run.state, [()])
        write_answer(run.store.folder, plain)


def _virtual(run: ServerRun) -> dict[str, object]:
    """Return the devices of the run and the time that it took them; empty in real time."""
    timed = run.exchange.timed
    return {} if timed is None else {VIRTUAL_SECONDS.name: run.clock.now(), "devices": dict(timed.described())}


def _tokens(history: History) -> dict[str, object]:
    """Return the tokens of all rounds, and those of a second of training; empty where none were counted."""
    found = sum(record.measured.get(TOKENS.name) or 0 for record in history.rounds)
    seconds = sum(record.training_seconds for record in history.rounds)
    return {"tokens": int(found), "tokens_per_second": found / seconds if seconds else None} if found else {}


def _scores(history: History) -> dict[str, object]:
    """Return the latest evaluation, the one that counts first, and the best."""
    metrics, evaluated, best = history.metrics, history.evaluated, history.best
    names = [metric.name for metric in metrics.by_interest if metric in metrics.evaluated]
    latest: dict[str, object] = {name: evaluated.measured.get(name) if evaluated else None for name in names}
    if not metrics.best_by:
        return latest
    return {
        **latest,
        f"best_{metrics.best_by}": best.measured[metrics.best_by] if best else None,
        "best_round": best.round_number if best else None,
    }


def _chosen_on(run: ServerRun) -> dict[str, object]:
    """Return which rows have chosen the best round, and an early stop; empty where no round is best."""
    if not run.store.metrics.best_by or run.config.evaluation.where == "none":
        return {}
    if run.config.evaluation.where == "nodes":
        return {"chosen_on": NODE_ROWS}
    if (run.traits.is_private or run.config.protects_nodes) and not run.traits.test_is_public:
        return {"chosen_on": PRIVATE_ROWS}
    return {"chosen_on": VALIDATION_ROWS if run.config.data.validates else TEST_ROWS}


def _on_nodes(history: History) -> dict[str, object]:
    """Return the scores of the latest round in which nodes have measured the state on examples of their own."""
    names = [metric.name for metric in history.metrics.reported if metric.is_result]
    rows: Iterator[dict[str, object]] = (
        {name: record.measured.get(name) for name in names} for record in reversed(history.rounds)
    )
    return next((row for row in rows if any(value is not None for value in row.values())), {})


def _privacy(run: ServerRun) -> dict[str, object]:
    """Return the privacy loss of a record, if nodes count it: by all reports, also of abandoned attempts."""
    loss, rounds = run.traits.metrics.privacy_loss, run.store.history.rounds
    if loss is None:
        return {}
    run.events.flush()
    most = promised(run.config)
    spent = spent_by_partition(run.store.folder / EVENTS, loss.name, most=most.epsilon)
    committed = rounds[-1].measured.get(loss.name) if rounds else None
    return {
        loss.name: max((each for each in (*spent.values(), committed) if each is not None), default=None),
        "nodes_spent": len(spent),
        "neighboring": neighbors_of(most),
        "unit": most.unit.value,
        "trust": trust_of(run.config),
        **assumed(run.config),
        "noise": "secure" if most.is_secure else "seeded",
        "noise_notice": "",
    }


def _spent_by_strategy(run: ServerRun) -> dict[str, object]:
    """Return the privacy losses that the strategy has measured, up to the last round; each with what it counts in."""
    rounds = run.store.history.rounds
    found: dict[str, object] = {}
    for metric in run.strategy.metrics:
        if metric.is_privacy_loss:
            spent = rounds[-1].measured.get(metric.name) if rounds else None
            found |= {metric.name: spent, f"{metric.name}{COUNTS_IN}": metric.note}
    return found


def learning_rate(config: RunConfig) -> str:
    """Return the learning rate of round 1, with how it changes; empty of models that take no steps.

    >>> learning_rate(RunConfig())
    '0.05, falling (lr_schedule = inverse, lr_decay = 0.1)'
    """
    training, total = config.training, config.rounds.total
    if not model_spec(config.model.name).trains_in_steps:
        return ""
    first, way = training.lr, ""
    with suppress(Exception):  # a schedule of the user's own may be known to nodes alone
        some = sorted({1, total, *range(1, total, max(total // SAID_OF, 1))})
        rates = [rate_in(training, number, total) for number in some]
        first, way = rates[0], _way(rates)
    is_flat = training.lr_schedule == "constant" or (training.lr_schedule == "inverse" and not training.lr_decay)
    if is_flat and not way:
        return f"{first:g}"
    decay = f", lr_decay = {training.lr_decay:g}" if training.lr_schedule == "inverse" else ""
    return f"{first:g}, {way}(lr_schedule = {training.lr_schedule}{decay})"


def _way(rates: Sequence[float]) -> str:
    """Return how a learning rate changes from round to round, and a space; empty where it does not.

    >>> _way([0.1, 0.2]), _way([0.1, 0.2, 0.15]), _way([0.1, 0.1])
    ('rising ', 'rising and falling ', '')
    """
    rises, falls = (any(sign * (last - first) > 0 for first, last in pairwise(rates)) for sign in (1, -1))
    return " and ".join(["rising"] * rises + ["falling"] * falls) + " " * (rises or falls)


def noise_notice(run: ServerRun) -> str:
    """Return the notices of every result: on a private model, its noise and rows, and on the strategy's draws."""
    of_model = notices_of(run.config, test_is_public=run.traits.test_is_public) if run.traits.is_private else []
    of_nodes = SEEDED_NODES if run.config.server_adds_noise and run.draws.are_seeded else ""
    of_mods = SEEDED_MODS if run.config.privacy.noise == "seeded" else SECURE_MODS
    notices = (*of_model, of_nodes, of_mods if run.config.client.mods else "", run.draws.notice)
    return "; ".join(notice for notice in notices if notice)


def _ratio(run: ServerRun, uploads: int, bytes_up: int) -> float | None:
    """Return the compression ratio; None where nothing came, or where a plain report has no size: the state grows."""
    if not bytes_up or not run.traits.update_kind.is_averaged:
        return None
    return plain_bytes(run) * uploads / bytes_up


def parameters(run: ServerRun) -> int:
    """Return how many parameters the state has, as entries of its arrays; 0 of a state that grows."""
    return sum(array.size for array in run.state.values()) if run.traits.update_kind.is_averaged else 0


def _bits(run: ServerRun, bytes_up: int, bytes_down: int, uploads: int) -> dict[str, object]:
    """Return the bits for each parameter of a report, and of what a node is sent in a round; empty of other states."""
    count, members = parameters(run), sum(record.cohort for record in run.store.history.rounds)
    if not count:
        return {}
    up, down = (
        (8 * sent / (times * count) if times else None) for sent, times in ((bytes_up, uploads), (bytes_down, members))
    )
    return {"parameters": count, "bits_up": up, "bits_down": down}


def plain_bytes(run: ServerRun) -> int:
    """Return the size of one report that sends everything: what the compression ratio is measured against."""
    parcels = {name: _zeros(plan.layout) for name, plan in run.answers.items()}
    return wire.bytes_of(wire.plain_report(run.state, parcels, metrics=run.reported_by_nodes))


def _zeros(layout: Layout) -> State:
    return {name: np.zeros(spec.shape, spec.dtype) for name, spec in layout.items()}
