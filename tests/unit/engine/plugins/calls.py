"""Functions that workers call."""

import os
import signal
import time
from pathlib import Path

from fedlearn.core.errors import SettingError


def total(settings, state, plus):
    return float(state["w"].sum() + plus)


def echo(settings, state, data):
    return data


def dies(settings, state, _):
    os._exit(3)


def dies_once(settings, state, mark):
    try:
        Path(mark).touch(exist_ok=False)
    except FileExistsError:
        return True
    os._exit(3)


class _Long:
    """Pickled as a long string; the process comes to an `end` when some of it has been sent."""

    def __init__(self, mark, end):
        self.mark, self.end = mark, end

    def __reduce__(self):
        if not Path(self.mark).exists():
            Path(self.mark).touch()
            import threading

            threading.Timer(0.3, self.end).start()
            from multiprocessing.connection import Connection

            whole = Connection._send

            def slowly(self, buf):
                for start in range(0, len(buf), 100_000):
                    whole(self, buf[start : start + 100_000])
                    time.sleep(0.1)

            Connection._send = slowly
        return bytes, (bytes(5_000_000),)


def dies_while_it_answers(settings, state, mark):
    return _Long(mark, lambda: os._exit(3))


def stops_while_it_answers(settings, state, mark):
    return _Long(mark, lambda: os.kill(os.getpid(), signal.SIGSTOP))


def bad_setting(settings, state):
    raise SettingError("model.name", "x", "choose another")


def divides_by_zero(settings, state):
    return 1 / 0


def hangs(settings, state):
    time.sleep(3600)


def slow(settings, state):
    time.sleep(0.15)
    return "slow"


def hangs_once(settings, state, mark):
    try:
        Path(mark).touch(exist_ok=False)
        time.sleep(3600)
    except FileExistsError:
        return "ended"


def hangs_again(settings, state, mark):
    try:
        Path(mark).touch(exist_ok=False)
    except FileExistsError:
        time.sleep(3600)


def around(settings, state):
    return os.environ.get("COLOR"), str(Path.cwd())


def waits_for(settings, state, path):
    while not Path(path).exists():
        time.sleep(0.01)
    return "waited"
