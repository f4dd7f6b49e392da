"""What a setting means and the names that it takes, read from the text of files.

A table of names stands where its plugins are, and importing it would import Flower or torch: too dear for ``--help``,
or for what a shell asks at each press of the tab key. A table is a literal, so its file is read. What settings mean is
read so, too: pydantic would, whenever the schema is imported, and take longer for it than for all else of the schema.
"""

from __future__ import annotations

import ast
from functools import cache
from inspect import cleandoc
from itertools import pairwise
from types import MappingProxyType
from typing import Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from fedlearn.config.schema import RunConfig, Settings
from fedlearn.plugging.own_packages import ROOT

TABLES = MappingProxyType(
    {
        "rounds.schedule": "server/schedules/__init__.py:SCHEDULES",
        "rounds.selector": "server/selectors/__init__.py:SELECTORS",
        "data.dataset": "fedlearn/data/loading.py:DATASETS",
        "data.partition": "fedlearn/data/partitioning.py:PARTITIONS",
        "model.name": "fedlearn/models/__init__.py:MODELS",
        "model.loss": "fedlearn/models/objectives.py:OBJECTIVES",
        "training.learner": "client/learners/__init__.py:LEARNERS",
        "training.lr_schedule": "client/learners/rates.py:LR_SCHEDULES",
        "training.optimizer": "client/learners/optimizers.py:OPTIMIZERS",
        "compression.codec": "fedlearn/compression/__init__.py:CODECS",
        "strategy.name": "strategies/__init__.py:STRATEGIES",
        "strategy.steps": "fedlearn/folding/steps.py:FOLD_STEPS",
        "devices.name": "fedlearn/devices/loading.py:DEVICES",
        "engine.name": "fedlearn/engine/__init__.py:ENGINES",
        "--log": "fedlearn/report/listeners/__init__.py:LISTENERS",
    }
)
"""Setting -> ``file:NAME`` of its table; ``--log`` is a flag alone."""


@cache
def names_of(setting: str) -> tuple[str, ...]:
    """Return the names that a setting takes, in the order of their table; none of a setting that takes any value.

    >>> names_of("compression.send"), names_of("training.lr")
    (('weights', 'update'), ())
    """
    if setting in TABLES:
        return _read(TABLES[setting])
    kind = field_of(setting).annotation
    return tuple(map(str, get_args(kind))) if get_origin(kind) is Literal else ()


def field_of(setting: str) -> FieldInfo:
    """Return the declaration of a setting; KeyError if there is none."""
    settings, key = _table_of(setting)
    return settings.model_fields[key]


def meaning_of(setting: str) -> str:
    """Return what stands below a setting in the schema; KeyError if there is no such setting.

    >>> meaning_of("training.batch_size")
    'Examples in one SGD step.'
    """
    settings, key = _table_of(setting)
    return _meanings()[settings.__name__, key]


def _table_of(setting: str) -> tuple[type[Settings], str]:
    """Return the table that has a setting, and the setting's name in it."""
    settings: type[Settings] = RunConfig
    *tables, key = setting.split(".")
    for table in tables:
        kind = settings.model_fields[table].annotation
        assert isinstance(kind, type)
        settings = kind
    return settings, key


@cache
def _meanings() -> dict[tuple[str, str], str]:
    """Return the text below each setting of the schema, by its table and name."""
    found = {}
    for table in _statements("fedlearn/config/schema.py"):
        if not isinstance(table, ast.ClassDef):
            continue
        for pair in pairwise(table.body):
            match pair:
                case ast.AnnAssign(target=ast.Name(key)), ast.Expr(ast.Constant(str(text))):
                    found[table.name, key] = cleandoc(text).replace("\n", " ")
    return found


def _statements(path: str) -> list[ast.stmt]:
    return ast.parse((ROOT / path).read_text(encoding="utf-8")).body


def _read(table: str) -> tuple[str, ...]:
    """Return the keys of the first dictionary in the statement that makes a table."""
    path, _, name = table.partition(":")
    for statement in _statements(path):
        match statement:
            case ast.Assign(targets=[ast.Name(found)]) | ast.AnnAssign(target=ast.Name(found)) if found == name:
                (made, *_) = (part for part in ast.walk(statement) if isinstance(part, ast.Dict))
                return tuple(ast.literal_eval(key) for key in made.keys if key is not None)
    raise LookupError(f"{path} makes no table {name}")
