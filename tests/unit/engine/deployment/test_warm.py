"""An executor learns from its tasks what to import."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from fedlearn.engine.deployment.warm import Learned
from fedlearn.flower.runtime import Input
from fedlearn.plugins import own_packages
from fedlearn.plugins.own_packages import OURS

ROOT = Path(__file__).parents[4]


def given(files: dict[str, bytes]) -> Input:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as bundle:
        for name, data in files.items():
            bundle.writestr(name, data)
    return Input(buffer.getvalue(), "hash", {}, b"", 60.0)


@pytest.fixture
def ours():
    return {name: (ROOT / name).read_bytes() for name in ("client/app.py", "fedlearn/wire/arrays.py")}


def test_a_bundle_of_the_same_files_is_ours(ours):
    assert Learned().is_ours(given({**ours, "pyproject.toml": b"whatever"}))


def test_a_bundle_with_another_byte_or_another_module_is_not(ours):
    assert not Learned().is_ours(given({**ours, "client/app.py": ours["client/app.py"] + b"\n"}))
    assert not Learned().is_ours(given({**ours, "client/new_module.py": b""}))


ABOUT = b'[tool.flwr.app.components]\nclientapp = "client.app:app"\n'


def test_a_bundle_is_nothing_else_if_it_runs_our_app_and_brings_no_other_code(ours):
    learned, sound = Learned(), {**ours, "pyproject.toml": ABOUT, "LICENSE": b"", ".info/CONTENT": b""}
    assert learned.is_nothing_else(given(sound))
    for change in (
        {"client/app.py": ours["client/app.py"] + b"\n"},
        {"evil.py": b""}, {"client/evil.so": b""}, {"client/evil.pyc": b""},
        {"pyproject.toml": ABOUT.replace(b"client.app:app", b"os:system")}, {"pyproject.toml": b"clientapp ="},
        {"pyproject.toml": b""}, {"pyproject.toml": b"tool = 3"},
    ):  # fmt: skip
        assert not learned.is_nothing_else(given(sound | change)), change


def test_a_bundle_that_bears_the_hash_of_ours_is_looked_at_all_the_same(ours):
    learned = Learned()
    learned.learn("hash", is_ours=True, run_config={})
    assert not learned.is_nothing_else(given({**ours, "pyproject.toml": ABOUT, "evil.py": b""}))


def test_it_warms_up_once_for_each_settings_of_an_app_of_ours():
    learned = Learned()
    settings = {"clients": 2, "data.dataset": "digits"}
    assert not learned.learn("other", is_ours=False, run_config=settings)
    assert learned.learn("ours", is_ours=True, run_config=settings)
    assert learned.warm_up()
    assert not learned.learn("ours", is_ours=True, run_config=settings)
    assert learned.learn("ours", is_ours=True, run_config=settings | {"seed": 2})


def test_settings_that_cannot_be_loaded_do_not_end_the_executor(caplog):
    learned = Learned()
    learned.learn("ours", is_ours=True, run_config={"data.dataset": "no-such"})
    assert not learned.warm_up()
    assert "no-such" in caplog.text


def test_another_app_is_imported_from_its_own_files_in_a_process_that_had_ours(tmp_path):
    (tmp_path / "client").mkdir()
    (tmp_path / "client" / "__init__.py").touch()
    (tmp_path / "client" / "app.py").write_text("app = 'the other one'")
    program = (
        "import sys; from fedlearn.engine import apps; from fedlearn.engine.deployment import warm\n"
        "apps.load_client_app(); warm.forget_ours(); sys.path.insert(0, sys.argv[1])\n"
        "import client.app; print(client.app.app)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "the other one\n", done.stderr


@pytest.mark.long
def test_a_client_runs_the_app_of_a_server_of_a_newer_version(tmp_path):
    for name in OURS:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    app = tmp_path / "client" / "app.py"
    app.write_text(f"{app.read_text()}\nIS_NEWER = True\n")
    program = (
        "import sys; from fedlearn.engine.deployment import warm; warm.import_libraries(server=False)\n"
        "warm.forget_ours(); sys.path.insert(0, sys.argv[1]); import client.app, fedlearn.engine.apps as apps\n"
        "apps.load_client_app(); import client.request, strategies, fedlearn.client.memory\n"
        "print(client.app.IS_NEWER, *{m.__file__[: len(sys.argv[1])] for n, m in sys.modules.items()\n"
        "      if n.partition('.')[0] in ('fedlearn', 'client', 'strategies') and getattr(m, '__file__', None)})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout == f"True {tmp_path}\n", done.stderr


def test_a_fedlearn_beside_another_that_has_claimed_its_names_says_so(monkeypatch):
    other = type("_First", (), {"find_spec": lambda *_: None})()
    monkeypatch.setattr(sys, "meta_path", [other, *sys.meta_path])
    with pytest.raises(ImportError, match="is of another version than the server's app"):
        own_packages.claim()
