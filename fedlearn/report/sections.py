"""What the page says, section by section.

The file on disk holds all of them; the live page's stream sends those that have changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from fedlearn.errors import said
from fedlearn.report import charts, details
from fedlearn.report.charts import Chart, HeatMap, StackedBars
from fedlearn.report.details import Link
from fedlearn.report.numbers import number, ratio, seconds, size
from fedlearn.report.points import (
    NO_DIFFERENCE,
    Point,
    best,
    compression_ratio,
    points_of,
    seconds_of,
    shown,
)
from fedlearn.report.skew import skew_of
from fedlearn.report.stored import StoredRun
from fedlearn.report.svg import COLORS, svg_of
from fedlearn.report.tables import points_table, runs_table, sha_of

MOST_BY_ROUND = 24  # runs whose rounds are drawn one by one
MOST_SKEWS = 6


def sections_of(
    runs: Sequence[StoredRun], *, title: str, link: Link, live: bool = False, problems: Sequence[str] = ()
) -> dict[str, str]:
    """Return the page's sections by name, in order; those with nothing to show are empty.

    A run of which nothing can be drawn, whatever its folder holds, costs a line among the `problems`.
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
    return {
        "head": _head(runs, title, live=live, problems=problems),
        "results": _results(runs, points),
        "curves": _curves(points),
        "pareto": _pareto(points),
        "rounds": _rounds(runs),
        "skew": _skew(runs),
        "trouble": details.trouble(runs),
        "settings": details.settings(runs),
        "environment": details.environment(runs),
        "files": details.files(runs, link),
    }


def _figure(chart: Chart, note: str = "") -> str:
    caption = f"<figcaption>{escape(note)}</figcaption>" if note else ""
    legend = _legend([(name, f"f-{name} box") for name in chart.layers]) if isinstance(chart, StackedBars) else ""
    return f"<figure><h3>{escape(chart.title)}</h3>{legend}{svg_of(chart)}{caption}</figure>"


def _legend(names: Sequence[tuple[str, str]]) -> str:
    """Return colour and name side by side; of a single one there is nothing to tell apart."""
    if len(names) < 2:
        return ""
    items = "".join(f'<li><i class="{kind}"></i>{escape(name)}</li>' for name, kind in names)
    return f'<ul class="legend">{items}</ul>'


# --- head and results -------------------------------------------------------------------------------------------------


def _head(runs: Sequence[StoredRun], title: str, *, live: bool, problems: Sequence[str] = ()) -> str:
    notices = dict.fromkeys(str(run.log.view.about.get("notice") or "") for run in runs)
    settled = [run for run in runs if not live or run.status != "unfinished"]  # one that goes on is half written
    problems = [*problems, *(problem for run in settled for problem in run.problems)]
    texts = [("notice", notice) for notice in notices if notice] + [("problem", problem) for problem in problems]
    texts += [("problem", f"{run.name} failed: {run.reason}") for run in runs if run.reason]
    lines = "".join(f'<p class="{kind}">{escape(text)}</p>' for kind, text in texts)
    about = f'<p class="about">{escape(_about(runs, live=live))}</p>'
    state = _progress(runs) if live else ""
    return f'<p class="brand">fedlearn</p><h1>{escape(title)}</h1>{about}{state}{lines}'


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
    names = [f"{run.name}: " if len(runs) > 1 else "" for run in runs]
    begun = [(run, name) for run, name in zip(runs, names, strict=True) if run.status == "unfinished" and run.log.seen]
    return "".join(_bar(run, name) for run, name in begun)


def _bar(run: StoredRun, name: str) -> str:
    view = run.log.view
    total, done = max(view.rounds, 1), min(len(run.rounds), view.rounds)
    text = f"{name}round {view.round_number} of {view.rounds}, {view.phase}"
    if view.cohort:
        text += f", {sum(view.nodes.values())} of {view.cohort} nodes"
        text += "".join(f", {count} {fate}" for fate, count in view.nodes.items() if count and fate != "reported")
    warning = f'<p class="notice">{escape(view.warning)}</p>' if view.warning else ""
    return f'<p class="progress"><progress max="{total}" value="{done}"></progress>{escape(text)}</p>{warning}'


def _results(runs: Sequence[StoredRun], points: Sequence[Point]) -> str:
    if not any(run.rounds for run in runs):
        return '<p class="empty">No round has been committed yet.</p>' if runs else ""
    if len(runs) == 1:
        return f'<div class="tiles">{"".join(_tile(*tile) for tile in _tiles(runs[0]))}</div>'
    repeated = any(len(point.runs) > 1 for point in points)
    means = f"<h2>Means over seeds</h2>{points_table(points).as_html()}" if repeated else ""
    return f"{means}<h2>Runs</h2>{runs_table(runs).as_html()}"


