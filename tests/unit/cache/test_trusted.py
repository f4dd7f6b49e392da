"""Where the cache may lie."""

from __future__ import annotations

import pwd

from fedlearn.cache.trusted import cache_folder, cache_folders


def test_user_without_a_name_and_a_home_is_served_by_the_named_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    monkeypatch.setenv("FEDLEARN_CACHE", str(tmp_path))
    assert cache_folders() == [tmp_path]
    assert cache_folder() == tmp_path
