"""The one door through which private answers leave, so that the exact audit can stand in it.

Every mechanism is `heard`. As long as nobody listens it is the mechanism and nothing else.
`fedlearn.privacy.audit.replay` listens while it fits an estimator on two neighboring data sets: it sees what was asked,
and gives both the same answer.
Noise that is drawn past this door shows, too: what is published then differs although all answers are the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
Answer = TypeVar("Answer")
Listener: TypeAlias = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def heard(mechanism: Callable[P, Answer]) -> Callable[P, Answer]:
    """Return the mechanism; while somebody listens, the listener answers instead."""

    @functools.wraps(mechanism)
    def ask(*args: P.args, **kwargs: P.kwargs) -> Answer:
        listener = _listener.get()
        if listener is None:
            return mechanism(*args, **kwargs)
        answer: Answer = listener(mechanism, args, kwargs)
        return answer

    return ask


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Let the listener answer for every mechanism: it gets the mechanism, its arguments, and its keyword arguments."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
