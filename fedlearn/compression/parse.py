"""Parses a chain as ``drop:0.1,rotate,quantize:4`` into a codec; an error names the stage and the allowed values."""

from __future__ import annotations

from typing import Any

from fedlearn.compression import anchor
from fedlearn.compression.chain import Chain
from fedlearn.compression.codec import Codec
from fedlearn.compression.stages import Role, Stage
from fedlearn.config.tables.reports import CompressionSettings
from fedlearn.core.errors import SettingError
from fedlearn.plugins.registry import Registry, call_plugin, did_you_mean

SHORT = {"ternary": ("top-k", "sign")}  # one word for several stages; the argument goes to the first


def parse_chain(text: str, settings: CompressionSettings, table: Registry) -> Codec:
    """Return the codec that a chain names.

    A single name that is not a stage, as ``identity`` or a user's own class, is a codec by itself.
    """
    words = words_in(text)
    _check_no_anchor(words, text, table.setting)
    kinds = [_kind(word, text, table) for word in words]
    if len(words) == 1 and not hasattr(kinds[0][0], "role"):
        if not hasattr(kinds[0][0], "from_settings"):
            raise SettingError(table.setting, text, "it is neither a codec nor a stage of a chain")
        if kinds[0][1]:
            raise SettingError(table.setting, text, f"{words[0].removesuffix(':' + kinds[0][1])!r} takes no argument")
        codec: Codec = call_plugin(table.setting, text, kinds[0][0].from_settings, settings)
        return codec
    stages: dict[Role, tuple[str, Stage]] = {}
    for word, (kind, argument) in zip(words, kinds, strict=True):
        _check_order(word, kind, stages, text, table.setting)
        try:
            stages[kind.role] = (word, kind.from_argument(argument, settings))
        except ValueError as error:
            raise SettingError(table.setting, text, f"stage {word!r}: {error}") from None
    return _chain(stages, text, table.setting)


def words_in(text: str) -> list[str]:
    """Return the words of a chain, one a stage: a name, or ``name:argument``; short words are written out.

    >>> words_in("residual, ternary:0.01")
    ['residual', 'top-k:0.01', 'sign']
    """
    words = []
    for word in text.split(","):
        name, colon, argument = word.strip().partition(":")
        first, *others = SHORT.get(name, (name,))
        words += [f"{first}{colon}{argument}", *others]
    return words


def split_anchor(text: str, setting: str) -> tuple[anchor.Anchor | None, str]:
    """Return the anchor that a chain begins with, None without one, and the rest of the chain.

    >>> split_anchor("anchor:50:2,eden", "compression.downlink")
    (Anchor(rounds=50, bits=2), 'eden')
    >>> split_anchor("ef21,top-k:0.1", "compression.downlink")
    (Anchor(rounds=1, bits=32), 'top-k:0.1')
    """
    word, _, rest = text.partition(",")
    name, _, argument = word.strip().partition(":")
    if name not in (anchor.NAME, anchor.MOVING):
        return None, text
    if rest.strip() in ("", "identity"):
        raise SettingError(
            setting, text, f"an anchor saves bytes where the correction to it is coded: write {word.strip()},eden"
        )
    if name == anchor.MOVING:
        if argument:
            raise SettingError(setting, text, f"stage {word.strip()!r}: {name} takes no argument: write {name},{rest}")
        return anchor.Anchor(1, 32), rest
    try:
        return anchor.Anchor.from_argument(argument), rest
    except ValueError as error:
        raise SettingError(setting, text, f"stage {word.strip()!r}: {error}") from None


def _check_no_anchor(words: list[str], text: str, setting: str) -> None:
    """Refuse an anchor that is not the first word of a chain, or stands in a chain of reports."""
    for word in words:
        if word.partition(":")[0] in (anchor.NAME, anchor.MOVING):
            is_down = setting == "compression.downlink"
            what = "it is the first word" if is_down else "clients keep an anchor of what is sent down to them"
            raise SettingError(setting, text, f"stage {word!r}: {what}: write compression.downlink = {word},eden")


def _kind(word: str, text: str, table: Registry) -> tuple[Any, str]:
    """Return the class that a word of the chain names, and its argument."""
    name, _, argument = word.partition(":")
    if name in table:
        return table.load(name), argument
    if ":" in word:  # a user's own: module:Class or module:Class:argument
        attribute, _, argument = argument.partition(":")
        try:
            return table.load(f"{name}:{attribute}"), argument
        except SettingError as error:
            if not did_you_mean(name, [*table, *SHORT]):
                raise SettingError(table.setting, text, f"stage {word!r}: {error.allowed}") from None
    choices = ", ".join([*table, *SHORT])
    which = f"stage {name!r}: " if name != text else ""
    hint = did_you_mean(name, [*table, *SHORT])
    raise SettingError(table.setting, text, f"{which}choose one of {choices}, or give module:Class{hint}")


def _check_order(word: str, kind: Any, before: dict[Role, tuple[str, Stage]], text: str, setting: str) -> None:
    if not hasattr(kind, "role"):
        raise SettingError(setting, text, f"stage {word!r} is a codec by itself: use it alone")
    for role, (other, _) in before.items():
        if role == kind.role:
            raise SettingError(setting, text, f"{other!r} and {word!r} are both a {role}: take one of them")
        if role > kind.role:
            raise SettingError(setting, text, f"{word!r} is a {kind.role}, {other!r} a {role}: write {word},{other}")


def _chain(stages: dict[Role, tuple[str, Any]], text: str, setting: str) -> Chain:
    found = {role: stage for role, (_, stage) in stages.items()}
    if why := _why_not(found, {role: word for role, (word, _) in stages.items()}):
        raise SettingError(setting, text, why)
    return Chain(
        sparsifier=found.get(Role.SPARSIFIER),
        transform=found.get(Role.TRANSFORM),
        quantizer=found.get(Role.QUANTIZER),
        entropy=found.get(Role.ENTROPY),
        keeps_residual=Role.RESIDUAL in found,
        needs_change=next((word for word, stage in stages.values() if stage.needs_change), ""),
    )


def _why_not(found: dict[Role, Any], words: dict[Role, str]) -> str:
    """Return why the stages do not work together; empty if they do."""
    sparsifier, quantizer = found.get(Role.SPARSIFIER), found.get(Role.QUANTIZER)
    if Role.TRANSFORM in found and quantizer is None:
        return f"'rotate' alone saves nothing: write {words[Role.TRANSFORM]},quantize:4"
    if Role.TRANSFORM in found and quantizer is not None and quantizer.rotates:
        return f"{words[Role.QUANTIZER]!r} rotates by itself: leave {words[Role.TRANSFORM]!r} out"
    if Role.RESIDUAL in found and sparsifier is None and quantizer is None:
        return "'residual' keeps what other stages lose: write residual,top-k:0.01"
    if Role.RESIDUAL in found and sparsifier is not None and not sparsifier.allows_residual:
        return (
            f"a residual does not go with {words[Role.SPARSIFIER]!r}, of which the unsent is no loss "
            "(drop) or the sent too large (rand-k): write residual,top-k:0.01"
        )
    return ""
