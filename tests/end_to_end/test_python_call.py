"""`fedlearn.run`: the same run as the command's, with code that no other process could import."""

from __future__ import annotations

import io
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from rich.console import Console

import fedlearn
from client.learners.sgd import SGD
from fedlearn.compression.identity import Identity
from fedlearn.core.errors import FedlearnError, SettingError, UsageError
from fedlearn.report.comparing import compared
from fedlearn.runs.manifest import Manifest
from strategies.fedavg import FedAvg
from tests.end_to_end.conftest import PLUGINS, ROOT, Run, end_of, wait_until
from tests.marked import some_long

SMALL = {
    "clients": 10, "rounds": 2, "cohort": 5, "local_epochs": 1, "workers": 2, "progress": False,
    "settings": {"rounds.backoff": 0.0, "rounds.max_attempts": 2},
}  # fmt: skip
INLINE = {**SMALL, "engine": "inline"}  # where it is not the engine that is looked at
BY_NAME = {
    "clients": 10, "data.dataset": "writers:load", "model.name": "letters:Letters", "training.lr": 0.2,
}  # fmt: skip
SCRIPT = """
import os, signal
import fedlearn
exec({source!r})
class Net(Letters):
    def forward(self, x):
        mark = os.environ.get("MARK")  # of a node that hangs, once there is something to go on with
        if mark and not os.path.exists(mark) and os.path.exists({out!r} + "/checkpoint.json"):
            open(mark, "w").close()
            import time
            time.sleep(60)
        return super().forward(x)
run = fedlearn.run(clients=10, data="writers:load", model={model}, lr=0.2, rounds=2, cohort=5, local_epochs=1,
                   workers=2, out={out!r})
print("score", run.evaluate()["accuracy"] == run.summary["accuracy"], run.model().__class__.__module__)
"""
LETTERS = (PLUGINS / "letters.py").read_text()


@pytest.fixture(scope="module")
def letters():
    """The plugin's class; its folder is on the path while tests run."""
    from letters import Letters

    return Letters


@pytest.fixture(scope="module")
def writers():
    from writers import load

    return load("")


@pytest.fixture(scope="module")
def by_the_command(undisturbed):
    return undisturbed(BY_NAME)


def script(folder, model="Net", text=SCRIPT):
    return text.format(source=LETTERS, model=model, out=str(folder))


