"""Claims: each client holds another partition, and a dead one's is free again at once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fedlearn.core.errors import UsageError
from fedlearn.engine.deployment.claims import claim


@pytest.fixture
def keys(tmp_path):
    folder = tmp_path / "keys"
    folder.mkdir()
    for partition_id in range(3):
        (folder / str(partition_id)).write_text("key")
    return folder


def test_each_claim_takes_the_first_free_partition(keys, tmp_path):
    held = [claim(keys, tmp_path / "claims") for _ in range(3)]
    assert [each.partition_id for each in held] == [0, 1, 2]
    assert {each.num_partitions for each in held} == {3}
    with pytest.raises(UsageError, match="all 3 partitions are taken"):
        claim(keys, tmp_path / "claims")
    for each in held:
        os.close(each.lock)


def test_a_claim_ends_with_its_process_even_by_sigkill(keys, tmp_path):
    program = (
        "import sys, time; from pathlib import Path; from fedlearn.engine.deployment.claims import claim\n"
        "held = claim(Path(sys.argv[1]), Path(sys.argv[2])); print(held.partition_id, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", program, str(keys), str(tmp_path / "claims")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "0\n"
        with pytest.raises(UsageError, match="partition 0 is taken"):
            claim(keys, tmp_path / "claims", partition_id=0)
        other.kill()
    held = claim(keys, tmp_path / "claims", partition_id=0)
    os.close(held.lock)


def test_a_named_partition_needs_its_key(keys, tmp_path):
    with pytest.raises(UsageError, match="partition 7: there is no client key"):
        claim(keys, tmp_path / "claims", partition_id=7)


def test_without_keys_the_error_says_how_to_make_them(tmp_path):
    with pytest.raises(UsageError, match=r"run fedlearn keys on the server"):
        claim(tmp_path / "nowhere", tmp_path / "claims")


def test_without_locks_a_partition_is_taken_only_if_it_is_named(keys, tmp_path, no_locks, caplog):
    """Else two clients would be one node."""
    with pytest.raises(UsageError, match=r"--claims .*: its disk knows no locks: .* give --partition$"):
        claim(keys, tmp_path / "claims")
    held = claim(keys, tmp_path / "claims", partition_id=1)
    assert held.partition_id == 1
    assert caplog.text.count("start no second client for partition 1") == 1
    os.close(held.lock)
