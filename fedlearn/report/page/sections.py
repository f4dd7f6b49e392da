"""Make the sections of the page.

The file on disk holds all sections; the stream of the live page sends those that have changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from fedlearn.core.errors import said
from fedlearn.report.charts.curves import curves, pareto
from fedlearn.report.charts.kinds import HeatMap
from fedlearn.report.charts.round_charts import all_reported, fates, phases
from fedlearn.report.charts.skew import skew_of
from fedlearn.report.chosen import ONCE, best_in_words
from fedlearn.report.number_rows import finite
from fedlearn.report.numbers import bits_both_ways, ratio, seconds, size, text_of
from fedlearn.report.page import curves_section, details
from fedlearn.report.page import runs_section as run_list
from fedlearn.report.page.account import HIDDEN, account, few, repeated
from fedlearn.report.page.analysis_section import analysis, worth
from fedlearn.report.page.classes_section import classes
from fedlearn.report.page.clients_section import nodes
from fedlearn.report.page.details import Link
from fedlearn.report.page.figures import figure
from fedlearn.report.page.gains_section import gains
from fedlearn.report.page.statistics_section import statistics
from fedlearn.report.points import (
    NO_DIFFERENCE,
    Point,
    best,
    compression_ratio,
    is_compressed,
    points_of,
    shown,
)
from fedlearn.report.run_tables import RESULTS, sha_of
from fedlearn.report.run_traffic import bits_down, bits_up, bytes_total, seconds_on_devices
from fedlearn.report.stored import StoredRun
from fedlearn.report.words import heading, word

MOST_BY_ROUND = 24  # runs whose rounds are drawn one by one
MOST_SKEWS = 6
MOST_OPEN = 3  # runs whose rounds are not folded away


def sections_of(
    runs: Sequence[StoredRun], *, title: str, link: Link, live: bool = False, problems: Sequence[str] = ()
) -> dict[str, str]:
    """Return name -> HTML of the page's sections, in order; a section without content is empty.

    A run that cannot be drawn, whatever its folder holds, becomes a line among the `problems`.
    """
    try:
        return _sections(runs, title, link, live, problems)
    except Exception:  # a bug of ours that a spoiled folder has found
        sound: list[StoredRun] = []
        lost = list(problems)
        for run in runs:
            try:
                _sections([*sound, run], title, link, live, ())
                sound.append(run)
            except Exception as error:  # as above
                lost.append(f"{run.name}: it cannot be shown: {type(error).__name__}: {said(error)}")
        return _sections(sound, title, link, live, lost)


def _sections(runs: Sequence[StoredRun], title: str, link: Link, live: bool, problems: Sequence[str]) -> dict[str, str]:
    points = points_of(runs)
    by_round = curves(points, by=["rounds"])
    return {
        "head": _head(runs, title, live=live, problems=problems),
        "choose": run_list.heading(runs),
        "results": _results(runs, points),
        "statistics": statistics(runs),
        "analysis": analysis(runs),
        "worth": worth(runs),
        "learning": curves_section.heading(runs) if by_round or live else "",
        "curves": curves_section.curves(points, by_round),
        "pareto": _pareto(points),
        "devices": curves_section.devices(points),
        "skew": _skew(runs),
        "rounds": _rounds(runs),
        "nodes": nodes(runs, points, by_round),
        "gains": gains(runs, points),
        "trouble": details.trouble(runs),
        "classes": classes(runs),
        "settings": details.settings(runs),
        "origins": details.origins(runs),
        "environment": details.environment(runs),
        "files": details.files(runs, link),
    }


# --- head and results -------------------------------------------------------------------------------------------------


def _head(runs: Sequence[StoredRun], title: str, *, live: bool, problems: Sequence[str] = ()) -> str:
    notices: dict[str, list[str]] = {}
    for run in runs:
        notices.setdefault(str(run.log.view.about.get("notice") or ""), []).append(run.label)
    settled = [run for run in runs if not live or run.status != "unfinished"]  # others are half written
    problems = [*problems, *(problem for run in settled for problem in run.problems)]
    whose = {n: "" if len(names) == len(runs) else f"{few(names)}: " for n, names in notices.items()}
    texts = [("notice", f"{whose[notice]}{notice}") for notice in notices if notice] + [
        ("problem", problem) for problem in problems
    ]
    texts += [("problem", f"{run.label} {run.status}: {run.reason}") for run in runs if run.reason]
    lines = "".join(f'<p class="{kind}">{escape(text)}</p>' for kind, text in texts)
    told = "".join(f"<p>{escape(line)}</p>" for line in account(runs))
    is_told = bool(told) and len(runs) > 1
    about = "" if is_told else f'<p class="about">{escape(_about(runs, live=live))}</p>'
    own = f'<p class="about">{escape(runs[0].notes)}</p>' if len(runs) == 1 and runs[0].notes else ""
    state = _progress(runs) if live else ""
    told = f'<div class="account">{told}</div>' if told else ""
    return f'<p class="brand">fedlearn</p><h1>{escape(title)}</h1>{about}{own}{state}{told}{lines}'


def _about(runs: Sequence[StoredRun], *, live: bool) -> str:
    if not any(run.settings for run in runs):
        return "waiting for the run to begin" if live else "no settings can be read"
    if len(runs) > 1:
        return f"{len(runs)} runs, {sum(run.status == 'completed' for run in runs)} completed"
    get = runs[0].settings.get
    status = "" if live and runs[0].status == "unfinished" else f": {runs[0].status}"  # a bar says more
    return (
        f"{shown(get('model.name'))} on {shown(get('data.dataset'))}, {shown(get('clients'))} clients, "
        f"{shown(get('strategy.name'))}, {shown(get('compression.codec'))}, seed {shown(get('seed'))}{status}"
    )


def _progress(runs: Sequence[StoredRun]) -> str:
    """Return a line with a bar for each run that has not ended."""
    names = [f"{run.label}: " if len(runs) > 1 else "" for run in runs]
    begun = [(run, name) for run, name in zip(runs, names, strict=True) if run.status == "unfinished" and run.log.seen]
    return "".join(_bar(run, name) for run, name in begun)


def _bar(run: StoredRun, name: str) -> str:
    view = run.log.view
    total, done = max(view.rounds, 1), min(len(run.rounds), view.rounds)
    text = f"{name}round {view.round_number} of {view.rounds}, {view.phase}"
    if view.cohort:
        text += f", {sum(view.nodes.values())} of {view.cohort} clients"
        text += "".join(f", {count} {word(fate)}" for fate, count in view.nodes.items() if count and fate != "reported")
    warning = f'<p class="notice">{escape(view.warning)}</p>' if view.warning else ""
    return f'<p class="progress"><progress max="{total}" value="{done}"></progress>{escape(text)}</p>{warning}'


def _results(runs: Sequence[StoredRun], points: Sequence[Point]) -> str:
    if not any(run.rounds for run in runs):
        yet = " yet" if any(run.status == "unfinished" for run in runs) else ""
        return f'<p class="empty">No round has completed{yet}.</p>' if runs else ""
    if len(runs) == 1:
        return f'<div class="tiles">{"".join(_tile(*tile) for tile in _tiles(runs[0]))}</div>'
    return run_list.results(runs, points)


def _tile(title: str, value: str, note: str) -> str:
    return f"<div><dt>{escape(title)}</dt><dd>{escape(value)}</dd><p>{escape(note)}</p></div>"


def _tiles(run: StoredRun) -> list[tuple[str, str, str]]:
    """Return the results of a single run: (title, value, note) of each tile."""
    tiles = []
    metrics = run.metrics
    for metric in metrics.results:
        if run.latest(metric.name) is None:
            continue  # only clients have measured it
        note = metric.note
        if metric is metrics.headline:
            top, round_number = best(run, metric) or (None, 0)
            note = best_in_words(metric, top, run.summary, round_number)
        elif metric in metrics.tested:
            note = ONCE
        elif metric is metrics.privacy_loss:
            note = note.partition(";")[0]  # the account has all of it
        tiles.append((metric.title, text_of(metric, run.latest(metric.name)), note))
    tiles += [] if run.log.hides else _sent(run)
    for result in RESULTS:
        if (value := result.measure(run)) is not None:
            tiles.append((result.column.title, result.column.text(value), result.note(run)))
    cpu, memory = (finite(run.summary.get(name)) for name in ("cpu_seconds", "memory_bytes"))
    if cpu is not None and memory is not None and run.status != "unfinished":
        tiles.append(("CPU time", seconds(cpu), f"all cores; {size(memory)} of memory at the end"))
    if sha := sha_of(run):
        tiles.append(("SHA-256", sha[:10], "of the final model"))
    return tiles


def _sent(run: StoredRun) -> list[tuple[str, str, str]]:
    """Return the tiles of what each way and both have cost, and of the time on the clients' devices."""
    note = f"{ratio(compression_ratio(run) or 0)} smaller than plain" if is_compressed(run) else ""
    protocol = f"and {size(run.total('bytes_protocol'))} of protocol"
    up, down = ("uploaded", size(run.total("bytes_up")), note), ("downloaded", size(run.total("bytes_down")), protocol)
    hours = seconds_on_devices(run)
    both = [up, down, ("both ways", size(bytes_total(run) or 0.0), bits_both_ways(bits_up(run), bits_down(run)))]
    return both if hours is None else [*both, ("on devices", seconds(hours), shown(run.settings.get("devices.name")))]


