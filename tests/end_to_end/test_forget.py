"""A client is forgotten: the model is that of a run in which it was never ready, byte for byte."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec

import pytest

import fedlearn
from fedlearn.commands.forgetting import Certificate, forgotten, why_not
from fedlearn.core.errors import CheckpointError, RunFailed, UsageError
from fedlearn.runs.checksums import write_checksums
from fedlearn.runs.file_names import whole_name
from fedlearn.runs.kept_whole import kept_rounds
from fedlearn.runs.manifest import Manifest

from .conftest import PATIENCE, PLUGINS, ROOT, Run, config_of, end_of, some_slow, wait_until

CLIENTS, ROUNDS, EXAMPLES = 12, 6, 1437  # of the training rows of digits
RANKED = {"clients": CLIENTS, "rounds.cohort": 4, "rounds.total": ROUNDS, "rounds.selector": "ranked",
          "rounds.keep_every": 1}  # fmt: skip
QUADRATIC = {**RANKED, "model.name": "quadratics:model"}
LINEAR = {**RANKED, "model.name": "linear", "training.batch_size": 40}
ALL = {"rounds.selector": "uniform", "rounds.cohort": 0}
FORGETS = {
    "quadratics": QUADRATIC,
    "control variates": {**QUADRATIC, "strategy.name": "scaffold:Scaffold"},
    "a cohort of all": {**LINEAR, **ALL},
    "embedded": {**LINEAR, "engine.name": "embedded", "engine.workers": 2},
    "a codec with a residual": {**LINEAR, "compression.codec": "residual,top-k", "compression.keep_ratio": 0.2,
                                "compression.send": "update"},
    "dropped entries": {**LINEAR, "compression.codec": "drop", "compression.keep_ratio": 0.3},
    "server momentum": {**LINEAR, "strategy.name": "fedyogi"},
    "an algorithm with memory": {**LINEAR, "strategy.name": "feddyn"},
    "personal layers": {**LINEAR, "training.personal": "*bias*"},
    "an early stop": {**LINEAR, "stop.patience": 1, "stop.least_improvement": 0.02},
    "clients that measure": {**LINEAR, "evaluation.nodes": 12, "data.node_test_share": 0.3},
    "few checkpoints": {**LINEAR, "rounds.keep_every": 4, "rounds.store_every": 3},
}  # fmt: skip


def dealt(path, *, but=None):
    """Write which client has which examples; the one that is left out has none, and is never ready."""
    nodes = {node: [*range(node, EXAMPLES, CLIENTS)] for node in range(CLIENTS) if node != but}
    path.write_text(json.dumps(nodes))
    return str(path)


def late_comer(run):
    """Return the client that is drawn last, and the round of it."""
    first = {}
    for ready in run.events_of("ready"):
        out = {(e["round"], e["attempt"], e["partition"]) for e in run.events_of("rejected")}
        if (ready["round"], ready["attempt"], ready["partition"]) not in out:
            first.setdefault(ready["partition"], ready["round"])
    return max(first.items(), key=lambda each: each[1])


@pytest.fixture
def with_and_never(tmp_path, execute):
    """Make a run, and return it with a client that came late and a function to make the run in which it never was."""

    def both(settings):
        given = {"engine.name": "inline", **settings}
        engine = given.pop("engine.name")
        run = execute({**given, "data.partition": dealt(tmp_path / "all.json")}, engine=engine)
        client, first = late_comer(run)
        partition = dealt(tmp_path / "never.json", but=client)
        return run, client, first, lambda: execute({**given, "data.partition": partition}, engine=engine)

    return both


@pytest.mark.parametrize("settings", some_slow(FORGETS, ["quadratics"], long=[*FORGETS][1:]))
def test_the_model_is_that_of_a_run_in_which_the_client_was_never_ready(settings, with_and_never):
    run, client, first, never = with_and_never(settings)
    _, found = forgotten(run.folder, client)
    after = Run(run.folder.with_name(f"{run.folder.name}-without-{client}"))
    expected = never()
    assert found.after == after.sha == expected.sha != run.sha == found.before
    assert found.rounds == expected.summary["rounds"]
    begins_anew = "evaluation.nodes" in settings
    kept = [0] if begins_anew else [0, *(number for number in kept_rounds(run.folder) if number < first)]
    assert found.again == found.rounds - kept[-1]
    assert not any(event.get("partition") == client and event["round"] > kept[-1] for event in after.events)


@pytest.mark.long
@pytest.mark.skipif(not find_spec("ray"), reason="no Ray")
def test_a_run_on_ray_forgets_to_the_bytes_of_a_run_inline(with_and_never, command, tmp_path, monkeypatch):
    run, client, _, never = with_and_never(QUADRATIC)
    on_ray = command({**QUADRATIC, "engine.name": "ray", "data.partition": str(tmp_path / "all.json")})
    assert on_ray.process.wait(5 * PATIENCE) == 0 and on_ray.run.sha == run.sha
    monkeypatch.setenv("PYTHONPATH", str(PLUGINS))
    words = [
        "-m",
        "fedlearn",
        "forget",
        str(on_ray.run.folder),
        "--client",
        str(client),
        "--out",
        str(tmp_path / "anew"),
    ]
    assert subprocess.run([sys.executable, *words, "--quiet"], cwd=ROOT, check=False).returncode == 0
    assert Run(tmp_path / "anew").sha == never().sha


def test_the_certificate_is_checked_by_running_it_and_an_edited_one_is_refused(with_and_never, capsys):
    run, client, _, _ = with_and_never(QUADRATIC)
    assert end_of("forget", run.folder, "--client", client, "--json", "--out", run.folder.with_name("anew")) == 0
    found = json.loads(capsys.readouterr().out)
    path = run.folder.with_name("anew") / "forgotten.json"
    assert end_of("verify", path) == 0
    assert f"without client {client}, the model has the SHA-256 {found['after']}" in capsys.readouterr().out
    for name, value in (("before", "0" * 64), ("cpu_seconds", 0.5), ("client", client - 1)):
        path.write_text(json.dumps({**found, name: value}))
        assert end_of("verify", path) == 2
        assert "it was edited" in capsys.readouterr().err
    forged = Certificate(**{**found, "settings": {**found["settings"], "seed": 2}, "sha256": ""})
    path.write_text(json.dumps({**vars_of(forged), "sha256": forged.own}))
    assert end_of("verify", path) == RunFailed.exit_code
    assert f"not {found['after']}" in capsys.readouterr().err
    kept = Certificate(**{**found, "settings": {**found["settings"], "rounds.without": ""}, "sha256": ""})
    path.write_text(json.dumps({**vars_of(kept), "sha256": kept.own}))
    assert end_of("verify", path) == 2
    assert "takes part by its settings" in capsys.readouterr().err


@pytest.mark.long
def test_a_certificate_of_another_run_or_of_other_settings_is_refused(with_and_never, execute, capsys):
    run, client, _, _ = with_and_never(QUADRATIC)
    path, found = forgotten(run.folder, client)
    assert end_of("verify", path, "--again", "--json") == 0
    assert json.loads(capsys.readouterr().out)["with"] == run.sha == found.before
    other, _ = forgotten(run.folder, (client + 1) % CLIENTS)
    path.write_bytes(other.read_bytes())  # sound by itself, beside a model that is not its own
    assert end_of("verify", path) == 2
    assert "it is of another run" in capsys.readouterr().err
    second = execute({**QUADRATIC, "seed": 2}, engine="inline")  # it says nothing of the model that is to be replaced
    forged = replace(forgotten(second.folder, client)[1], before=run.sha, sha256="")
    alone = path.parent.with_name("alone.json")
    alone.write_text(json.dumps({**vars_of(forged), "sha256": forged.own}))
    assert end_of("verify", alone) == 0 and end_of("verify", alone, "--again") == RunFailed.exit_code
    assert f"with client {client}, the model has the SHA-256" in capsys.readouterr().err


@pytest.mark.long
def test_swapped_checkpoints_are_refused_though_their_checksums_were_made_anew(with_and_never, capsys):
    run, client, first, _ = with_and_never(QUADRATIC)
    honest, tainted = (run.folder / whole_name(number) for number in (first - 1, first))
    honest.rename(run.folder / "aside")
    tainted.rename(honest)
    assert end_of("forget", run.folder, "--client", client) == 2
    assert "it is not what it was when it ended" in capsys.readouterr().err
    write_checksums(run.folder)
    assert end_of("forget", run.folder, "--client", client) == CheckpointError.exit_code
    assert f"it holds round {first}: put back the checkpoint" in capsys.readouterr().err
    state = next((run.folder / "aside").rglob("*.state.safetensors"))
    state.unlink()  # a link to the file of the run
    state.write_bytes(next(honest.rglob("*.state.safetensors")).read_bytes())
    honest.rename(tainted)
    (run.folder / "aside").rename(honest)
    write_checksums(run.folder)
    assert end_of("forget", run.folder, "--client", client, "--out", run.folder.with_name("edited")) == 1
    assert "its SHA-256 is not the one that checkpoint.json names" in capsys.readouterr().err


def test_a_call_in_python_forgets_to_the_same_bytes_and_names_its_own_words(with_and_never):
    run, client, _, never = with_and_never(QUADRATIC)
    found = fedlearn.load(run.folder).forget(client=client, progress=False)
    assert found.folder.name == f"{run.folder.name}-without-{client}" and (found.folder / "forgotten.json").exists()
    assert found.sha256 == never().sha != run.sha
    with pytest.raises(UsageError, match="client = '12': no such client takes part") as refused:
        fedlearn.load(run.folder).forget(12, progress=False)
    assert "--" not in str(refused.value)


def vars_of(certificate):
    return {name: getattr(certificate, name) for name in Certificate.__dataclass_fields__}


@pytest.mark.long
def test_killed_in_the_middle_the_same_command_goes_on(with_and_never, monkeypatch):
    run, client, _, never = with_and_never({**LINEAR, "rounds.total": 30, "rounds.keep_every": 2})
    out = Run(run.folder.with_name("anew"))
    words = ["-m", "fedlearn", "forget", str(run.folder), "--client", str(client), "--out", str(out.folder), "--quiet"]
    monkeypatch.setenv("PYTHONPATH", str(PLUGINS))
    before = max((number for number in kept_rounds(run.folder) if number < late_comer(run)[1]), default=0)
    process = subprocess.Popen([sys.executable, *words], cwd=ROOT)
    wait_until(lambda: out.committed > before + 1 or process.poll() is not None, "a round", every=0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (out.folder / "forgotten.json").exists()
    assert subprocess.run([sys.executable, *words], cwd=ROOT, check=False).returncode == 0
    assert out.sha == never().sha == json.loads((out.folder / "forgotten.json").read_text())["after"]


REFUSED = {
    "uniform": ({"rounds.selector": "uniform"}, "use 'ranked' in runs that are to forget, or a cohort of all"),
    "secure sums": ({**ALL, "secure.sums": "masked"}, "a sum less another sum shows what the client has sent"),
    "exact sums": ({**ALL, "model.name": "statistics", "data.dataset": "diabetes"}, "two exact sums show the rows"),
    "private clients": ({**ALL, "privacy.protects": "nodes"}, "the others would pay for the same rounds again"),
    "private trees": ({**ALL, "model.name": "dp-forest", "data.dataset": "adult"}, "a private run"),
    "asynchronous": ({**ALL, "rounds.schedule": "buffered"}, "use 'synchronous'"),
    "a baseline": ({**ALL, "training.baseline": "local"}, "a baseline has no common model"),
}  # fmt: skip


@pytest.mark.parametrize(("settings", "why"), REFUSED.values(), ids=REFUSED)
def test_settings_under_which_nothing_is_forgotten_are_named(settings, why, tmp_path):
    said = why_not(config_of({**QUADRATIC, **settings}, "inline", tmp_path), replace(Manifest.empty(), data="rows"))
    assert why in said and "\n" not in said
    assert not why_not(config_of(QUADRATIC, "inline", tmp_path), replace(Manifest.empty(), data="rows"))
    assert "private" in why_not(config_of(QUADRATIC, "inline", tmp_path), Manifest.empty())  # no hash of its rows


def test_a_run_that_cannot_forget_says_why_in_one_line_and_makes_no_folder(execute, capsys):
    run = execute({**QUADRATIC, "rounds.selector": "uniform", "rounds.total": 1}, engine="inline")
    assert end_of("forget", run.folder, "--client", 3) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not run.folder.with_name(f"{run.folder.name}-without-3").exists()


def test_a_client_that_is_not_there_and_a_changed_run_are_refused(execute):
    run = execute({**QUADRATIC, "rounds.total": 2}, engine="inline")
    with pytest.raises(UsageError, match="--client 12: no such client takes part"):
        forgotten(run.folder, 12)
    with pytest.raises(UsageError, match=r"the run has no data\.scaling"):
        forgotten(run.folder, 3, scaling="runs/stats")
    log = run.folder / "events.jsonl"
    log.write_text(log.read_text().replace('"ready"', '"rejected"'))
    with pytest.raises(UsageError, match=r"not what it was when it ended: events.jsonl"):
        forgotten(run.folder, 3)
