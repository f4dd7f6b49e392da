"""A run begins with the model of another one, by the command and from Python."""

from __future__ import annotations

import fedlearn
from tests.end_to_end.conftest import CHEAP, end_of

LINEAR = {"model.name": "linear", "engine.name": "inline"}


def test_run_goes_on_from_another_with_another_strategy_and_codec(tmp_path, undisturbed, capsys):
    first, out = undisturbed({"model.name": "linear"}), tmp_path / "second"
    assignments = [word for name, value in {**CHEAP, **LINEAR}.items() for word in ("--set", f"{name}={value}")]
    other = ("--from", first.folder, "--strategy", "fedadam", "--compression", "drop:0.5", "--out", out, "--quiet")
    assert end_of("simulate", *assignments, *other) == 0
    second = fedlearn.load(out)
    assert second.settings.model.initial_sha256 == second.summary["initial"] == first.sha
    again = fedlearn.run(
        initial=fedlearn.load(first.folder), settings={**CHEAP, **LINEAR}, strategy="fedadam", compression="drop:0.5",
        out=str(tmp_path / "third"), progress=False,
    )  # fmt: skip
    assert again.sha256 == second.sha256


def test_resume_needs_the_file_no_more_and_names_the_way_to_another_strategy(tmp_path, undisturbed, capsys):
    begun = tmp_path / "begun.safetensors"
    begun.write_bytes((undisturbed({"model.name": "linear"}).folder / "model.safetensors").read_bytes())
    settings = {**CHEAP, **LINEAR, "rounds.total": 1}
    run = fedlearn.run(initial=begun, settings=settings, out=str(tmp_path / "run"), progress=False)
    begun.unlink()
    assert end_of("simulate", "--resume", run.folder, "--rounds", 2, "--quiet") == 0
    assert end_of("simulate", "--resume", run.folder, "--rounds", 3, "--strategy", "fedadam") == 2
    assert f"start another run from its model, by --from {run.folder}" in capsys.readouterr().err
    assert end_of("simulate", "--resume", run.folder, "--from", run.folder) == 2
    assert "--from and --resume" in capsys.readouterr().err
