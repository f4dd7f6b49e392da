"""Options: the settings of one plugin, checked against the parameters of its constructor.

``strategy.options``, ``model.options`` and the like are tables: ``--set strategy.options.server_lr=0.1`` on the command
line, ``[strategy.options]`` in a file; they are stored as JSON texts (`fedlearn.config.fields`). Names, types and
ranges are those of the plugin's keyword parameters; a range is written ``Annotated[float, Field(gt=0)]``, as in the
schema.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import Any, cast, get_type_hints

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError

from fedlearn.core.errors import SettingError, quoted
from fedlearn.plugins.ranges import allowed_by, in_words

NAMED = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def options_for(
    build: Callable[..., Any],
    given: str | Mapping[str, Any],
    *,
    setting: str,
    reserved: Collection[str] = (),
    whole: bool = False,
) -> dict[str, Any]:
    """Return options as keyword arguments for the plugin that they belong to.

    Parameters
    ----------
    build
        A class or function; its keyword parameters are the options that there are.
    given
        The options, or the text in which they are stored.
    setting
        ``"strategy.options"``, for the error message.
    reserved
        Parameters that are no options: the caller gives their values.
    whole
        Whether every parameter without a default must be among the options.

    Raises
    ------
    SettingError
        For an unknown name, with the one that may have been meant, or a value of a wrong type or out of range.
    """
    try:
        parameters = inspect.signature(build).parameters
    except (TypeError, ValueError):
        raise SettingError(setting, given, f"the parameters of {quoted(build)} cannot be read: it is C code") from None
    names = [name for name, each in parameters.items() if each.kind in NAMED and name not in reserved]
    takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    checked = {}
    table = json.loads(given or "{}") if isinstance(given, str) else given
    types = _types_of(build) if table else {}
    for name, value in table.items():
        if name not in names and (name in reserved or not takes_all):
            raise SettingError(f"{setting}.{name}", value, _unknown(name, names))
        checked[name] = _checked(value, types.get(name, Any), f"{setting}.{name}")
    needed = [name for name in names if parameters[name].default is inspect.Parameter.empty] if whole else []
    if absent := [name for name in needed if name not in checked]:
        raise SettingError(f"{setting}.{absent[0]}", "", f"it is missing: write --set {setting}.{absent[0]}=VALUE")
    return checked


def _types_of(build: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of the parameters; an empty table if they cannot be resolved, as in some foreign code."""
    function = cast(Any, build).__init__ if isinstance(build, type) else build
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError):
        return {}


def _checked(value: Any, kind: Any, setting: str) -> Any:
    try:
        adapter = TypeAdapter(kind, config=ConfigDict(arbitrary_types_allowed=True))
    except (TypeError, PydanticUserError):  # a type of foreign code that pydantic cannot check
        return value
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        raise SettingError(setting, value, allowed_by(error, in_words(kind))) from None


def _unknown(name: str, names: Collection[str]) -> str:
    if not names:
        return "there are no options here"
    close = get_close_matches(name[:100], names, n=1, cutoff=0.5)
    return f"there is no such option{f'; did you mean {close[0]}?' if close else ''}; choose of {', '.join(names)}"
