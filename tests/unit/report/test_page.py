"""The page holds everything it shows, loads no other file, and escapes all texts of a run folder."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest

from fedlearn.core.errors import UsageError
from fedlearn.core.gains import Gains
from fedlearn.core.metric import ACCURACY, LOSS, TRAIN_LOSS
from fedlearn.core.metrics import Metrics
from fedlearn.core.spread import Spread
from fedlearn.report import run_tables
from fedlearn.report.folders import run_folders
from fedlearn.report.numbers import count
from fedlearn.report.page import sections
from fedlearn.report.page.document import page_of
from fedlearn.report.page.sections import sections_of
from fedlearn.report.points import points_of
from fedlearn.report.run_tables import Result
from fedlearn.report.stored import read_run
from fedlearn.report.tables import Column
from fedlearn.report.words import HEADINGS
from fedlearn.report.writing import title_of, write_page, write_report
from tests.unit.report.conftest import FIXED, STARTED, rows_of, write_nodes

HOSTILE = "<img src=x onerror=alert(1)>\"'&</script><script>alert(2)</script>"
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """The parts of a page; its tags must nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.open, self.tags, self.words, self.inside = text, [], [], [], {}
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("script", "style"):
            self.inside[self.open[-1]] = self.inside.get(self.open[-1], "") + data
        else:
            self.words.append(data)

    @property
    def said(self):
        return " ".join(self.words)


@pytest.fixture
def page_for(tmp_path):
    def page_for(*folders):
        runs = [read_run(name, folder) for name, folder in run_folders(folders).items()]
        write_page(runs, title_of(folders), tmp_path / "out")
        return Page((tmp_path / "out" / "index.html").read_text())

    return page_for


def assert_asks_nobody(page):
    (policy,) = [a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    script = base64.b64encode(hashlib.sha256(page.inside["script"].encode()).digest()).decode()
    assert f"script-src 'sha256-{script}'" in policy
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    assert not {"img", "iframe", "object", "embed", "form", "base"} & {tag for tag, _ in page.tags}
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "style", "srcdoc")], tag
        if "href" in attributes:
            assert not re.match(r"(\w+:)?//|javascript:", attributes["href"])
    assert "@import" not in page.inside["style"] and "url(" not in page.inside["style"]


def test_a_run_is_shown_whole(page_for, make_run):
    page = page_for(make_run(events=[{"event": "failed", "round": 2, "attempt": 1, "reason": "the disk is full"}]))
    assert_asks_nobody(page)
    results = ("0.4000", "best 0.5000 in round 2", "1.5 kB", "4.00x", "the disk is full")
    charts = ("accuracy by round", "seconds by phase", "All client updates arrived in time: ", "label by client")
    for word in (*results, *charts, "data.dataset", "digits", "numpy"):
        assert word in page.said, word
    assert len([tag for tag, _ in page.tags if tag == "svg"]) == 3 + 1 + 1


def test_links_lead_to_the_raw_files(page_for, make_run, tmp_path):
    folder = make_run("my run #1")
    page = page_for(folder)
    links = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    names = ("settings.toml", "environment.json", "events.jsonl", "metrics.csv", "summary.json", "dealt.json")
    assert {(tmp_path / "out" / unquote(link)).resolve() for link in links} == {folder / name for name in names}


def test_the_numbers_under_the_pointer_are_those_of_the_table(page_for, make_run):
    page = page_for(make_run())
    hover = [json.loads(a["data-hover"]) for tag, a in page.tags if tag == "svg" and "data-hover" in a]
    assert {chart["kind"] for chart in hover} == {"bars", "cells"}
    (curves,) = [json.loads(a["data-curves"]) for _, a in page.tags if "data-curves" in a]
    (run,) = curves["runs"]
    assert (run["rounds"], run["bytes"], run["seconds"]) == ([1, 2, 3], [0.5, 1, 1.5], [3, 6, 9])
    assert curves["unit"] == "kB" and run["values"][curves["metrics"].index("accuracy")] == [0.2, 0.5, 0.4]


