"""Tell in a few sentences what happened in runs: rounds, failures, best scores, bytes, privacy, final models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from fedlearn.core.gains import Gains
from fedlearn.core.metric import Metric
from fedlearn.core.spread import Spread
from fedlearn.report.gains_rows import compared
from fedlearn.report.numbers import number, number_spread, ratio, size
from fedlearn.report.points import best, compression_ratio, counts_in, is_compressed, points_of
from fedlearn.report.run_tables import SHA_SHOWN, sha_of
from fedlearn.report.stored import StoredRun
from fedlearn.report.words import word

LOST = {"failed": "failed", "refused": "rejected", "late": "late"}  # column -> word
MOST_NAMES = 3  # runs that a sentence names
THEN = {
    "failed": ", then the run failed", "interrupted": ", then the run was interrupted", "unfinished": " so far",
}  # fmt: skip


def account(runs: Sequence[StoredRun]) -> list[str]:
    """Return the sentences, a line for each subject; empty before the first committed round."""
    if not any(run.rounds for run in runs):
        return []
    lines = (
        _rounds(runs), _lost(runs), *_scores(runs), _gains(runs), _bytes(runs), _sums(runs), _privacy(runs),
        _models(runs),
    )  # fmt: skip
    return [line for line in lines if line]


def _rounds(runs: Sequence[StoredRun]) -> str:
    committed = sum(len(run.rounds) for run in runs)
    done = "1 round completed" if committed == 1 else f"{committed} rounds completed"
    if len(runs) == 1:
        (run,) = runs
        wanted = run.log.view.rounds or committed
        of_all = done if committed >= wanted else f"{committed} of {wanted} rounds completed"
        early = f", then the run stopped early {run.summary['stopped_early']}" if run.is_early else ""
        return f"{of_all}{early or THEN.get(run.status, '')}."
    ended: dict[str, list[str]] = {}
    for run in runs:
        ended.setdefault(run.state_in_words, []).append(run.label)
    parts = [
        f"{len(names)} {status}" + ("" if status == "completed" else f" ({few(names)})")
        for status, names in ended.items()
    ]
    return f"{len(runs)} runs: {', '.join(parts)}. {done}."


HIDDEN = (
    "Which clients took part in which round is secret, since their privacy depends on it: only events.jsonl has it."
)


def _lost(runs: Sequence[StoredRun]) -> str:
    if any(run.log.hides for run in runs):
        return HIDDEN
    asked = sum(run.total("cohort") for run in runs)
    counts = {fate: sum(run.total(fate) for run in runs) for fate in LOST}
    again = repeated(runs)
    lost = [f"{count:.0f} {word(fate)}" for fate, count in counts.items() if count]
    if not lost:
        if asked > sum(run.total("reported") for run in runs):
            return f"Some clients sent no update.{again}"
        return f"All client updates arrived in time.{again}"
    names = [run.label for run in runs if any(run.total(fate) for fate in LOST)]
    where = f", in {few(names)}" if len(runs) > 1 else ""
    return f"Of {asked:.0f} client updates: {', '.join(lost)}{where}.{again}"


def repeated(runs: Sequence[StoredRun]) -> str:
    """Return a sentence with the number of attempts that were repeated; empty where there were none."""
    attempts = int(sum(run.total("attempts") - len(run.rounds) for run in runs))
    return f" {attempts} attempt{'s were' if attempts > 1 else ' was'} repeated." if attempts > 0 else ""


def _scores(runs: Sequence[StoredRun]) -> Iterator[str]:
    """Yield a line for each headline metric of the runs; of runs that only clients have measured, their mean."""
    for metric in dict.fromkeys(run.metrics.headline for run in runs if run.metrics.headline is not None):
        of_it = [run for run in runs if run.metrics.headline == metric]
        tops = [(*top, run) for run in of_it if (top := best(run, metric)) is not None]
        if tops:
            yield _best_of(metric, tops, alone=len(runs) == 1) + _best_mean(metric, runs)
            continue
        on_nodes = Spread(metric).metrics[0]
        last = [(value, 0, run) for run in of_it if (value := run.latest(on_nodes.name)) is not None]
        if last:
            yield _best_of(on_nodes, last, alone=len(runs) == 1)


def _best_of(metric: Metric, tops: Sequence[tuple[float, int, StoredRun]], *, alone: bool) -> str:
    value, place, run = tops[0]
    for each in tops[1:]:
        if metric.is_better(each[0], value):
            value, place, run = each
    where = f" in round {place}" if place else " at the end"
    last = run.latest(metric.name)
    end = f"; {number(last)} at the end" if alone and place and last != value else ""
    return f"Best {metric.title}: {number(value)}{'' if alone else f' of {run.label}'}{where}{end}."


def _best_mean(metric: Metric, runs: Sequence[StoredRun]) -> str:
    """Return the sentence on the best mean over seeds at the end of the runs; empty without seeds."""
    points = [point for point in points_of(runs) if len(point.counted) > 1]
    means = [(mean, p) for p in points if (mean := p.spread(lambda run: run.latest(metric.name))) is not None]
    if not means:
        return ""
    mean, point = means[0]
    for each in means[1:]:
        if metric.is_better(each[0].mean, mean.mean):
            mean, point = each
    whose = f" of {point.label}" if len(point.runs) < len(runs) else ""
    return f" Best mean over seeds at the end: {number_spread(*mean)}{whose}."


def _gains(runs: Sequence[StoredRun]) -> str:
    """Return how many clients of a single run do worse than alone; empty where no model is compared with theirs."""
    metric = runs[0].metrics.of_model if len(runs) == 1 else None
    nodes = [] if metric is None else list(compared(runs[0], metric).values())
    if metric is None or not nodes:
        return ""
    found, lose = Gains(metric).of(nodes), sum(Gains(metric).gain(node) < 0 for node in nodes)
    gain, worst = (f"{found[f'{metric.name}_{end}']:+.4f}" for end in ("gain", "gain_worst"))
    return (
        f"{lose} of {len(nodes)} clients do worse than by local training only; gain of {metric.title}: {gain} per "
        f"client, {worst} in the worst tenth."
    )


def _bytes(runs: Sequence[StoredRun]) -> str:
    if any(run.log.hides for run in runs):
        return ""
    up, down = ([run.total(name) for run in runs if run.rounds] for name in ("bytes_up", "bytes_down"))
    if len(runs) > 1:
        return f"Per run, clients uploaded {_range(up)} and downloaded {_range(down)}."
    (run,) = runs
    smaller = f", {ratio(compression_ratio(run) or 0)} smaller than plain," if is_compressed(run) else ""
    return f"Clients uploaded {size(up[0])}{smaller} and downloaded {size(down[0])}: {size(up[0] + down[0])} both ways."


def _range(values: Sequence[float]) -> str:
    low, high = size(min(values)), size(max(values))
    return low if low == high else f"{low} to {high}"


def _sums(runs: Sequence[StoredRun]) -> str:
    """Return what the server has seen of masked updates: only sums."""
    found = [secure for run in runs if isinstance(secure := run.summary.get("secure"), dict) and secure["asked"]]
    if not found:
        return ""
    asked, skipped = (sum(each[name] for each in found) for name in ("asked", "skipped"))
    fewest = min(each["fewest"] for each in found)
    none = f" {skipped} of {asked} rounds were skipped, since unmasking failed." if skipped else ""
    keys = "their own keys" if all(each["own_keys"] for each in found) else "keys that the server relays"
    seen = f"the server saw only sums of at least {fewest} client updates"
    return f"Secure aggregation: {seen}; clients signed with {keys}.{none}"


def _privacy(runs: Sequence[StoredRun]) -> str:
    losses = [(run, loss.name) for run in runs if (loss := run.metrics.privacy_loss) is not None]
    spent = [value for run, name in losses if (value := run.latest(name)) is not None]
    if not spent:
        return ""
    what = losses[0][0].metrics.privacy_loss
    assert what is not None
    most = f"{what.title} {max(spent):g}" if len(spent) == 1 else f"{what.title} {max(spent):g} at most"
    whose = f", {few([run.label for run, _ in losses])}" if len(runs) > 1 else ""
    return f"Privacy: {most}{whose} ({counts_in([run for run, _ in losses])})."


def _models(runs: Sequence[StoredRun]) -> str:
    shas = [sha for run in runs if (sha := sha_of(run)) is not None]
    if len(runs) == 1:
        return f"The final model's SHA-256 begins with {shas[0][:SHA_SHOWN]}." if shas else ""
    same = sum(count for count in Counter(shas).values() if count > 1)
    if len(shas) < 2:
        return ""
    return f"{same} of {len(shas)} final models are the same as another." if same else ""


def few(names: Sequence[str]) -> str:
    """Return the names of some runs for a sentence, the first ones where there are many."""
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[: MOST_NAMES - 1])} and {len(names) - MOST_NAMES + 1} more"
