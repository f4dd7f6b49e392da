"""What the examples in the docstrings of `fedlearn.api` have: an empty folder, and `run`, which is made once."""

from __future__ import annotations

from pathlib import Path

import pytest

API = Path(__file__).parent / "fedlearn" / "api"


@pytest.fixture(scope="session")
def run_of_examples(tmp_path_factory):
    """Make the run."""
    import fedlearn

    given = {"clients": 3, "data": "digits", "model": "linear", "rounds": 2, "engine": "inline", "progress": False}
    settings = {"rounds.keep_every": 1, "contributions.keep": True}
    return fedlearn.run(**given, settings=settings, out=str(tmp_path_factory.mktemp("example") / "run"))


@pytest.fixture(autouse=True)
def in_an_example(request):
    """Give an example its folder and its names."""
    if isinstance(request.node, pytest.DoctestItem) and request.node.path.parent == API:
        import fedlearn

        named = request.getfixturevalue("doctest_namespace")
        named |= {"fedlearn": fedlearn, "run": request.getfixturevalue("run_of_examples")}
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
