"""Flower's client mods, found by the names in the setting `client.mods`.

A mod is a function ``(message, context, call_next) -> Message``, as ``flwr.clientapp.mod:fixedclipping_mod``; or a
class or function that makes a mod from options, as ``flwr.clientapp.mod:LocalDpMod``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flwr.app import Context, Message

from fedlearn.core.errors import RunFailed, SettingError
from fedlearn.plugins.listed import pairs_in
from fedlearn.plugins.options import options_for
from fedlearn.plugins.registry import load_plugin

SETTING = "client.mods"


class NamedMod:
    """A mod whose errors name it.

    Parameters
    ----------
    name
        The name in `client.mods`.
    mod
        The mod itself.
    """

    def __init__(self, name: str, mod: Any) -> None:
        self.name = name
        self._mod = mod

    def __call__(self, message: Message, context: Context, call_next: Any) -> Message:
        """Call the mod; an exception raised behind the mod is passed on unchanged."""
        behind: list[Exception] = []

        def called(message: Message, context: Context) -> Message:
            try:
                reply: Message = call_next(message, context)
                return reply
            except Exception as error:
                behind.append(error)
                raise

        try:
            reply = self._mod(message, context, called)
        except Exception as error:
            if error in behind:
                raise
            raise RunFailed(f"{SETTING}: {self.name} raised {type(error).__name__}: {error}") from error
        if not isinstance(reply, Message):
            raise RunFailed(f"{SETTING}: {self.name} returned {type(reply).__name__}, expected a Message")
        return reply


def load_mods(text: str) -> list[NamedMod]:
    """Return the mods of the setting, in its order: the first is the outermost.

    Raises
    ------
    SettingError
        If a mod cannot be loaded, or made from its options.
    """
    return [NamedMod(name, _made(name, options)) for name, options in pairs_in(text)]


def _made(name: str, options: Mapping[str, Any] | None) -> Any:
    found = load_plugin(SETTING, name)
    if isinstance(found, type) or options is not None:
        try:
            found = found(**options_for(found, options or {}, setting=f"{SETTING}.{name}"))
        except (TypeError, ValueError) as error:
            raise SettingError(SETTING, name, f'{error}; write its options as {{"{name}" = {{...}}}}') from None
    if not callable(found):
        raise SettingError(SETTING, name, "it is not a mod: a mod is a function of (message, context, call_next)")
    return found
