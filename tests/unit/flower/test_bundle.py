"""The bundle of an app goes over the wire compressed."""

from __future__ import annotations

import io
import zipfile

from fedlearn.flower.control import deflated

FILES = {"pyproject.toml": b"[project]\n" * 400, "client/app.py": b"app = None\n" * 400, "empty/__init__.py": b""}


def test_it_holds_the_same_files_in_less_room_and_is_the_same_each_time():
    plain = io.BytesIO()
    with zipfile.ZipFile(plain, "w") as bundle:
        for name, content in FILES.items():
            bundle.writestr(zipfile.ZipInfo(name), content)
    small = deflated(plain.getvalue())
    assert len(small) < len(plain.getvalue()) / 3
    assert deflated(plain.getvalue()) == small
    with zipfile.ZipFile(io.BytesIO(small)) as made:
        assert made.testzip() is None
        assert {name: made.read(name) for name in made.namelist()} == FILES
