"""An engine takes options of its own from its signature, and refuses others in one line."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from fedlearn.commands.shared import run_settings
from fedlearn.config import config_from
from fedlearn.core.errors import SettingError
from fedlearn.engine import Engine, load_engine
from fedlearn.engine.ray_runtime import run as run_on_ray
from fedlearn.plugins.tables import ENGINES
from fedlearn.runs.folder import RunFolder

seen = []


def slurm(settings, *, partition: str = "long", minutes: int = 60) -> None:
    seen.append((partition, minutes))


@pytest.fixture
def given():
    seen.clear()
    return lambda **options: config_from({f"engine.options.{name}": value for name, value in options.items()})


def test_options_arrive_as_keyword_arguments(given):
    Engine(slurm)(given(minutes=5))
    Engine(slurm)(given())
    assert seen == [("long", 5), ("long", 60)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"minute": 5}, r"engine\.options\.minute = 5: there is no such option; did you mean minutes"),
        ({"minutes": "soon"}, r"engine\.options\.minutes = 'soon': expected a whole number"),
        ({"settings": 1}, r"engine\.options\.settings = 1: there is no such option"),
    ],
)
def test_wrong_option_is_refused_before_the_engine_runs(given, options, said):
    with pytest.raises(SettingError, match=said):
        Engine(slurm)(given(**options))
    assert not seen


@pytest.mark.parametrize("options", [{"client_cpus": 0}, {"client_gpus": -1}, {"address": 3}])
def test_options_of_ray_have_ranges(given, options):
    with pytest.raises(SettingError, match=r"engine\.options\."):
        Engine(run_on_ray)(given(**options))


def test_warm_engine_checks_options_too(given):
    @contextmanager
    def warm():
        yield lambda settings: seen.append("warm")

    with Engine(slurm, warm=warm).kept_warm() as engine:
        engine(given())
        with pytest.raises(SettingError, match="there are no options here"):
            engine(given(minutes=5))
    assert seen == ["warm"]


def test_function_from_outside_becomes_an_engine():
    engine = load_engine(f"{__name__}:slurm")
    assert (engine.run.__name__, engine.stacks, engine.forks) == ("slurm", False, False)


def test_rows_say_what_engines_can_do():
    can = {name: (load_engine(name).stacks, load_engine(name).forks) for name in ENGINES}
    assert can == {"embedded": (True, True), "inline": (True, False), "ray": (False, False)}


@pytest.mark.parametrize(("engine", "kept"), [("ray", '{"client_cpus": 0.5}'), ("inline", "")])
def test_run_that_goes_on_with_another_engine_leaves_the_options_of_the_first(tmp_path, engine, kept):
    begun = config_from({"engine.name": "ray", "engine.options.client_cpus": 0.5, "out": str(tmp_path)})
    RunFolder(tmp_path).write_settings(begun)
    assert run_settings({"engine.name": engine}, [], tmp_path).engine.options == kept