def python(arguments, *, text=None, **more):
    """Start Python where neither our checkout nor our plugins lie in the current folder."""
    paths = os.pathsep.join([str(ROOT), str(PLUGINS)])
    environment = {**os.environ, "PYTHONPATH": paths, **more.pop("env", {})}
    started = subprocess.Popen(
        [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment, **more,
    )  # fmt: skip
    if text is not None:
        started.stdin.write(text)
        started.stdin.close()
        started.stdin = None
    return started


@pytest.mark.parametrize("engine", ["inline", "embedded"])
def test_objects_make_the_same_bytes_as_their_names(by_the_command, letters, writers, tmp_path, engine):
    class Net(letters):
        """Not to be imported by anybody else."""

    run = fedlearn.run(data=writers, model=Net, lr=0.2, engine=engine, out=tmp_path / "run", **SMALL)
    assert run.settings.model.name.startswith("object:Net-")
    assert run.sha256 == by_the_command.sha
    assert isinstance(run.model(), Net)


@pytest.mark.parametrize(
    "from_file",
    [
        pytest.param(False, id="standard-input", marks=pytest.mark.long),
        pytest.param(True, id="script", marks=pytest.mark.long),  # as below, where it is interrupted
    ],
)
def test_script_without_a_guard_makes_the_same_bytes(by_the_command, tmp_path, from_file):
    text = script(tmp_path / "run")
    (tmp_path / "script.py").write_text(text)
    started = python(["script.py"] if from_file else ["-"], text=None if from_file else text, cwd=tmp_path)
    said, wrong = started.communicate()
    assert (started.returncode, wrong) == (0, "")
    assert "score True __main__" in said
    assert Run(tmp_path / "run").sha == by_the_command.sha


@pytest.mark.long
def test_ctrl_c_ends_with_the_line_that_goes_on_and_so_it_does(by_the_command, tmp_path):
    (tmp_path / "script.py").write_text(script(tmp_path / "run"))
    started = python(["script.py"], cwd=tmp_path, env={"MARK": str(tmp_path / "mark")}, start_new_session=True)
    wait_until(lambda: (tmp_path / "mark").exists() or started.poll() is not None, "a node that hangs")
    started.send_signal(signal.SIGINT)
    _, wrong = started.communicate(timeout=30)
    assert wrong.splitlines()[-1].startswith("KeyboardInterrupt: completed rounds are stored; resume by fedlearn.run(")
    assert "worker" not in wrong
    run = fedlearn.run(resume=tmp_path / "run", progress=False)
    assert run.sha256 == by_the_command.sha


def test_resume_with_other_code_is_refused_and_with_the_same_goes_on(tmp_path):
    def net(width):
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(28 * 28, width)

            def forward(self, images):
                return self.layer(images.flatten(1))

        return Net

    first = fedlearn.run(data="writers:load", model=net(62), out=tmp_path / "run", **INLINE)
    with pytest.raises(SettingError, match="began with other code: 'object:Net-") as error:
        fedlearn.run(resume=first, model=net(63), rounds=3, progress=False)
    assert "\n" not in str(error.value)
    again = fedlearn.run(resume=first, model=net(62), rounds=3, progress=False)
    assert again.summary["rounds"] == 3
    assert len(again.history) == 3


def of_width(width):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(28 * 28, 62)

        def forward(self, images):
            return self.layer(images.flatten(1)) * width

    return Net


@pytest.mark.parametrize(
    "how", some_long(["the other's file", "under the first line of the own", "it is gone"], "it is gone")
)
def test_run_is_resumed_and_repeated_with_the_code_that_it_was_begun_with(how, tmp_path, capfd, monkeypatch):
    """An object whose bytes are not those that the checkpoint names is refused by name, and never unpickled."""
    first, other = (
        fedlearn.run(data="writers:load", model=of_width(width), out=tmp_path / str(width), **INLINE)
        for width in (1, 2)
    )
    ((mine,), (theirs,)) = ([*(run.folder / "objects").iterdir()] for run in (first, other))
    content = theirs.read_bytes()
    if how == "under the first line of the own":
        content = fedlearn.plugins.objects._with_header(content.partition(b"\n")[2], f"object:{mine.stem}")
    mine.write_bytes(content) if how != "it is gone" else mine.unlink()
    with monkeypatch.context() as patch:  # as another process
        patch.setattr(fedlearn.plugins.objects, "_packed", {})
        patch.setattr(fedlearn.plugins.objects, "_folders", [])
        for arguments in (("--resume", first.folder), ("--config", first.folder / "settings.toml")):
            assert end_of("simulate", "--quiet", *arguments, "--rounds", 3) == 2
            (line,) = capfd.readouterr().err.splitlines()
            assert mine.name in line and ("put back" in line or "give the object again" in line)
    if how != "it is gone":
        with pytest.raises(FedlearnError, match=f"{mine.name} is damaged or was changed by hand"):
            fedlearn.run(resume=first.folder, model=of_width(1), rounds=3, progress=False)
    else:
        again = fedlearn.run(resume=first.folder, model=of_width(1), rounds=3, progress=False)
        assert again.summary["rounds"] == 3


@pytest.mark.long
def test_run_of_an_older_version_is_resumed_with_the_code_that_lies_there(tmp_path, caplog):
    """It names no checksums: that is said, and from then on it does."""
    first = fedlearn.run(data="writers:load", model=of_width(1), out=tmp_path / "run", **INLINE)
    path = first.folder / "checkpoint.json"
    stored = Manifest.read(path)
    files = {name: digest for name, digest in stored.files.items() if not name.startswith("objects/")}
    assert len(files) < len(stored.files)
    path.write_bytes(replace(stored, files=files).packed())
    fedlearn.run(resume=first.folder, rounds=3, progress=False)
    assert caplog.text.count("stored no checksums of the code in objects") == 1
    assert any(name.startswith("objects/") for name in Manifest.read(path).files)


@pytest.mark.parametrize(
    "settings",
    [{"model.loss": "torch.nn.functional:multi_margin_loss"}, {"training.precision": "bfloat16"}],
    ids=["loss", "precision"],
)
def test_evaluated_again_it_scores_what_the_run_says(letters, tmp_path, settings):
    given = INLINE | {"settings": {**SMALL["settings"], **settings}}
    run = fedlearn.run(data="writers:load", model=letters, out=tmp_path / "run", **given)
    again = run.evaluate()
    assert {name: again[name] for name in ("loss", "accuracy")} == {
        name: pytest.approx(run.summary[name], rel=1e-9) for name in ("loss", "accuracy")
    }


@pytest.mark.long
def test_command_repeats_and_resumes_a_run_of_objects_in_this_process(letters, writers, tmp_path):
    class Net(letters):
        pass

    first = fedlearn.run(data=writers, model=Net, out=tmp_path / "run", **SMALL)
    again = tmp_path / "again"
    assert end_of("simulate", "--quiet", "--config", first.folder / "settings.toml", "--out", again) == 0
    assert Run(again).sha == first.sha256
    assert end_of("simulate", "--quiet", "--resume", first.folder, "--rounds", 3) == 0
    assert Run(first.folder).summary["rounds"] == 3


@pytest.mark.long
def test_command_repeats_and_resumes_a_run_of_objects(letters, writers, tmp_path, command):
    class Net(letters):
        pass

    first = fedlearn.run(data=writers, model=Net, out=tmp_path / "run", **SMALL)
    settings = first.folder / "settings.toml"
    again = subprocess.run(
        [sys.executable, "-m", "fedlearn.simulate", "--config", settings, "--out", tmp_path / "again", "--quiet"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(PLUGINS)}, capture_output=True, text=True,
    )  # fmt: skip
    assert (again.returncode, again.stderr) == (0, "")
    assert Run(tmp_path / "again").sha == first.sha256
    resumed = command({"rounds.total": 3}, resume=first.folder)
    assert resumed.process.wait(60) == 0
    assert resumed.run.summary["rounds"] == 3


def test_learner_strategy_and_codec_can_be_objects(letters, tmp_path):
    class Slower(SGD):
        def step_for(self, task):
            step = super().step_for(task)
            return lambda inputs, labels: step(inputs * 0.5, labels)

    class Halved(FedAvg):
        def next_state(self, turn):
            step = super().next_state(turn)
            return type(step)({name: array * np.float32(0.5) for name, array in step.state.items()}, step.measured)

    class Plain(Identity):
        pass

    given = {"data": "writers:load", "model": letters, "learner": Slower, "strategy": Halved, "compression": Plain}
    runs = [
        fedlearn.run(**given, engine=engine, out=tmp_path / engine, **SMALL) for engine in ("inline", "embedded")
    ]  # fmt: skip
    assert runs[0].sha256 == runs[1].sha256
    plain = fedlearn.run(data="writers:load", model=letters, out=tmp_path / "plain", **INLINE)
    assert plain.sha256 != runs[0].sha256
    assert sorted(path.name.partition("-")[0] for path in (tmp_path / "inline" / "objects").iterdir()) == [
        "Halved", "Plain", "Slower",
    ]  # fmt: skip


@pytest.mark.slow
def test_looking_at_a_run_never_unpickles(letters, tmp_path):
    mark = tmp_path / "was-run"

    class Net(letters):
        pass

    run = fedlearn.run(data="writers:load", model=Net, out=tmp_path / "run", **INLINE)
    (stored,) = (run.folder / "objects").iterdir()
    hostile = pickle.dumps(_Touch(str(mark)))
    stored.write_bytes(fedlearn.plugins.objects._with_header(hostile))
    loaded = fedlearn.load(run.folder)
    assert len(loaded.history) == 2
    assert loaded.state.keys() == run.state.keys()
    assert loaded.summary["status"] == "completed"
    assert loaded.report().is_file()
    assert loaded._repr_html_()
    assert loaded.spec.classes == 62
    Console(file=io.StringIO()).print(compared(run.folder, run.folder))
    assert not mark.exists()


class _Touch:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def test_refused_run_leaves_no_folder(letters, tmp_path, monkeypatch):
    class Net(letters):
        pass

    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingError, match=r"^lr = 'fast': expected a number"):
        fedlearn.run(data="digits", model=Net, lr="fast", **SMALL)
    with pytest.raises(SettingError, match=r"clients = 10000: from 1 to"):
        fedlearn.run(**{**SMALL, "clients": 10_000}, data="digits", model=Net)
    assert [path for path in tmp_path.rglob("*") if path.name != "runs"] == []