# --- charts -----------------------------------------------------------------------------------------------------------


def _pareto(points: Sequence[Point]) -> str:
    chart = pareto(points)
    if chart is None:
        return ""
    note = "Filled: on the Pareto front, no other point is better with as few bytes."
    metric = chart.y_title[:1].upper() + chart.y_title[1:]
    return f'{heading("pareto", metric=escape(metric))}<div class="grid-1">{figure(chart, note)}</div>'


def _rounds(runs: Sequence[StoredRun]) -> str:
    begun = [run for run in runs if run.rounds]
    if not begun or len(begun) > MOST_BY_ROUND:
        return ""
    if len(begun) == 1:
        return f"{heading('rounds')}{_by_round(begun[0])}"
    opened = " open" if len(begun) <= MOST_OPEN else ""
    parts = [
        f'<details id="r-{escape(run.name)}" data-of="{escape(run.name)}"{opened}>'
        f"<summary>{escape(run.label)}</summary>{_by_round(run)}</details>"
        for run in begun
    ]
    inside = "".join(parts)
    folded = f'<details id="all-rounds"><summary>of {len(begun)} runs</summary>{inside}</details>'
    return f"{heading('rounds')}{inside if opened else folded}"


def _by_round(run: StoredRun) -> str:
    """Return the charts of phases and of fates in the cohorts; a sentence in place of the latter if all reported."""
    if run.log.hides:
        return f'<p class="note">{escape(HIDDEN)}</p><div class="grid-2">{figure(phases(run))}</div>'
    said = f'<p class="note">{escape(_all_well(run))}</p>' if all_reported(run) else ""
    drawn = "" if said else figure(fates(run), "A line across a bar: the clients that were sent the model.")
    return f'{said}<div class="grid-2">{figure(phases(run))}{drawn}</div>'


