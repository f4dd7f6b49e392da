"""Python's, NumPy's and torch's own random generators, seeded while foreign code runs.

Ours draws from none of them (`seeding.py`). Flower's strategies, mods and apps do: while they run, these generators
stand where a seed puts them, and afterwards where they stood before. The code around that call sees no change.

Without a seed they are set by the operating system's randomness, each time: processes that are forked from one another
would else draw the same noise, which could be subtracted.
"""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from fedlearn.words.seeding import seed_for


class _Lent:
    """One generator, whatever its kind."""

    def __init__(
        self, state: Callable[[], Any], restore: Callable[[Any], object], seed: Callable[[int | None], object]
    ) -> None:
        self.state = state
        self.restore = restore
        self.seed = seed


@contextmanager
def restored_globals() -> Iterator[None]:
    """Put the process's own generators back, after the block, to where they stood before it.

    >>> with restored_globals():
    ...     first = random.random()
    >>> first == random.random()
    True
    """
    before = [(lent, lent.state()) for lent in _globals()]
    try:
        yield
    finally:
        for lent, state in before:
            lent.restore(state)


@contextmanager
def seeded_globals(seed: int | None, held: Iterable[object] = ()) -> Iterator[Callable[[], bool]]:
    """Lend the process's own generators to the block, which may ask whether anything was drawn from them so far.

    Parameters
    ----------
    seed
        Where the generators begin; None: at an unpredictable place, another each time.
    held
        Generators that the foreign code has for itself (`generators_in`). With a seed they begin there, too: so what
        they draw in round 3 is the same after a resume. Without one they go on as they are.

    Examples
    --------
    >>> with seeded_globals(7) as drew:
    ...     first = (drew(), random.random(), np.random.normal(), drew())
    >>> with seeded_globals(7) as drew:
    ...     first == (drew(), random.random(), np.random.normal(), drew())
    True
    """
    globals_ = _globals()
    theirs = [_lent(generator) for generator in held]
    with restored_globals():
        for index, lent in enumerate(globals_ if seed is None else [*globals_, *theirs]):
            lent.seed(None if seed is None else seed_for(seed, purpose=f"generator {index}"))
        everything = [*globals_, *theirs]
        begun = [lent.state() for lent in everything]
        yield lambda: [*map(pickle.dumps, begun)] != [pickle.dumps(lent.state()) for lent in everything]


def generators_in(holder: object, *, into: type[Any] | tuple[type[Any], ...] = ()) -> list[object]:
    """Return the random generators among an object's attributes, and those of what it holds of the kinds `into`.

    >>> from types import SimpleNamespace
    >>> len(generators_in(SimpleNamespace(rng=np.random.default_rng(), name="x")))
    1
    """
    found: list[object] = []
    for value in vars(holder).values():
        if is_generator(value):
            found.append(value)
        elif into and isinstance(value, into):
            found += generators_in(value, into=into)
    return found


def is_generator(value: object) -> bool:
    """Return whether an object is a random generator that a seed can put somewhere: the system's own is none."""
    return isinstance(value, _kinds()) and not isinstance(value, random.SystemRandom)


def _kinds() -> tuple[type[Any], ...]:
    torch = sys.modules.get("torch")
    kinds: tuple[type[Any], ...] = (random.Random, np.random.Generator, np.random.RandomState)
    return (*kinds, torch.Generator) if torch is not None else kinds


def _globals() -> list[_Lent]:
    """Return the global generators of Python, NumPy and, where it has been imported, torch."""
    lent = [
        _Lent(random.getstate, random.setstate, random.seed),
        _Lent(np.random.get_state, np.random.set_state, lambda seed: np.random.seed(_words(seed))),
    ]
    torch = sys.modules.get("torch")
    return lent if torch is None else [*lent, _lent(torch.default_generator), *_of_gpus(torch)]


def _of_gpus(torch: Any) -> list[_Lent]:
    """Return one for all GPUs, if anything of this process has used one so far: asking them takes seconds."""
    if not torch.cuda.is_initialized():
        return []
    cuda = torch.cuda
    return [
        _Lent(cuda.get_rng_state_all, cuda.set_rng_state_all,
              lambda seed: cuda.seed_all() if seed is None else cuda.manual_seed_all(seed))
    ]  # fmt: skip


def _lent(generator: Any) -> _Lent:
    if isinstance(generator, random.Random):
        return _Lent(generator.getstate, generator.setstate, generator.seed)
    if isinstance(generator, np.random.RandomState):
        return _Lent(generator.get_state, generator.set_state, lambda seed: generator.seed(_words(seed)))
    if isinstance(generator, np.random.Generator):
        bits: Any = generator.bit_generator

        def put(state: Any) -> None:
            bits.state = state

        return _Lent(lambda: bits.state, put, lambda seed: put(type(bits)(seed).state))
    return _Lent(
        lambda: generator.get_state().numpy(),
        lambda state: generator.set_state(sys.modules["torch"].from_numpy(state)),
        lambda seed: generator.seed() if seed is None else generator.manual_seed(seed),
    )


def _words(seed: int | None) -> list[int] | None:
    """Return a seed as NumPy's older generator takes it."""
    return None if seed is None else [seed & 0xFFFFFFFF, seed >> 32]