def test_what_a_run_shows_is_html_of_its_own(tmp_path):
    run = fedlearn.run(data="writers:load", model="letters:Letters", out=tmp_path / "run", **INLINE)
    parser = HTMLParser()
    parser.feed(run._repr_html_())
    assert run.sha256 in run._repr_html_()
    assert "<script" not in run._repr_html_()
    assert "http" not in run._repr_html_()


def test_inference_needs_the_run_folder_alone(tmp_path):
    given = {**INLINE, "clients": 4, "rounds": 1}
    run = fedlearn.run(data="digits", **given, out=tmp_path / "run")
    digits = fedlearn.data.load_dataset("digits", "")
    before = torch.get_num_threads()
    model, inputs = run.model(), run.inputs(digits.test.inputs)
    assert torch.get_num_threads() == before
    with torch.no_grad():
        right = (model(inputs).argmax(1).numpy() == digits.test.targets).mean()
    assert right == pytest.approx(run.summary["accuracy"])
    assert run.evaluate() == run.evaluate("digits") == run.evaluate(digits) == run.evaluate(digits.test)
    assert run.spec == digits.spec


def test_folder_without_a_run_is_one_line(tmp_path):
    with pytest.raises(UsageError, match="there is no run"):
        fedlearn.load(tmp_path)