def test_a_cohort_that_lost_a_node_is_drawn(page_for, make_run):
    page = page_for(make_run(rows=rows_of([0.1, 0.2], reported=1, failed=1)))
    assert "client updates" in page.said and "All client updates" not in page.said


def test_a_setting_says_what_it_means(page_for, make_run):
    titles = {a["title"] for tag, a in page_for(make_run()).tags if tag == "th" and "title" in a}
    assert "Examples in one SGD step." in titles


def test_how_a_run_was_begun_and_its_notes_are_shown(page_for, make_run):
    folder = make_run()
    origin = {"command": "fedlearn simulate --seed <7>", "commit": "ab12-dirty", "fedlearn_commit": None}
    (folder / "environment.json").write_text(json.dumps({"python": "3.11", **origin}))
    (folder / "notes.txt").write_text("too cold\n")
    page = page_for(folder)
    assert all(text in page.said for text in ("fedlearn simulate --seed <7>", "ab12-dirty", "too cold"))
    assert "commit of fedlearn" not in page.said


def test_several_runs_can_be_found_by_their_settings_and_notes(page_for, make_run):
    folders = [make_run("a"), make_run("b", settings={"compression.codec": "drop"})]
    (folders[1] / "notes.txt").write_text("Odd One")
    page = page_for(*folders)
    found = {a["data-run"]: a["data-find"] for tag, a in page.tags if tag == "tr" and "data-run" in a}
    assert "compression.codec=drop" in found["b"] and "odd one" in found["b"] and "drop" not in found["a"]
    assert {a["value"] for tag, a in page.tags if tag == "option"} == {
        *("", "*", "compression.codec"),
        *("sd", "ci", "range"),
    }


def test_a_section_without_a_result_is_not_there(page_for, make_run):
    runs = [make_run("a", dealt=None), make_run("b", dealt=None, settings={"seed": 2})]
    page = page_for(*runs)
    heads = re.findall("<h2>(.*?)</h2>", page.text)
    assert heads == ["Runs", "Learning", "Rounds", "Settings", "Command", "Environment", "Raw files"]
    assert "gpus" not in page.said and "[]" not in page.said


def test_every_heading_is_one_of_the_list_of_words(page_for, make_run):
    heads = re.findall("<h2>(.*?)</h2>", page_for(make_run()).text)
    assert heads and set(heads) <= set(HEADINGS.values())


def test_a_run_of_a_sweep_has_a_readable_name_on_the_page_and_its_folders_name_in_csv(make_run, tmp_path):
    for seed in (1, 2):
        make_run(f"sweep/runs/strategy.name=fedavg,training.lr=0.1,seed={seed}", settings={"seed": seed})
    page, _ = write_report([tmp_path / "sweep"], figures="")
    said = Page(page.read_text()).said
    assert "strategy=fedavg, lr=0.1, seed=1" in said and "strategy.name=fedavg," not in said
    assert '"strategy.name=fedavg,training.lr=0.1,seed=1"' in (page.parent / "tables" / "runs.csv").read_text()


def test_each_chart_names_both_of_its_axes(page_for, make_run):
    folder = make_run(rows=rows_of([0.1, 0.2], reported=1, failed=1))
    write_nodes(folder, [(number, node, 0.1 * node) for number in (1, 2) for node in range(5)])
    charts = re.findall(r"<svg.*?</svg>", page_for(folder).text)
    assert len(charts) == 3 + 1 + 2 + 2
    for chart in charts:
        assert len(re.findall(r'class="axis(?: end)?">[^<]', chart)) >= 2, chart


# --- nodes and classes ------------------------------------------------------------------------------------------------


