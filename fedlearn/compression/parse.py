"""``drop:0.1,rotate,quantize:4`` -> a codec, with errors that name the stage and say what is allowed."""

from __future__ import annotations

from typing import Any

from fedlearn.compression.base import Codec
from fedlearn.compression.chain import Chain
from fedlearn.compression.stages import Role, Stage
from fedlearn.config.schema import CompressionSettings
from fedlearn.errors import SettingError
from fedlearn.registry import Registry

SETTING = "compression.codec"


def parse_chain(text: str, settings: CompressionSettings, table: Registry) -> Codec:
    """Return the codec that a chain names.

    A name alone that is no stage, as ``identity`` or a class of somebody else's, is a codec by itself.
    """
    words = [word.strip() for word in text.split(",")]
    kinds = [_kind(word, text, table) for word in words]
    if len(words) == 1 and not hasattr(kinds[0][0], "role"):
        codec: Codec = kinds[0][0].from_settings(settings)
        return codec
    stages: dict[Role, tuple[str, Stage]] = {}
    for word, (kind, argument) in zip(words, kinds, strict=True):
        _check_order(word, kind, stages, text)
        try:
            stages[kind.role] = (word, kind.from_argument(argument, settings))
        except ValueError as error:
            raise SettingError(SETTING, text, f"stage {word!r}: {error}") from None
    return _chain(stages, text)


def _kind(word: str, text: str, table: Registry) -> tuple[Any, str]:
    """Return the class that a word of the chain names, and its argument."""
    name, _, argument = word.partition(":")
    if name in table:
        return table.load(name), argument
    if ":" in word:  # somebody else's: module:Class or module:Class:argument
        attribute, _, argument = argument.partition(":")
        return table.load(f"{name}:{attribute}"), argument
    choices = ", ".join(table)
    which = f"stage {word!r}: " if word != text else ""
    raise SettingError(SETTING, text, f"{which}choose one of {choices}, or give module:Class")


def _check_order(word: str, kind: Any, before: dict[Role, tuple[str, Stage]], text: str) -> None:
    if not hasattr(kind, "role"):
        raise SettingError(SETTING, text, f"stage {word!r} is a codec by itself: use it alone")
    for role, (other, _) in before.items():
        if role == kind.role:
            raise SettingError(SETTING, text, f"{other!r} and {word!r} are both a {role}: take one of them")
        if role > kind.role:
            raise SettingError(SETTING, text, f"{word!r} is a {kind.role}, {other!r} a {role}: write {word},{other}")


def _chain(stages: dict[Role, tuple[str, Any]], text: str) -> Chain:
    found = {role: stage for role, (_, stage) in stages.items()}
    if Role.TRANSFORM in found and Role.QUANTIZER not in found:
        word = stages[Role.TRANSFORM][0]
        raise SettingError(SETTING, text, f"{word!r} saves nothing by itself: write {word},quantize:4")
    return Chain(
        sparsifier=found.get(Role.SPARSIFIER),
        transform=found.get(Role.TRANSFORM),
        quantizer=found.get(Role.QUANTIZER),
        entropy=found.get(Role.ENTROPY),
        keeps_residual=Role.RESIDUAL in found,
        needs_change=next((word for word, stage in stages.values() if stage.needs_change), ""),
    )
