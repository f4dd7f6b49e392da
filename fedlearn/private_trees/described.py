"""Parameters and attributes that several estimators have are described once, in the class from which they derive."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import TypeVar

PARAMETERS, ATTRIBUTES = "Parameters", "Attributes"
Estimator = TypeVar("Estimator", bound=type)


def described(estimator: Estimator) -> Estimator:
    """Return a class whose docstring also describes what it has from the classes that it derives from.

    Parameters stand in the order of the signature; attributes of the class itself stand first.
    """
    if estimator.__doc__ is None:  # python -OO
        return estimator
    own, *others = (_sections(kind.__doc__) for kind in estimator.__mro__[:-1] if kind.__doc__)
    entries: dict[str, dict[str, str]] = {PARAMETERS: {}, ATTRIBUTES: {}}
    for sections in (own, *others):
        for title, found in entries.items():
            found |= {name: text for name, text in _entries(sections.get(title, "")) if name not in found}
    parameters = [entries[PARAMETERS][name] for name in inspect.signature(estimator).parameters]
    head = own.pop("")
    rest = {title: text for title, text in own.items() if title not in entries}
    whole = {PARAMETERS: "\n".join(parameters), ATTRIBUTES: "\n".join(entries[ATTRIBUTES].values()), **rest}
    estimator.__doc__ = "\n\n".join([head, *(f"{title}\n{'-' * len(title)}\n{text}" for title, text in whole.items())])
    return estimator


def _sections(documented: str) -> dict[str, str]:
    """Return the text of each section of a docstring by its title; "" = what stands before the first one."""
    first, *parts = re.split(r"^([A-Z]\w+)\n-+\n", inspect.cleandoc(documented), flags=re.MULTILINE)
    return {"": first.strip(), **{title: text.strip() for title, text in zip(parts[::2], parts[1::2], strict=True)}}


def _entries(section: str) -> Iterator[tuple[str, str]]:
    for text in filter(None, re.split(r"\n(?=\S)", section)):
        yield text.partition(" : ")[0], text