def test_nodes_are_shown_by_their_spread_and_one_by_one(page_for, make_run):
    spread = {"accuracy_nodes": 0.5, "accuracy_nodes_worst": 0.1, "accuracy_nodes_jain": 0.875}
    folder = make_run(rows=rows_of([0.2, 0.5], **spread))
    write_nodes(folder, [(number, node, 0.1 * node) for number in (1, 2) for node in range(5)])
    page = page_for(folder)
    for word in ("worst tenth", "0.8750", "clients: accuracy", "clients of the last round", "median, quartiles"):
        assert word in page.said, word
    assert "accuracy on clients by round" not in page.said  # it is the median's chart that shows it


def test_a_client_has_its_own_curve(page_for, make_run):
    folder = make_run()
    write_nodes(folder, [(number, node, 0.1 * node) for number in (1, 2) for node in range(5)])
    page = page_for(folder)
    (own,) = [json.loads(a["data-own"]) for _, a in page.tags if "data-own" in a]
    assert own["clients"]["3"] == [[1, 2], [0.3, 0.3]] and own["lines"][0][0] == "median, quartiles"
    clients = [a["value"] for tag, a in page.tags if tag == "option" and a["value"].isdigit()]
    assert clients == ["0", "1", "2", "3", "4"]


def test_of_several_runs_the_spread_over_nodes_is_compared(page_for, make_run):
    rows = rows_of([0.2, 0.5], accuracy_nodes_worst=0.1)
    page = page_for(make_run("a", rows), make_run("b", rows, settings={"seed": 2}))
    assert "accuracy nodes worst by round" in page.said and "Jain index" in page.said


def test_classes_are_shown_by_what_they_are_taken_for(page_for, make_run):
    folder = make_run()
    final = {"round_number": 3, "confusion": [[8, 2], [1, 9]]}
    (folder / "classes.json").write_text(json.dumps({"classes": ["cat", "dog"], "final": final, "best": final}))
    page = page_for(folder)
    for word in (
        "predicted class",
        "recall",
        "0.8000",
        "0.9000",
        "dog (2)",
        "confusion matrix of the final model (round 3)",
    ):
        assert word in page.said, word
    assert "The best model" not in page.said  # it is the final one


def test_the_best_model_is_shown_where_it_is_another(page_for, make_run):
    folder = make_run()
    both = {each: {"round_number": n, "confusion": [[8, 2], [1, 9]]} for each, n in (("final", 3), ("best", 2))}
    (folder / "classes.json").write_text(json.dumps({"classes": ["cat", "dog"], **both}))
    assert "The best model, of round 2" in page_for(folder).said


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"classes": ["a", "b"], "final": {"round_number": 1, "confusion": [[1]]}}']
)
def test_classes_that_cannot_be_read_cost_a_line(page_for, make_run, text):
    folder = make_run()
    (folder / "classes.json").write_text(text)
    assert "run: classes.json: " in page_for(folder).said


STATISTICS = {
    "count": 12.0, "deviation": 1.5, "columns": {
        "age": {"labels": ["[0, 50)", "[50, 100)", "missing"], "counts": [3.5, 8.0, 0.0], "mean": 55.25},
        "sex": {"labels": ["f", "m", "missing"], "counts": [7.0, 4.0, 1.0], "mean": None},
    },
}  # fmt: skip


def test_statistics_stand_in_a_table_with_every_cell_below(page_for, make_run):
    folder = make_run()
    (folder / "statistics.json").write_text(json.dumps(STATISTICS))
    page = page_for(folder)
    assert_asks_nobody(page)
    about = "12 records of all clients, each count with noise of standard deviation 1.5."
    for word in (about, "55.25", "[50, 100)", "3.5", "most frequent", "▄█", "█▅"):
        assert word in page.said, word


def test_a_run_without_statistics_has_no_such_section(page_for, make_run):
    assert "Statistics of all clients" not in page_for(make_run()).said


@pytest.mark.parametrize("text", ["", "{", "[]", '{"count": 1, "deviation": 0, "columns": {"a": {"labels": ["x"]}}}'])
def test_statistics_that_cannot_be_read_cost_a_line(page_for, make_run, text):
    folder = make_run()
    (folder / "statistics.json").write_text(text)
    assert "run: statistics.json: " in page_for(folder).said