class InterruptedOnce(SGD):
    """Is stopped by Ctrl-C in round 2, the first time; trains with one thread, else its bytes would be others."""

    def fit(self, state, task):
        assert torch.get_num_threads() == 1
        mark = Path(os.environ["INTERRUPTED"])
        if task.round_number == 2 and not mark.exists():
            mark.touch()
            raise KeyboardInterrupt
        return super().fit(state, task)


def test_run_that_was_interrupted_goes_on_in_the_same_process_to_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setenv("INTERRUPTED", str(tmp_path / "mark"))
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(KeyboardInterrupt):
            fedlearn.run(model="linear", data="digits", learner=InterruptedOnce, out=tmp_path / "run", **INLINE)
        resumed = fedlearn.run(resume=tmp_path / "run", engine="inline", progress=False)
        whole = fedlearn.run(model="linear", data="digits", learner=InterruptedOnce, out=tmp_path / "whole", **INLINE)
        assert resumed.summary["model_sha256"] == whole.summary["model_sha256"]
        assert torch.get_num_threads() == 2  # the user's own
    finally:
        torch.set_num_threads(threads)


@pytest.mark.long
def test_runs_in_a_session_have_the_bytes_that_each_has_alone(tmp_path):
    def run(number, **more):
        given = {**SMALL, "data": "digits", "rounds": 1, "seed": number, "out": str(tmp_path / f"{number}-{len(more)}")}
        return fedlearn.run(**{**given, **more})

    with fedlearn.session():
        first, workers = run(1), {child.pid for child in psutil.Process().children(recursive=True)}
        with pytest.raises(FedlearnError):
            run(2, data="nowhere:load")  # a run that was never started takes no worker along
        second = run(2)
        assert workers <= {child.pid for child in psutil.Process().children(recursive=True)}
        odd = run(3, clients=3, compression="drop", send="update")
        with pytest.raises(FedlearnError):
            run(4, lr=1e30)
        third = run(3)
    assert [second.sha256, third.sha256] == [run(2, local_epochs=1).sha256, run(3, local_epochs=1).sha256]
    assert first.sha256 != second.sha256 != third.sha256 != odd.sha256