def _all_well(run: StoredRun) -> str:
    sizes = sorted({int(size or 0) for size in run.column("cohort")})
    clients = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    where = "1 round" if len(run.rounds) == 1 else f"each of {len(run.rounds)} rounds"
    return f"All client updates arrived in time: {clients} in {where}.{repeated([run])}"


def _skew(runs: Sequence[StoredRun]) -> str:
    """Return the section of labels by node: one chart for each way to spread them, for the first of its seeds."""
    ways: dict[str, tuple[HeatMap | str, list[str]]] = {}
    for run in runs:
        way = {k: v for k, v in run.settings.items() if k.startswith("data.") and k not in NO_DIFFERENCE}
        key = repr([way, run.settings.get("clients")])
        if key in ways:
            ways[key][1].append(run.label)
        elif run.rounds and (found := skew_of(run)):
            ways[key] = found, [run.label]
    drawn = [(chart, names) for chart, names in ways.values() if isinstance(chart, HeatMap)]
    reasons: dict[str, list[str]] = {}
    for reason, names in ways.values():
        if isinstance(reason, str):
            reasons.setdefault(reason, []).extend(names)
    if not drawn and not reasons:
        return ""
    figures = "".join(figure(chart, _emptiness(chart, names, of=len(runs))) for chart, names in drawn[:MOST_SKEWS])
    words = "".join(f'<p class="note">No picture of {escape(few(n))}: {escape(w)}.</p>' for w, n in reasons.items())
    more = f'<p class="note">The first {MOST_SKEWS} of {len(drawn)}.</p>' if len(drawn) > MOST_SKEWS else ""
    return f'{heading("skew")}{more}<div class="grid-3">{figures}</div>{words}'


def _emptiness(chart: HeatMap, names: Sequence[str], *, of: int) -> str:
    sizes = chart.counts.sum(axis=0)
    empty = int((sizes == 0).sum())
    each = f"{sizes.min()} to {sizes.max()}" if sizes.min() < sizes.max() else f"{sizes.max()}"
    text = f"Examples per client: {each}, at most {chart.counts.max()} in a cell."
    none = f" {empty} clients have none." if empty else ""
    return text + none + (f" Of {few(names)}." if len(names) < of else "")