def test_runs_are_compared_by_what_differs(page_for, make_run):
    runs = []
    for codec, size, accuracy in (("drop", 100, 0.4), ("identity", 1000, 0.5)):
        for seed in (1, 2):
            settings = {"compression.codec": codec, "seed": seed}
            runs.append(make_run(f"{codec}-{seed}", rows_of([0.2, accuracy], bytes_up=size), settings))
    page = page_for(*runs)
    assert_asks_nobody(page)
    assert "Means over seeds" in page.said and "codec=drop" in page.said and "0.4000" in page.said
    assert page.said.count("±") == 1  # the choice of a band
    assert "accuracy against uploaded bytes" in page.said
    assert any(attributes.get("class") == "band c0 d0" for _, attributes in page.tags)


def test_trees_are_shown_by_their_error(page_for, make_run):
    rows = [{k: v for k, v in row.items() if k not in ("train_loss", "loss", "accuracy")} for row in rows_of([0, 0])]
    rows = [
        {**row, "epsilon": 1.0, "mae": mae, "mae_scaled": 0.17}
        for row, mae in zip(rows, (63283.9, 52225.0), strict=True)
    ]
    settings = {"model.name": "dp-relay", "data.dataset": "diabetes", "rounds.total": 2}
    page = page_for(make_run(rows=rows, settings=settings, started={"plain_bytes": 0, "notice": "seeded noise"}))
    for word in (
        "MAE by round",
        "52225.0",
        "MAE scaled by round",
        "spent per record",
        "seeded noise",
    ):
        assert word in page.said, word
    assert "accuracy" not in page.said


def test_nothing_in_a_run_folder_becomes_html(page_for, make_run):
    name = HOSTILE.replace("/", "")
    rows = [{**row, 'x"><script>alert(3)<script>': 1.0} for row in rows_of([0.1, 0.2])]
    wrong = {"event": "refused", "round": 1, "attempt": 1, "node": 1, "partition": 1, "reason": HOSTILE}
    folder = make_run(name, rows=rows, events=[wrong], started={"notice": HOSTILE}, status="failed")
    settings = (folder / "settings.toml").read_text().replace('"digits"', json.dumps(HOSTILE))
    (folder / "settings.toml").write_text(settings + f"\n[{json.dumps(HOSTILE)}]\n{json.dumps(HOSTILE)} = 1\n")
    (folder / "environment.json").write_text(json.dumps({HOSTILE: HOSTILE, "packages": {HOSTILE: [HOSTILE]}}))
    (folder / "summary.json").write_text(json.dumps({"status": HOSTILE, "reason": HOSTILE, "model_sha256": HOSTILE}))
    page = page_for(folder, make_run("other"))
    assert_asks_nobody(page)
    assert page.said.count("alert(1)") > 5  # it is shown, as text


def test_a_hostile_column_writes_no_file_elsewhere(make_run, tmp_path):
    rows = [{"round_number": number, "../../stolen": 1.0} for number in (1, 2)]
    folder = make_run(rows=rows, settings={"data.dataset": "no.such:data"})
    write_report([folder], tmp_path / "deep" / "out")
    assert not list(tmp_path.rglob("stolen*"))
    assert list((tmp_path / "deep" / "out" / "figures").glob("*stolen_by_round.svg"))


def test_a_broken_run_does_not_hide_the_others(page_for, make_run):
    broken = make_run("broken")
    (broken / "metrics.csv").write_text("rubbish\n\0\n")
    (broken / "settings.toml").write_text("= =")
    page = page_for(broken, make_run("whole"))
    assert "broken: settings.toml: not valid TOML" in page.said and "0.4000" in page.said


