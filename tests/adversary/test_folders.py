"""A sample of the spoiled folders, and that a reader that is not careful is found."""

from __future__ import annotations

import subprocess
import sys

import pytest

FOLDERS = 6
CARELESS = """
import random, tempfile
from pathlib import Path
from fedlearn.runs import stored_round
from tests.adversary import crashes, folders

stored_round.read_part = lambda folder, name, digest, **_: (folder / name).read_bytes()
crashes.flower.enter_run()
with tempfile.TemporaryDirectory() as place:
    spoiled = folders.Spoiled(Path(place))
    (state,) = spoiled.interrupted.glob("checkpoint/*.state.safetensors")
    name = str(state.relative_to(spoiled.interrupted))
    for seed in range(4):
        print(*spoiled.tried(spoiled.interrupted, name, "flipped", random.Random(seed), only="resume"))
"""


def output_of(*command):
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)


def test_a_spoiled_folder_resumes_to_the_right_bytes_or_in_one_line():
    ended = output_of("-m", "tests.adversary.folders", "--folders", str(FOLDERS), "--only", "resume")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.startswith(f"folders={FOLDERS} ") and ended.stdout.endswith("found=0\n")


@pytest.mark.long
def test_a_reader_that_compares_no_checksum_is_found():
    assert "is other" in output_of("-c", CARELESS).stdout
