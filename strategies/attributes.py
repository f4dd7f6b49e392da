"""What a strategy that knows nothing of us carries from round to round: those of its attributes that have changed.

| kind | what it is | for instance |
|---|---|---|
| ``table``, ``list`` | arrays | FedAdam's moments, FedAvgM's momentum |
| ``record`` | an ArrayRecord | the state that QFedAvg has sent |
| ``number`` | a number | the norm of adaptive clipping |
| ``plain`` | text, lists and tables of such, as JSON | counters by node |
| ``state`` | whatever has ``state_dict`` and ``load_state_dict``, as JSON | a privacy accountant |

Strategies that it wraps are looked through in the same way. Random generators are not stored: they begin each round
where the seed puts them (`server.strategy_rng`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import copy, deepcopy
from typing import Any

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp.strategy import Strategy

from fedlearn import wire
from fedlearn.core.state import Array

NUMBERS = (bool, int, float)
NUMPYS = (np.ndarray, np.number, np.bool_)
WHOLE = ("number", "plain", "state")  # kinds that are one array each


class Attributes:
    """The attributes of a strategy, as they were at first and as they are now.

    Parameters
    ----------
    holder
        The strategy; it has not run yet.
    """

    def __init__(self, holder: Strategy) -> None:
        self._holder = holder
        values = {name: value for name, value in vars(holder).items() if value is not holder}
        self._wrapped = {name: Attributes(value) for name, value in values.items() if isinstance(value, Strategy)}
        self._first = {name: _copied(value) for name, value in values.items() if name not in self._wrapped}

    def memory(self) -> dict[str, Array]:
        """Return them as arrays, by names of the form ``attribute/kind/key``."""
        memory = {
            f"{name}/{kind}/{key}": array
            for name, value in vars(self._holder).items()
            if name not in self._wrapped
            for kind, key, array in _stored(value, self._first.get(name))
        }
        for name, wrapped in self._wrapped.items():
            memory |= {f"{name}/wrapped/{place}": array for place, array in wrapped.memory().items()}
        return memory

    def remember(self, memory: Mapping[str, Array]) -> None:
        """Put back what `memory` returned; what had not changed by then is what it was at first."""
        groups: dict[tuple[str, str], dict[str, Array]] = {}
        for place, array in memory.items():
            name, kind, key = place.split("/", 2)
            groups.setdefault((name, kind), {})[key] = array
        for name, value in list(vars(self._holder).items()):
            if name not in self._wrapped and any(_stored(value, self._first.get(name))):
                setattr(self._holder, name, _copied(self._first.get(name)))
        for name, wrapped in self._wrapped.items():
            wrapped.remember(groups.pop((name, "wrapped"), {}))
        for (name, kind), arrays in groups.items():
            if kind == "state":
                getattr(self._holder, name).load_state_dict(_from_json(arrays[""]))
            else:
                setattr(self._holder, name, _read(kind, arrays, self._first.get(name)))


def _copied(value: object) -> object:
    return deepcopy(value) if _as_json(value) is not None else copy(value)


def _stored(value: Any, first: Any) -> Iterator[tuple[str, str, Array]]:
    """Yield (kind, key, array) of all that has to be stored of one attribute."""
    if isinstance(value, ArrayRecord):
        arrays_of = wire.unpack_arrays(value).items()  # in an order that Flower's strategies go by
        yield from (("record", f"{place:06}/{key}", array) for place, (key, array) in enumerate(arrays_of))
    elif arrays := list(_arrays_in(value)):
        yield from arrays
    elif hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        if (text := _as_json(value.state_dict())) is not None:
            yield "state", "", np.frombuffer(text.encode(), np.uint8)
    elif isinstance(value, NUMBERS) and isinstance(first, NUMBERS) and -(2**63) <= value < 2**63:
        if value != first:
            yield "number", "", np.array(value)
    elif (text := _as_json(value)) is not None and text != _as_json(first):
        yield "plain", "", np.frombuffer(text.encode(), np.uint8)


def _arrays_in(value: object) -> Iterator[tuple[str, str, Array]]:
    """Yield the arrays of a table or list, and NumPy's numbers, as which arithmetic gives back arrays of no dimension.

    Where there is nothing that JSON could not hold, nothing is yielded.
    """
    kind, entries = ("table", value.items()) if isinstance(value, dict) else ("list", enumerate(_as_list(value)))
    found = {str(key): each for key, each in entries if isinstance(each, NUMPYS)}
    if any(not isinstance(each, float) for each in found.values()):
        yield from ((kind, key, np.asarray(each)) for key, each in found.items())


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _read(kind: str, arrays: Mapping[str, Array], first: object) -> object:
    match kind:
        case "table":
            return dict(arrays)
        case "list":
            return [arrays[str(index)] for index in range(len(arrays))]
        case "record":
            return wire.pack_arrays({place.partition("/")[2]: arrays[place] for place in sorted(arrays)})
        case "number":
            number = arrays[""].item()
            return type(first)(number) if isinstance(first, float) else number
        case _:
            return _from_json(arrays[""])


def _as_json(value: object) -> str | None:
    """Return a value as JSON if it comes back from there as it was; else None."""
    try:
        text = json.dumps(value)
        return text if json.loads(text) == value else None
    except (TypeError, ValueError, RecursionError):
        return None


def _from_json(stored: Array) -> Any:
    return json.loads(stored.tobytes())
