"""The command of sweeps: ``--draw`` takes runs of other machines, and no run of another plan."""

import json
from types import SimpleNamespace

import pytest

from experiments.sweeps.command import experiment
from experiments.sweeps.figures import minus_plain
from fedlearn.config import config_from
from fedlearn.runs.folder import RunFolder

PLAN = """
title = "Rates"
seeds = [1]
[base]
data.dataset = "digits"
model.name = "linear"
[choices.rates]
"slow" = { training.lr = 0.01 }
"fast" = { training.lr = 0.1 }
"""
FAST = {"data.dataset": "digits", "model.name": "linear", "training.lr": 0.1, "seed": 1}


@pytest.fixture
def drawn(tmp_path):
    """Return a function that draws a folder with one run of these settings, and returns the drawn runs' names."""

    def draw(settings, *further):
        (tmp_path / "plan.toml").write_text(PLAN)
        place = tmp_path / "out" / "runs" / "rates=fast,seed=1"
        place.mkdir(parents=True)
        RunFolder(place).write_settings(config_from(settings))
        ended = {"status": "completed", "reason": "", "rounds": 0, "seconds": 1.0, "seed": 1, "model_sha256": "ab" * 32}
        (place / "summary.json").write_text(json.dumps(ended))
        found = []

        def drawing(results, folder):
            found.extend(each.run.name for each in results)
            (folder / "by_round.svg").write_text("<svg/>")
            (folder / "table.md").write_text("| rates |\n")

        arguments = ["--plan", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "out"), "--draw", *further]
        experiment("rates", "", drawing, arguments)
        return found

    return draw


def test_a_run_of_a_device_that_is_not_here_is_drawn(drawn):
    assert drawn({**FAST, "engine.device": "cuda", "engine.name": "inline"}) == ["rates=fast,seed=1"]


def test_a_run_of_another_plan_is_refused_by_its_setting(drawn, capsys):
    with pytest.raises(SystemExit) as stopped:
        drawn({**FAST, "training.lr": 0.2})
    assert stopped.value.code == 2
    assert "has training.lr = 0.2, the plan 0.1" in capsys.readouterr().err


def test_a_page_gets_the_command_the_day_and_the_commit_beside_figures_and_table(drawn, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Tables\n\nBy hand.\n")
    drawn(FAST, "--page", str(page))
    written = page.read_text()
    assert written.startswith("# Tables\n\nBy hand.\n\n<!-- begin of rates, made by experiments.sweeps.rates -->\n")
    assert "`python -m experiments.sweeps.rates`: 1 of 2 planned runs that ended on 20" in written
    assert "Commits: " in written
    assert written.endswith("![By round](figures/rates-by_round.svg)\n\n| rates |\n\n<!-- end of rates -->\n")
    assert (tmp_path / "figures" / "rates-by_round.svg").exists()


def test_a_difference_is_to_the_plain_run_of_the_same_seed_and_the_same_other_labels():
    def point(data, sent, **accuracy):
        runs = [SimpleNamespace(summary={"seed": seed, "accuracy": value}) for seed, value in accuracy.items()]
        return SimpleNamespace(labels={"data": data, "sent": sent}, runs=runs)

    points = [
        point("iid", "all", a=0.5, b=0.75), point("iid", "few", b=0.5, a=0.5), point("skewed", "all", a=1.0),
        point("skewed", "few", a=0.25, b=0.0), point("other", "few", a=0.5),
    ]  # fmt: skip
    assert minus_plain(points, "sent", "all") == ["", "-0.1250 ± 0.1768", "", "-0.7500", ""]
