"""Run folders that five earlier commits made: each opens, evaluates, and resumes to the bytes of its own code.

`older_runs/COMMIT` is what this made, with the code of that commit, beside `rows.npz`:

    fedlearn simulate --dataset rows.npz --model linear --clients 4 --cohort 3 --rounds 2 --seed 4 --lr 0.1
        --batch-size 10 --strategy fedavgm --compression drop --keep-ratio 0.5 --set training.lr_schedule=constant
        --engine inline --out COMMIT
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import fedlearn
from fedlearn.api import Run
from fedlearn.commands.verified import NO_MANIFEST, verified
from fedlearn.runs.folder import RunFolder
from tests.marked import some_long

HERE = Path(__file__).parent / "older_runs"
COMMITS = ("2ee2dcad", "7b6231f2", "a1274863", "6e82e95a", "6399d47a")  # 24, 25, 26 (two) and 28 November 2026
WITH_MANIFEST = COMMITS[-1:]
OF_TWO_ROUNDS = "e485c74b0d59b5dad4a056adc09960ae0ff086f64983326ff1c7c97747ccf61d"
OF_THREE = "de49fdec3f5235d3fab5d785bd284975a1099f6fc00320d06ba6e6db31569939"  # by each of the five commits
WEIGHTS = [-4.541102, -3.321599, 0.045822, 3.794512, 3.219888, -0.619757, -0.215649, -1.628738]  # of three rounds
ANEW = {
    "model": "linear", "clients": 4, "cohort": 3, "rounds": 2, "seed": 4, "lr": 0.1, "batch_size": 10,
    "strategy": "fedavgm", "compression": "drop", "keep_ratio": 0.5,
}  # fmt: skip


@pytest.fixture(params=some_long(COMMITS, *COMMITS[1:4]))
def older(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Return a copy of the study whose paths lead to the copy."""
    shutil.copy(HERE / "rows.npz", tmp_path)
    shutil.copytree(HERE / request.param, tmp_path / request.param)
    settings = tmp_path / request.param / "settings.toml"
    if request.param not in WITH_MANIFEST:  # a later folder knows where it was, and finds its data by itself
        settings.write_text(settings.read_text().replace("/srv/study/", f"{tmp_path}/"))
    return fedlearn.load(tmp_path / request.param)


def test_a_folder_is_small():
    sizes = [sum(file.stat().st_size for file in (HERE / each).rglob("*")) for each in COMMITS]
    assert max(sizes) < 200_000


def test_history_report_model_and_score_are_those_that_were_stored(older):
    assert list(older.history["round_number"]) == [1, 2] and older.summary["model_sha256"] == OF_TWO_ROUNDS
    assert older.report().exists()
    assert sum(each.numel() for each in older.model().parameters()) == 8
    assert older.evaluate()["accuracy"] == pytest.approx(older.history["accuracy"].iloc[-1])


@pytest.fixture(scope="module")
def comes_to_their_bytes(tmp_path_factory: pytest.TempPathFactory) -> bool:
    """Return whether this kind of processor comes to the stored bytes of the first two rounds."""
    more = {"training.lr_schedule": "constant", "engine": "inline"}
    run = fedlearn.run(dataset=str(HERE / "rows.npz"), out=tmp_path_factory.mktemp("anew") / "run", **ANEW, **more)
    return run.summary["model_sha256"] == OF_TWO_ROUNDS


def test_a_resume_comes_to_the_bytes_of_the_earlier_code(older, comes_to_their_bytes):
    """On a processor that rounds otherwise the earlier code does, too: there, equal to float32's precision."""
    three = fedlearn.run(resume=older.folder, rounds=3)
    weights = [value for each in three.model().parameters() for value in each.flatten().tolist()]
    assert weights == pytest.approx(WEIGHTS, abs=5e-6)
    assert three.summary["model_sha256"] == OF_THREE or not comes_to_their_bytes


def test_a_value_of_a_setting_that_has_moved_is_read_by_its_name_of_today(older):
    settings = older.folder / "settings.toml"
    if 'address = ""' not in settings.read_text():
        pytest.skip("made by a commit that has the names of today")
    settings.write_text(settings.read_text().replace("client_cpus = 1.0", "client_cpus = 2.0"))
    read = RunFolder(older.folder).read_settings()
    assert read["engine.options.client_cpus"] == 2.0
    assert not {"engine.address", "engine.client_cpus", "engine.options.address"} & read.keys()


def test_verify_says_what_a_folder_can_tell(older):
    found = verified(older.folder, again=False)
    assert (NO_MANIFEST in found.notes) == (older.folder.name not in WITH_MANIFEST)
    of_versions = [each for each in found.wrong if "the run had version" in each]
    assert found.wrong == of_versions and len(of_versions) >= (older.folder.name in WITH_MANIFEST)