def test_a_run_that_has_only_begun_is_a_page(page_for, make_run):
    folder = make_run(rows=[], status="")
    assert "No round has completed yet." in page_for(folder).said
    assert "No round has completed." in page_for(make_run("failed", rows=[], status="failed")).said


def test_a_large_sweep_stays_a_small_page(make_run, tmp_path):
    for number in range(60):
        settings = {"training.lr": 0.01 + number // 3 / 100, "seed": number % 3}
        make_run(f"sweep/runs/{number}", settings=settings, rows=rows_of([0.001 * n for n in range(100)]))
    runs = [read_run(name, folder) for name, folder in run_folders([tmp_path / "sweep"]).items()]
    assert len(points_of(runs)) == 20
    text = page_of(sections_of(runs, title="sweep", link=lambda run, name: name), title="sweep")
    assert len(text) < 1_000_000


def test_figures_and_tables_lie_beside_the_page(make_run):
    folder = make_run()
    page, problems = write_report([folder])
    assert page == folder / "report" / "index.html" and problems == []
    assert {path.suffix for path in (folder / "report" / "figures").iterdir()} == {".png", ".svg"}
    names = {path.name for path in (folder / "report" / "tables").iterdir()}
    assert names == {
        "runs.csv", "runs.tex", "runs.md", "points.csv", "points.tex", "points.md", "rounds.csv",
    }  # fmt: skip


@pytest.mark.long
def test_figures_have_the_formats_that_were_asked_for(make_run, tmp_path):
    folder = make_run()
    for place in ("a", "b"):
        write_report([folder], tmp_path / place, figures="pdf, SVG")
    files = {path.relative_to(tmp_path / "a") for path in (tmp_path / "a" / "figures").iterdir()}
    assert {path.suffix for path in files} == {".pdf", ".svg"}
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in files)
    assert (tmp_path / "a" / "figures" / "skew.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(UsageError, match="--figures eps: there is no such format: png, svg, pdf"):
        write_report([folder], tmp_path / "c", figures="eps")
    assert not (tmp_path / "c").exists()


def test_tables_have_the_columns_that_were_asked_for(make_run, tmp_path):
    runs = [make_run("a"), make_run("b", settings={"training.lr": 0.5})]
    write_report(runs, tmp_path / "out", figures="", columns="best accuracy,training.lr, seconds")
    tables = tmp_path / "out" / "tables"
    assert (tables / "runs.csv").read_text().splitlines()[0] == "run,best_accuracy,training.lr,seconds"
    assert (tables / "runs.md").read_text().splitlines()[0] == "| run | best accuracy | lr | time |"
    assert (tables / "points.tex").read_text().splitlines()[2] == r"settings & best accuracy & time \\"
    assert not list((tmp_path / "out" / "figures").iterdir())
    with pytest.raises(
        UsageError, match="--columns lr2: there is no such column: run, status, accuracy, best_accuracy"
    ):
        write_report(runs, tmp_path / "no", columns="lr2")


def test_the_head_says_in_words_what_happened(page_for, make_run):
    page = page_for(make_run())
    for words in (
        "3 rounds completed.", "All client updates arrived in time.",
        "Best accuracy: 0.5000 in round 2; 0.4000 at the end.",
        "Clients uploaded 1.5 kB, 4.00x smaller than plain, and downloaded",
        "The final model's SHA-256 begins with ababababab.",
    ):  # fmt: skip
        assert words in page.said, words


def test_the_page_of_an_analysis_says_why_it_ended_and_has_no_tools_without_curves(page_for, make_run):
    nothing = {"metrics": {"reported": [], "evaluated": [], "tested": []}}
    rows = [{"round_number": number, **FIXED, "attempts": number} for number in (1, 2)]
    folder = make_run(rows=rows, started=nothing)
    ended = {"status": "completed", "stopped_early": "in round 2 because the fit has converged"}
    (folder / "summary.json").write_text(json.dumps(ended))
    page = page_for(folder)
    assert "2 of 3 rounds completed, then the run stopped early in round 2 because the fit has converged." in page.said
    assert "All client updates arrived in time. 1 attempt was repeated." in page.said
    assert "smoothing" not in page.said and "smoothing" in page_for(make_run("curves")).said


def test_the_head_of_several_runs_says_which_was_best_and_what_was_lost(page_for, make_run):
    bad = make_run("bad", rows=rows_of([0.1, 0.2], reported=1, refused=1), settings={"seed": 2}, status="failed")
    page = page_for(make_run("good"), bad)
    for words in (
        "2 runs: 1 completed, 1 failed (bad). 5 rounds completed.",
        "Of 10 client updates: 2 rejected, in bad.",
        "Best accuracy: 0.5000 of good in round 2.",
        "Per run, clients uploaded 1 kB to 1.5 kB", "2 of 2 final models are the same as another.",
    ):  # fmt: skip
        assert words in page.said, words


def test_a_notice_names_its_runs_where_it_is_not_that_of_all(page_for, make_run):
    both = [make_run(name, started={"notice": "digits were taken"}) for name in "ab"]
    assert "a: digits were taken" not in page_for(*both).said
    assert "a, b: digits were taken" in page_for(*both, make_run("c")).said


def test_the_head_of_a_sweep_says_the_best_mean_over_seeds(page_for, make_run):
    runs = [
        make_run(f"{lr}-{seed}", rows=rows_of([accuracy]), settings={"training.lr": lr, "seed": seed})
        for lr, accuracies in ((0.1, (0.2, 0.4)), (0.2, (0.3, 0.5)))
        for seed, accuracy in enumerate(accuracies)
    ]
    page = page_for(*runs)
    assert "Best accuracy: 0.5000 of 0.2-1 in round 1." in page.said
    assert "Best mean over seeds at the end: 0.4000 ± 0.1414 of lr=0.2." in page.said


def test_what_people_look_for_stands_first_and_the_settings_last(make_run):
    sections = list(sections_of([read_run("a", make_run())], title="t", link=lambda run, name: ""))
    places = [sections.index(name) for name in ("results", "curves", "skew", "rounds", "nodes", "trouble", "settings")]
    assert places == sorted(places)


def test_curves_of_devices_are_of_the_runs_that_have_them(make_run):
    timed = rows_of([0.2, 0.4], virtual_seconds=3.0, reports_phone=1.0)
    runs = [read_run("plain", make_run("plain")), read_run("phones", make_run("phones", rows=timed))]
    sections = sections_of(runs, title="t", link=lambda run, name: "")
    assert "reports phone by round" in sections["devices"] and "plain" not in sections["devices"]
    assert "reports phone" not in sections["curves"]
    assert sections_of(runs[:1], title="t", link=lambda run, name: "")["devices"] == ""


def test_what_nodes_alone_have_measured_is_a_score(page_for, make_run):
    rows = [{**row, "loss": None, "accuracy_nodes": 0.875} for row in rows_of([None, None])]
    declared = Metrics((TRAIN_LOSS, *Spread(ACCURACY).metrics), (LOSS, ACCURACY)).to_plain()
    page = page_for(make_run(rows=rows, started={"metrics": declared}))
    assert "Best accuracy on clients: 0.8750 at the end." in page.said
    assert "accuracy on clients 0.8750" in page.said and "accuracy by round" not in page.said


def test_reasons_that_differ_by_their_numbers_alone_are_one_row(page_for, make_run):
    wrong = [{"event": "refused", "round": 1, "attempt": 1, "reason": f"{n}.5 times the norm"} for n in (7, 8, 8)]
    page = page_for(make_run(events=wrong))
    assert "7.5 times the norm (and 1 with other numbers)" in page.said and "8.5" not in page.said


def test_the_same_run_gives_the_same_report(make_run, tmp_path):
    folder = make_run(rows=[{"round_number": number, **FIXED, "accuracy": 0.5} for number in (1, 2)])
    for out in ("a", "b"):
        write_report([folder], tmp_path / out)
    files = [path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*") if path.is_file()]
    assert len(files) == 2 + 2 * (3 + 1 + 1) + 7
    assert all((tmp_path / "a" / each).read_bytes() == (tmp_path / "b" / each).read_bytes() for each in files)


def with_alone(folder, cells):
    """Write nodes.csv of (partition, accuracy, accuracy alone), all measured in round 3 on 20 examples."""
    lines = [f"3,{node},10,20,{accuracy},{alone}" for node, accuracy, alone in cells]
    head = "round,partition,examples,test_examples,accuracy,accuracy_alone"
    (folder / "nodes.csv").write_text("\n".join([head, *lines]) + "\n")
    return folder


def gains_in(page):
    return page.text.partition('<section id="gains">')[2].partition("</section>")[0]


def test_who_gains_and_who_loses_is_shown_and_said(page_for, make_run):
    page = page_for(with_alone(make_run(), [(0, 0.9, 0.5), (1, 0.6, 0.7), (2, 0.5, 0.5), (3, 0.4, "")]))
    assert "1 of 3 clients do worse than by local training only" in page.said
    section = gains_in(page)
    for text in ("<dd>0.1000</dd>", "<dd>-0.1000</dd>", "<dd>0.3333</dd>", "<dd>3</dd>", "<dd>20</dd>"):
        assert text in section
    assert section.index("client 1") < section.index("client 2") < section.index("client 0")


def test_the_local_baseline_of_the_same_seed_is_what_others_are_compared_with(page_for, make_run):
    runs = {"a": (0.8, {}), "b": (0.5, {"training.baseline": "local"}), "c": (0.9, {"seed": 2})}
    folders = [
        with_alone(make_run(name, settings=settings), [(node, accuracy, "") for node in range(4)])
        for name, (accuracy, settings) in runs.items()
    ]
    section = gains_in(page_for(*folders))
    assert section.count("<tbody><tr>") == 1 and section.count("<tr>") == 2 and ">0.3000<" in section


@pytest.mark.parametrize(
    "settings", [{}, {"evaluation.nodes": 2}, {"evaluation.nodes": 2, "training.baseline": "local"}]
)
def test_who_gains_is_no_question_without_tests_on_nodes_or_of_a_baseline(page_for, make_run, settings):
    assert not gains_in(page_for(with_alone(make_run(settings=settings), [(0, 0.9, ""), (1, 0.6, "")])))


def test_counts_on_tiles_and_in_tables_are_whole_numbers(page_for, make_run):
    metrics = Metrics((), (ACCURACY, *Gains(ACCURACY).metrics)).to_plain()
    rows = rows_of([0.5, 0.6], accuracy_compared=10.0, accuracy_support=43.0, accuracy_losing=0.3)
    started = {**STARTED, "metrics": metrics}
    said = page_for(make_run("a", rows=rows, started=started)).said
    for words in ("clients compared 10 ", "fewest test examples 43 ", "share of clients that lose 0.3000"):
        assert words in said
    runs = page_for(make_run("b", rows=rows, started=started), make_run("c", rows=rows, started=started)).text
    assert ">43</td>" in runs and ">43.0" not in runs


def test_a_result_is_a_tile_of_one_run_and_a_column_of_many(monkeypatch, page_for, make_run):
    biggest = Result(
        Column("largest", "largest cohort", count), lambda run: max(run.column("cohort")), lambda _: "here"
    )
    monkeypatch.setattr(run_tables, "RESULTS", (*run_tables.RESULTS, biggest))
    monkeypatch.setattr(sections, "RESULTS", run_tables.RESULTS)
    assert "largest cohort 2 here" in page_for(make_run("a", rows=rows_of([0.5, 0.6]))).said
    runs = page_for(make_run("b", rows=rows_of([0.5])), make_run("c", rows=rows_of([0.6]))).text
    assert ">largest cohort</th>" in runs
