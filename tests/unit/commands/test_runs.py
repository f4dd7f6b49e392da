"""`fedlearn runs`: a line a run, those that were asked for, in the order that was asked for."""

from __future__ import annotations

import json

import pytest

from fedlearn.cli import main
from fedlearn.core.metrics import NEURAL_CLASSIFIER

RUNS = {  # name: partition, accuracy by round, state
    "a": ("iid", [0.2, 0.6], "completed"),
    "b": ("dirichlet", [0.3, 0.4], "completed"),
    "c": ("dirichlet", [0.9], "unfinished"),
}


@pytest.fixture
def runs(tmp_path, monkeypatch):
    for name, (partition, accuracies, state) in RUNS.items():
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "settings.toml").write_text(
            f'clients = 4\nrounds.total = 2\ndata.dataset = "digits"\ndata.partition = "{partition}"\nmodel.name="cnn"'
        )
        rows = "".join(f"{number},100,{value}\n" for number, value in enumerate(accuracies, start=1))
        (folder / "metrics.csv").write_text(f"round_number,bytes_up,accuracy\n{rows}")
        (folder / "events.jsonl").touch()
        if state == "completed":
            summary = {"status": state, "model_sha256": f"{name}" * 64, "metrics": NEURAL_CLASSIFIER.to_plain()}
            (folder / "summary.json").write_text(json.dumps(summary))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def said(runs, capsys):
    def said(*arguments, code=0):
        with pytest.raises(SystemExit) as end:
            main(["runs", *arguments])
        assert end.value.code == code
        out = capsys.readouterr()
        return out.err if code else out.out

    return said


def names(text):
    return [words[0] for words in map(str.split, text.splitlines()) if words and words[0] in RUNS]


def test_a_run_is_a_line_with_state_data_model_rounds_score_and_sha(said):
    (words,) = [words for words in map(str.split, said().splitlines()) if words[:1] == ["b"]]
    assert words == ["b", "completed", "digits", "cnn", "2/2", "accuracy", "0.4000", "b" * 10]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ["a", "b", "c"]),
        (["--where", "data.partition=dirichlet"], ["b", "c"]),
        (["--where", "data.partition=dirichlet", "--where", "state=completed"], ["b"]),
        (["--where", "clients=4", "runs/a"], ["a"]),
        (["--sort", "score"], ["c", "a", "b"]),
        (["--sort", "rounds"], ["c", "a", "b"]),
        (["--sort", "data.partition"], ["b", "c", "a"]),
    ],
)
def test_runs_are_chosen_and_ordered(said, arguments, expected):
    assert names(said(*arguments)) == expected


def test_json_has_settings_and_summary(said):
    (run,) = json.loads(said("--json", "--where", "data.partition=iid"))
    assert run["settings"]["data.dataset"] == "digits"
    assert run["headline"] == {"metric": "accuracy", "value": 0.6}
    assert run["state"] == "completed"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--where", "partition"], "--where partition: write it as key=value"),
        (["--where", "data.partiton=iid"], "there is no such setting; did you mean data.partition?"),
        (["--sort", "zzz"], "--sort zzz: there is no such setting"),
        (["elsewhere"], "elsewhere: there is no such folder"),
    ],
)
def test_what_cannot_be_asked_for_is_one_line(said, arguments, message):
    text = said(*arguments, code=2)
    assert message in text
    assert text.count("\n") == 1
