from __future__ import annotations

from itertools import count

import pytest

from tests.unit.server.scripted import Scene


@pytest.fixture
def scene(tmp_path):
    """Return a function that sets up a run on a scripted grid; its files are closed afterwards."""
    scenes, numbers = [], count()

    def make(nodes, **settings) -> Scene:
        scenes.append(Scene(tmp_path / f"run{next(numbers)}", nodes, **settings))
        return scenes[-1]

    yield make
    for each in scenes:
        each.log.__exit__(None, None, None)
