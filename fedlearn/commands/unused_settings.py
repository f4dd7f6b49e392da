"""Settings that were given and have no effect, or not the whole effect: each is one line, before the run.

Only settings of a command line are looked at: a file of settings may hold all that there are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from fedlearn.compression import CODECS
from fedlearn.compression.parse import words_in
from fedlearn.config import RunConfig
from fedlearn.config.baselines import replaced_by
from fedlearn.config.marks import ReadBy, ReadIf
from fedlearn.config.names import marks, setting_names
from fedlearn.core.errors import SettingError, printable
from fedlearn.models import model_spec
from fedlearn.plugins.tables import TABLES

READ_BY_ALL = ("privacy.protects", "privacy.noise")  # the second is for client.mods, too
PROTECTS_NOBODY = (
    "it protects nobody, as this run adds no noise: add --private records, or --private nodes, or take a private "
    "model, as --model dp-forest"
)
NOTHING: Mapping[str, Any] = MappingProxyType({})
SPARSIFIERS = ("drop", "rand-k", "top-k")


def unread(given: Mapping[str, Any], config: RunConfig) -> Iterator[str]:
    """Yield a line for each setting that was given in vain.

    >>> list(unread({"data.alpha": 0.5}, RunConfig()))
    ["data.alpha = 0.5 has no effect: it is for data.partition = 'dirichlet'"]
    """
    baseline = config.training.baseline
    unread_by_baseline = replaced_by(baseline)
    for name in given:
        if name in unread_by_baseline:
            yield f"{name} = {_value(config, name)!r} has no effect: it is for a federation, not its baseline"
            continue
        for reader in _readers(name):
            if not _is_there(reader, config):
                yield f"{name} = {_value(config, name)!r} has no effect: it is for {reader}"
                break
    wanted = config.rounds.cohort
    if "rounds.cohort" in given and wanted > config.clients:
        yield f"rounds.cohort = {wanted} is more than there are: all {config.clients} clients take part in each round"


def say_unread(given: Mapping[str, Any], config: RunConfig) -> None:
    """Print a line on stderr for each setting that was given in vain."""
    for line in unread(given, config):
        print(f"note: {printable(line)}", file=sys.stderr)


def check_protects(given: Mapping[str, Any], config: RunConfig, *, in_file: Mapping[str, Any] = NOTHING) -> None:
    """Refuse a setting of privacy that protects nobody: who has given it believes that the run is private.

    Parameters
    ----------
    in_file
        Settings of a file, which may hold all that there are: those that are as without it say nothing.

    Raises
    ------
    SettingError
        Naming the setting, and what to add.
    """
    if _is_private(config) or ":" in config.model.name or ":" in config.strategy.name:
        return
    before = RunConfig()
    if {name for name in setting_names() if name.startswith("privacy.")} <= given.keys():  # all settings of a run
        given, in_file = {}, {**in_file, **given}
    changed = (name for name in in_file if name in setting_names() and _value(config, name) != _value(before, name))
    for name in (*given, *changed):
        if name.startswith("privacy.") and name not in READ_BY_ALL:
            raise SettingError(name, _value(config, name), PROTECTS_NOBODY)


def _readers(name: str) -> list[ReadBy | ReadIf]:
    """Return what alone reads a setting; an empty list for a setting that every run reads, and for an option."""
    return [*marks(name, ReadIf), *marks(name, ReadBy)] if name in setting_names() else []


def _value(config: RunConfig, name: str) -> Any:
    table, _, key = name.rpartition(".")
    return getattr(getattr(config, table) if table else config, key)


def _is_there(reader: ReadBy | ReadIf, config: RunConfig) -> bool:
    """Return whether a run of these settings has a part that reads what only such a reader does."""
    if isinstance(reader, ReadBy):
        return IS_THERE[reader](config)
    chosen = _value(config, reader.setting)
    return chosen in reader.values or (reader.or_foreign and chosen not in TABLES[reader.setting])


def _grows_trees(config: RunConfig) -> bool:
    return not model_spec(config.model.name).trains_in_steps


def _is_private(config: RunConfig) -> bool:
    """Return whether nodes spend a budget; a learner from outside may spend one."""
    return model_spec(config.model.name).is_private or config.privacy.protects != "" or ":" in config.training.learner


def _trains_by_sgd(config: RunConfig) -> bool:
    """Return whether a learner of torch takes the steps; a learner from outside may read any setting."""
    return ":" in config.training.learner or not _grows_trees(config)


def _drops(config: RunConfig) -> bool:
    """Return whether a stage of the chain drops entries at random; a codec from outside may."""
    return any(name in ("drop", "rand-k") or name not in CODECS for name, _ in _stages(config))


def _drops_by_setting(config: RunConfig) -> bool:
    """Return whether a stage of the chain takes its share of entries from the settings; a codec from outside may."""
    return any((name in SPARSIFIERS and not argument) or name not in CODECS for name, argument in _stages(config))


def _stages(config: RunConfig) -> list[tuple[str, str]]:
    """Return name and argument of each stage of the codec."""
    split = (word.partition(":") for word in words_in(config.compression.codec))
    return [(name, argument) for name, _, argument in split]


IS_THERE: dict[ReadBy, Callable[[RunConfig], bool]] = {
    ReadBy.TORCH: _trains_by_sgd,
    ReadBy.TREES: _grows_trees,
    ReadBy.PRIVATE: _is_private,
    ReadBy.NOISE: lambda config: config.protects_nodes or bool(model_spec(config.model.name).sums),
    ReadBy.ATTACKS: lambda config: bool(config.attack.name),
    ReadBy.STOPS: lambda config: bool(config.stop.target or config.stop.patience),
    ReadBy.DROPS: _drops,
    ReadBy.DROPS_BY_SETTING: _drops_by_setting,
}
"""Reader -> whether a run of given settings has it."""
