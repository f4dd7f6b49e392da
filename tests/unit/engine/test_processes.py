from __future__ import annotations

import gc

import pytest

from fedlearn.engine.processes import importing


@pytest.fixture(autouse=True)
def _thawed():
    yield
    gc.unfreeze()
    gc.enable()


def test_garbage_is_looked_for_again_after_importing_and_not_in_what_is_held():
    gc.unfreeze()
    with importing():
        assert not gc.isenabled()
        held = [[] for _ in range(100)]
    assert gc.isenabled()
    assert gc.get_freeze_count() > 100
    assert not any(each is held for each in gc.get_objects())  # frozen: no collection looks at it


def test_garbage_is_looked_for_again_where_importing_fails():
    with pytest.raises(ImportError), importing():
        raise ImportError("there is no such module")
    assert gc.isenabled()
