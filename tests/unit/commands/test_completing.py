"""The completions for a shell, asked as bash asks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.fixture
def offered(tmp_path):
    def offered(line: str) -> list[str]:
        program = "import sys; from fedlearn.__main__ import main; sys.argv = ['fedlearn']; main()"
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1), "_FEDLEARN_COMPLETE": "complete_bash"}
        done = subprocess.run(
            [sys.executable, "-c", program], env=os.environ | words, cwd=tmp_path, capture_output=True, text=True
        )
        assert not done.stderr
        return done.stdout.split()

    return offered


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("fedlearn s", {"simulate", "stop", "sweep", "settings", "submit", "server", "status"}),
        ("fedlearn simulate --comp", {"--compression"}),
        ("fedlearn simulate --strategy feda", {"fedavg", "fedavgm", "fedadam", "fedadagrad", "fedala"}),
        ("fedlearn simulate --compression residual,to", {"residual,top-k"}),
        ("fedlearn simulate --set compression.se", {"compression.send="}),
        ("fedlearn sweep --dataset cal", {"california"}),
        ("fedlearn settings gate.max_r", {"gate.max_ratio"}),
        ("fedlearn runs --sort sc", {"score"}),
    ],
)
def test_the_tab_key_offers(offered, line, some):
    assert set(offered(line)) == some