def _tile(title: str, value: str, note: str) -> str:
    return f"<div><dt>{escape(title)}</dt><dd>{escape(value)}</dd><p>{escape(note)}</p></div>"


def _tiles(run: StoredRun) -> list[tuple[str, str, str]]:
    """Return what a single run comes to: (title, value, note)."""
    tiles = []
    metrics = run.metrics
    for metric in metrics.results:
        note = metric.note
        if metric is metrics.headline:
            top, round_number = best(run, metric) or (None, 0)
            note = f"best {number(top)} in round {round_number}"
        tiles.append((metric.title, number(run.latest(metric.name)), note))
    smaller = compression_ratio(run)
    tiles.append(("uploaded", size(run.total("bytes_up")), f"{ratio(smaller)} smaller than plain" if smaller else ""))
    tiles.append(("downloaded", size(run.total("bytes_down")), f"and {size(run.total('bytes_protocol'))} of protocol"))
    each = seconds(seconds_of(run) / len(run.rounds))
    count = "1 round" if len(run.rounds) == 1 else f"{len(run.rounds)} rounds, {each} each"
    tiles.append(("time", seconds(seconds_of(run)), count))
    if sha := sha_of(run):
        tiles.append(("SHA-256", sha[:10], "of the final model"))
    return tiles


# --- charts -----------------------------------------------------------------------------------------------------------


def _curves(points: Sequence[Point]) -> str:
    drawn = "".join(_figure(chart) for chart in charts.curves(points))
    if not drawn:
        return ""
    names = [(point.label, f"c{point.slot % COLORS} d{point.slot // COLORS % 3}") for point in points]
    several = any(len(point.runs) > 1 for point in points)
    note = (
        '<p class="note">Lines are means over seeds, bands reach from the lowest to the highest.</p>' if several else ""
    )
    return f'<h2>Learning</h2>{note}{_legend(names)}<div class="grid-3">{drawn}</div>'


def _pareto(points: Sequence[Point]) -> str:
    chart = charts.pareto(points)
    if chart is None:
        return ""
    note = "Filled: on the Pareto front, no other point is better with as few bytes."
    return f'<h2>What the bytes buy</h2><div class="grid-1">{_figure(chart, note)}</div>'


def _rounds(runs: Sequence[StoredRun]) -> str:
    begun = [run for run in runs if run.rounds]
    if not begun:
        return ""
    if len(begun) > MOST_BY_ROUND:
        return f"<h2>Rounds</h2><p>Drawn for up to {MOST_BY_ROUND} runs; report on fewer to see each.</p>"
    parts = []
    for run in begun:
        both = f'<div class="grid-2">{_figure(charts.phases(run))}{_figure(charts.fates(run))}</div>'
        head = f"<summary>{escape(run.name)}</summary>"
        opened = " open" if len(begun) <= 3 else ""
        parts.append(both if len(begun) == 1 else f'<details id="r-{escape(run.name)}"{opened}>{head}{both}</details>')
    return f"<h2>Rounds</h2>{''.join(parts)}"


def _skew(runs: Sequence[StoredRun]) -> str:
    """Return who has which labels, once for each way in which these runs spread them (over seeds: the first)."""
    ways: dict[str, StoredRun] = {}
    for run in runs:
        if run.rounds and run.settings:  # from the first round on the data are in the cache
            way = {k: v for k, v in run.settings.items() if k.startswith("data.") and k not in NO_DIFFERENCE}
            ways.setdefault(repr([way, run.settings.get("clients")]), run)
    if not ways:
        return ""
    found = {run.name: skew_of(run.settings) for run in list(ways.values())[:MOST_SKEWS]}
    drawn = "".join(_figure(chart, _emptiness(chart)) for chart in found.values() if isinstance(chart, HeatMap))
    words = "".join(
        f'<p class="note">No picture of {escape(n)}: {escape(w)}</p>' for n, w in found.items() if isinstance(w, str)
    )
    more = f'<p class="note">The first {MOST_SKEWS} of {len(ways)}.</p>' if len(ways) > MOST_SKEWS else ""
    return f'<h2>Who has which data</h2>{more}<div class="grid-2">{drawn}</div>{words}'


def _emptiness(chart: HeatMap) -> str:
    sizes = chart.counts.sum(axis=0)
    empty = int((sizes == 0).sum())
    text = f"Examples a node: {sizes.min()} to {sizes.max()}, at most {chart.counts.max()} in a cell."
    return text + (f" {empty} nodes have none." if empty else "")
