"""Interception of mechanisms: every private answer goes through here, so that the exact audit can take its place.

Every mechanism is `interceptable`. Outside of `intercepted_by` the decorator changes nothing.
`fedlearn.auditing.replay` intercepts all calls while it fits an estimator on two neighboring data sets: it records
the questions, and gives both fits the same answers. Noise that is drawn without a mechanism shows, too: what is
published then differs although all answers are the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
Answer = TypeVar("Answer")
Interceptor: TypeAlias = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]

_interceptor: ContextVar[Interceptor | None] = ContextVar("interceptor", default=None)


def interceptable(mechanism: Callable[P, Answer]) -> Callable[P, Answer]:
    """Return the mechanism, whose calls an interceptor answers as long as there is one."""

    @functools.wraps(mechanism)
    def ask(*args: P.args, **kwargs: P.kwargs) -> Answer:
        interceptor = _interceptor.get()
        if interceptor is None:
            return mechanism(*args, **kwargs)
        answer: Answer = interceptor(mechanism, args, kwargs)
        return answer

    return ask


@contextmanager
def intercepted_by(interceptor: Interceptor) -> Iterator[None]:
    """Let the interceptor answer all calls of mechanisms in the block: it gets mechanism, arguments and keywords."""
    token = _interceptor.set(interceptor)
    try:
        yield
    finally:
        _interceptor.reset(token)
