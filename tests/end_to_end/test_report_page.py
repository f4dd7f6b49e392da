"""The report of real runs, in a real browser."""

from __future__ import annotations

import csv
import json
import re
import shutil
from itertools import product
from pathlib import Path

import pytest

from fedlearn.config import config_from, flat_from_file
from fedlearn.engine import ENGINES
from fedlearn.models.presets import settings_from
from fedlearn.report.writing import write_report
from fedlearn.runs.folder import RunFolder
from tests.end_to_end.chromium import WIDTHS, Visit, headless
from tests.end_to_end.conftest import CHEAP, Run, end_of


@pytest.fixture(scope="module")
def browser():
    with headless() as browser:
        yield browser


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs that were made once for all of these tests."""
    folders = [tmp_path_factory.mktemp("runs") / codec for codec in ("identity", "drop")]
    for folder in folders:
        settings = {**CHEAP, "compression.codec": folder.name, "data.partition": "dirichlet", "out": str(folder)}
        ENGINES.load("inline")(settings_from(settings))
    return folders


@pytest.fixture
def report(tmp_path):
    """Write a report and return where its page is."""

    def report(*folders):
        page, problems = write_report(folders, tmp_path / "report")
        assert problems == []
        return page.as_uri()

    return report


@pytest.mark.long
def test_the_command_says_where_the_page_is(runs, tmp_path, capsys):
    assert end_of("report", runs[0], "--out", tmp_path) == 0
    assert capsys.readouterr() == (f"{tmp_path / 'index.html'}\n", "")


def test_formats_and_columns_that_are_not_there_are_one_line_of_usage(runs, tmp_path, capsys):
    assert end_of("report", runs[0], "--out", tmp_path, "--figures", "pdf,eps") == 2
    assert end_of("report", runs[0], "--out", tmp_path, "--columns", "acuracy") == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and "--figures eps: there is no such format: png, svg, pdf" in said[0]
    assert "--columns acuracy: there is no such column: run, status, accuracy, " in said[1]
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_page_is_calm_on_a_desk_and_on_a_phone(browser, report, runs):
    url = report(*runs)
    for width, scheme in product(WIDTHS, ("light", "dark")):
        visit = Visit(browser, url, width=width, scheme=scheme)
        visit.assert_calm()
        assert visit.asked == [url]  # it holds everything
        assert visit.page.locator("#curves figure").count() == 3
        assert visit.page.locator("#pareto circle").count() == 2


@pytest.fixture(scope="module")
def ten(runs, tmp_path_factory):
    """Ten runs of many kinds: copies of two, with other settings, devices, failures, scores of nodes alone."""
    place = tmp_path_factory.mktemp("ten")

    def copied(name, of=runs[0], *, columns=None, **changed):
        folder = place / name
        shutil.copytree(of, folder)
        settings = flat_from_file(folder / "settings.toml") | changed
        RunFolder(folder).write_settings(config_from(settings))
        rows = list(csv.DictReader((folder / "metrics.csv").read_text().splitlines()))
        rows = [row | {key: str(value) for key, value in (columns or {}).items()} for row in rows]
        with (folder / "metrics.csv").open("w") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        return folder

    skewed = {"data.alpha": 0.1, "training.lr": 0.07}
    for seed, accuracy in ((1, 0.2), (2, 0.5), (3, 0.6)):
        copied(f"skewed-{seed}", seed=seed, columns={"accuracy": accuracy}, **skewed)
    copied("phones", columns={"virtual_seconds": 9, "reports_slow": 2, "late": 1}, **{"devices.name": "phones"})
    copied("failing", columns={"failed": 1, "refused": 2}, **{"strategy.name": "median"})
    copied("nodes-alone", columns={"accuracy": "", "loss": "", "accuracy_nodes": 0.4}, **{"evaluation.where": "none"})
    copied("buffered", columns={"staleness_mean": 1.5}, **{"rounds.schedule": "buffered"})
    copied("other-data", **{"data.dataset": "/data/photos-of-animals-in-a-folder-with-a-long-name"})
    (copied("private", **{"clients": 4}) / "dealt.json").unlink()
    copied("drop", runs[1])
    return sorted(place.iterdir())


@pytest.mark.long
def test_a_page_of_ten_runs_of_many_kinds_is_calm(browser, report, ten):
    url = report(*ten)
    for width, scheme in zip(WIDTHS, ("light", "dark"), strict=True):
        visit = Visit(browser, url, width=width, scheme=scheme)
        visit.assert_calm()
        assert visit.asked == [url]
        assert "10 runs: 10 completed" in visit.page.inner_text("#head .account")
        assert max(len(name) for name in legend_of(visit)) < 20 and "alpha=0.1" in legend_of(visit)
        assert visit.page.locator("#devices .legend").count() == 0  # a single run has devices
        assert visit.page.locator("#skew figure").count() >= 2 and "private" not in visit.page.inner_text("#skew")
        assert visit.page.locator("#rounds details:visible").count() == 1  # folded
        order = visit.page.evaluate("[...document.querySelectorAll('h2')].map(h => h.textContent)")
        assert order[:3] == ["Runs", "Learning", "Accuracy vs communication"] and order.index("Rounds") > order.index(
            "Devices"
        )


@pytest.mark.long
def test_the_band_of_the_script_is_that_of_the_file(browser, report, ten):
    url = report(*ten[-3:])
    numbers = re.compile(r"[\d.]+")
    by_python = re.search(r'class="band c0 d0" d="([^"]+)"', unquoted(url))[1]
    by_script = Visit(browser, url).page.locator("#curves path.band").first.get_attribute("d")
    pairs = zip(numbers.findall(by_python), numbers.findall(by_script), strict=True)
    assert all(abs(float(a) - float(b)) < 0.3 for a, b in pairs)


def unquoted(url):
    return Path(url.removeprefix("file://")).read_text()


@pytest.mark.long
def test_the_numbers_are_shown_under_the_pointer(browser, report, runs):
    visit = Visit(browser, report(runs[0]))
    box = visit.page.locator("#curves svg").first.bounding_box()
    visit.page.mouse.move(box["x"] + box["width"] - 20, box["y"] + box["height"] / 2)
    assert visit.page.locator("#hint").inner_text().split()[:2] == ["round", "2"]
    accuracy = Run(runs[0]).events_of("committed")[-1]["accuracy"]
    assert float(visit.page.locator("#hint em").inner_text()) == pytest.approx(accuracy, rel=1e-4)
    visit.page.mouse.move(1, 1)
    assert visit.page.locator("#hint").is_hidden()


def legend_of(visit):
    return visit.page.locator("#curves .legend li").all_inner_texts()


def lines_of(visit):
    """Return the names of the lines of the first chart, and its horizontal axis."""
    hover = json.loads(visit.page.locator("#curves svg").first.get_attribute("data-hover"))
    return [line[0] for line in hover["lines"]], hover


@pytest.mark.long
def test_a_chart_has_rounds_bytes_and_time(browser, report, runs):
    visit = Visit(browser, report(runs[0]))
    run = Run(runs[0])
    for word, end in (("rounds", 2), ("bytes", run.summary["bytes_up"] / 1e6), ("time", None)):
        visit.page.locator(".switch span", has_text=word).click()
        _, hover = lines_of(visit)
        assert end is None or hover["lines"][0][2][-1] == pytest.approx(end, rel=1e-3)
    assert (hover["x"], visit.page.locator("#curves h3").first.inner_text()) == ("seconds", "accuracy by time")
    visit.page.locator("[name=logy]").check()
    visit.page.locator("[name=logx]").check()
    assert lines_of(visit)[1]["log"]
    visit.page.locator("[name=smooth]").fill("0.9")
    assert visit.page.locator("#curves svg").first.locator(".raw").count() == 1
    visit.assert_calm()


@pytest.mark.long
def test_runs_are_chosen_found_and_grouped(browser, report, runs):
    visit = Visit(browser, report(*runs))
    assert lines_of(visit)[0] == legend_of(visit) == ["identity", "drop"]
    visit.page.locator("tr[data-run=drop] input").uncheck()
    assert lines_of(visit)[0] == legend_of(visit) == ["identity"]
    assert visit.page.locator("#rounds details:visible").count() == 1
    visit.page.locator("[name=all]").check()
    visit.page.locator("[name=filter]").fill("codec=drop")
    assert lines_of(visit)[0] == ["drop"] and visit.page.locator("tr[data-run]:visible").count() == 1
    visit.page.locator("[name=filter]").fill("")
    visit.page.locator("[name=group]").select_option("compression.codec")
    assert legend_of(visit) == ["compression.codec=identity", "compression.codec=drop"]
    visit.page.locator("table.runs th", has_text="codec").click()
    assert visit.page.locator("tr[data-run]").first.get_attribute("data-run") == "drop"
    visit.assert_calm()


@pytest.mark.long
def test_a_chart_is_saved_as_svg_png_and_pdf_by_the_keyboard(browser, report, runs, tmp_path):
    visit = Visit(browser, report(*runs), scheme="dark")
    charts = {
        "curves": ("accuracy_by_round", ">identity<"),
        "pareto": ("accuracy_against_uploaded_bytes", ">MB uploaded<"),
    }
    for section, (name, text) in charts.items():
        for kind, begin in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
            visit.page.locator(f"#{section} figure").first.locator(".save button", has_text=kind).focus()
            with visit.page.expect_download() as saved:
                visit.page.keyboard.press("Enter")
            assert saved.value.suggested_filename == f"{name}.{kind.lower()}"
            saved.value.save_as(tmp_path / "file")
            assert (tmp_path / "file").read_bytes().startswith(begin)
            drawn = (tmp_path / "file").read_text() if kind == "SVG" else ""
            assert kind == "PNG" or all(each in drawn for each in (">accuracy<", "#fff", text)), drawn
    visit.page.evaluate("window.print = () => {}")
    visit.page.locator("#curves .save button", has_text="PDF").first.click()
    visit.page.emulate_media(media="print")
    assert visit.page.locator("#sheet svg").is_visible() and visit.page.locator("main").is_hidden()
    visit.page.evaluate("dispatchEvent(new Event('afterprint'))")
    visit.page.emulate_media(media="screen")
    assert visit.page.locator("#sheet").is_hidden() and visit.page.locator("main").is_visible()
    visit.assert_calm()


@pytest.mark.slow
def test_a_band_is_a_deviation_an_interval_or_the_range_by_choice(browser, report, ten):
    visit = Visit(browser, report(*(folder for folder in ten if folder.name.startswith("skewed"))))
    heights = {}
    for band in ("sd", "ci", "range"):
        visit.page.locator("[name=band]").select_option(band)
        path = visit.page.locator("#curves path.band").first.get_attribute("d")
        (top, *_, bottom) = [float(y) for y in re.findall(r"[\d.]+ ([\d.]+)", path)]
        ticks = [
            float(tick) for tick in visit.page.locator("#curves svg").first.locator(".tick.end").all_text_contents()
        ]
        heights[band] = (bottom - top) / 186 * (max(ticks) - min(ticks))  # 186: the inner height of a chart
    deviation = 0.2082  # of 0.2, 0.5 and 0.6
    assert heights["sd"] == pytest.approx(2 * deviation, rel=0.01)
    assert heights["ci"] == pytest.approx(2 * 4.303 * deviation / 3**0.5, rel=0.01)
    assert heights["range"] == pytest.approx(0.4, rel=0.01)
    assert "from the least to the largest value" in visit.page.inner_text("#curves .note")
    visit.assert_calm()


@pytest.mark.long
def test_a_clients_own_curve_stands_beside_those_of_all(browser, report, runs):
    visit = Visit(browser, report(runs[0]))
    chart = visit.page.locator("#nodes figure").first
    assert chart.locator("path.line").count() == 2
    (name,) = visit.page.locator("[name=client]").select_option(index=1)
    assert chart.locator("path.line").count() == 3 and f"client {name}" in chart.locator(".legend").inner_text()
    hover = json.loads(chart.locator("svg").get_attribute("data-hover"))
    assert [line[0] for line in hover["lines"]] == ["median, quartiles", "worst tenth", f"client {name}"]
    visit.page.locator("[name=client]").select_option("")
    assert chart.locator("path.line").count() == 2 and "client" not in chart.locator(".legend").inner_text()
    visit.assert_calm()


@pytest.mark.long
def test_a_table_is_sorted_by_the_keyboard(browser, report, runs):
    visit = Visit(browser, report(*runs))
    visit.page.locator("table.runs th", has_text="codec").focus()
    visit.page.keyboard.press("Enter")
    assert visit.page.locator("tr[data-run]").first.get_attribute("data-run") == "drop"
    assert visit.page.locator("table.runs th", has_text="status").bounding_box()["x"] < WIDTHS[0] / 2


@pytest.mark.slow
def test_without_a_script_the_curves_by_round_are_there(browser, report, runs):
    page = browser.new_page(java_script_enabled=False)
    page.goto(report(runs[0]))
    assert page.locator("#curves svg path.line").count() == 3
    assert page.locator(".tools").first.is_hidden()


def test_two_runs_are_compared_on_a_page(browser, runs, tmp_path, capsys):
    assert end_of("compare", *runs, "--html", tmp_path / "two.html") == 0
    assert capsys.readouterr() == (f"{tmp_path / 'two.html'}\n", "")
    visit = Visit(browser, (tmp_path / "two.html").as_uri())
    assert legend_of(visit) == ["A identity", "B drop", "they part in round 1"]
    assert "compression.codec" in visit.page.inner_text("#unlike")
    visit.assert_calm()


def test_a_hostile_run_does_nothing_in_the_browser(browser, report, runs, tmp_path):
    hostile = tmp_path / "<img src=x onerror=alert(1)>"
    shutil.copytree(runs[0], hostile)
    with (hostile / "events.jsonl").open("a") as log:
        log.write('{"event": "refused", "reason": "<script>alert(2)<\\/script><img src=http://example.com/x>"}\n')
    visit = Visit(browser, report(hostile))
    visit.page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    visit.page.wait_for_timeout(200)
    visit.assert_calm()
    assert "alert(2)" in visit.page.inner_text("#trouble")


def test_the_report_of_a_forest_shows_its_error(browser, report, execute):
    forest = {"model.name": "dp-forest", "data.dataset": "diabetes", "clients": 4, "rounds.total": 1}
    run = execute(forest, engine="inline")
    visit = Visit(browser, report(run.folder), width=WIDTHS[1])
    visit.assert_calm()
    assert f"{run.summary['mae']:.4f}" in visit.page.inner_text("#results")
    assert "protects nobody" in visit.page.inner_text("#head")
