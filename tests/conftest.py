"""Fixtures of every test: our place in Flower's run, a cache of its own, and repeatable hypothesis examples."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from fedlearn import flower
from fedlearn.cache import trusted as files
from fedlearn.engine.processes import importing

SOON = 20  # seconds, also on a machine that is busy
AT_MOST = 2 << 30  # bytes more than there were
EXAMPLES = {"short": 20, "long": 60}  # of each property: `make test`, `make test-all`
for profile, examples in EXAMPLES.items():
    settings.register_profile(profile, max_examples=examples, deadline=None, derandomize=True, database=None)
settings.load_profile("short")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage among what tests import: a sixth of the time that takes."""
    with importing():
        return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say once, at the end, why tests were skipped, and how many for each reason."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    if reasons:
        terminalreporter.section("skipped, and why")
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count:5} {reason}")


@pytest.fixture(scope="session", autouse=True)
def in_a_run() -> None:
    """Let `Message(content, node, type)` work, as inside a ServerApp."""
    flower.enter_run()


@pytest.fixture
def at_once() -> Iterator[None]:
    """Fail where a test waits for ever, or reads a file without an end into memory."""

    def ring(_number: int, _frame: object) -> None:
        pytest.fail("it waits")  # which no code under test catches

    before, limits = signal.signal(signal.SIGALRM, ring), resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + AT_MOST, limits[1]))
    signal.alarm(SOON)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, limits)


@pytest.fixture
def adult() -> None:
    """Skip where the data folder does not hold Adult."""
    if not Path(os.environ.get("FEDLEARN_DATA", ""), "adult.parquet").is_file():
        pytest.skip("FEDLEARN_DATA does not hold adult.parquet")


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory) -> Path:
    """Keep decoded data sets out of the user's cache; once for the whole session, whose processes share them."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    folder = folder / "cache"
    folder.mkdir(mode=0o700, exist_ok=True)
    os.environ["FEDLEARN_CACHE"] = str(folder)
    return folder


@pytest.fixture(params=[errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS], ids=lambda code: errno.errorcode[code])
def no_locks(request, monkeypatch) -> None:
    """Have a disk that knows no locks."""

    def flock(*_):
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr("fcntl.flock", flock)
    files.say_once.cache_clear()


@pytest.fixture(params=[errno.EINVAL, errno.ENOTSUP], ids=lambda code: errno.errorcode[code])
def no_folder_syncs(request, monkeypatch) -> None:
    """Have a disk that syncs files, and no folders."""
    sync = os.fsync

    def fsync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(request.param, os.strerror(request.param))
        sync(descriptor)

    monkeypatch.setattr("os.fsync", fsync)
    files.say_once.cache_clear()
