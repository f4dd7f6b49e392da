"""Python's, NumPy's and torch's own random generators, seeded while foreign code runs.

Our own code draws from none of them (`core/seeding.py`), but strategies, mods and apps of Flower do. While such code
runs, a seed sets the state of these generators; afterwards they have the state that they had before.

Without a seed, the randomness of the operating system sets the state, anew for each call: processes that are forked
from one another would else draw the same noise, which could be subtracted.
"""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from fedlearn.core.seeding import seed_for


class _Generator:
    """A generator of any kind: how to read its state, set it, and seed it."""

    def __init__(
        self, state: Callable[[], Any], restore: Callable[[Any], object], seed: Callable[[int | None], object]
    ) -> None:
        self.state = state
        self.restore = restore
        self.seed = seed


@contextmanager
def restored_globals() -> Iterator[None]:
    """Restore the state of the process's own generators after the block.

    >>> with restored_globals():
    ...     first = random.random()
    >>> first == random.random()
    True
    """
    before = [(each, each.state()) for each in _globals()]
    try:
        yield
    finally:
        for each, state in before:
            each.restore(state)


@contextmanager
def seeded_globals(seed: int | None, others: Iterable[object] = ()) -> Iterator[Callable[[], bool]]:
    """Seed the process's own generators for the block; give it a function: whether any number was drawn so far.

    Parameters
    ----------
    seed
        Sets the state of the generators; None sets an unpredictable state, another for each call.
    others
        Generators of the foreign code itself (`generators_in`). A seed sets their state, too, so that round 3 draws
        the same numbers after a resume. Without a seed they go on as they are, and keep their state afterwards.

    Examples
    --------
    >>> with seeded_globals(7) as drew:
    ...     first = (drew(), random.random(), np.random.normal(), drew())
    >>> with seeded_globals(7) as drew:
    ...     first == (drew(), random.random(), np.random.normal(), drew())
    True
    """
    globals_ = _globals()
    theirs = [_wrapped(generator) for generator in others]
    with restored_globals():
        for index, each in enumerate(globals_ if seed is None else [*globals_, *theirs]):
            each.seed(None if seed is None else seed_for(seed, purpose=f"generator {index}"))
        everything = [*globals_, *theirs]
        begun = [each.state() for each in everything]
        yield lambda: [*map(pickle.dumps, begun)] != [pickle.dumps(each.state()) for each in everything]


def seed_globals(seed: int) -> None:
    """Seed the process's own generators, as `seeded_globals` does for a block."""
    for index, each in enumerate(_globals()):
        each.seed(seed_for(seed, purpose=f"generator {index}"))


def generators_in(holder: object, *, into: type[Any] | tuple[type[Any], ...] = ()) -> list[object]:
    """Return the random generators among the attributes of an object, and of its attributes of the types `into`.

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
    """Return whether an object is a random generator that can be seeded; the generator of the system cannot."""
    return isinstance(value, _kinds()) and not isinstance(value, random.SystemRandom)


def _kinds() -> tuple[type[Any], ...]:
    torch = sys.modules.get("torch")
    kinds: tuple[type[Any], ...] = (random.Random, np.random.Generator, np.random.RandomState)
    return (*kinds, torch.Generator) if torch is not None else kinds


def _globals() -> list[_Generator]:
    """Return the global generators of Python, NumPy and, where it has been imported, torch."""
    found = [
        _Generator(random.getstate, random.setstate, random.seed),
        _Generator(np.random.get_state, np.random.set_state, lambda seed: np.random.seed(_words(seed))),
    ]
    torch = sys.modules.get("torch")
    return found if torch is None else [*found, _wrapped(torch.default_generator), *_of_gpus(torch)]


def _of_gpus(torch: Any) -> list[_Generator]:
    """Return one generator for all GPUs, if this process has used a GPU so far: to ask them takes seconds."""
    if not torch.cuda.is_initialized():
        return []
    cuda = torch.cuda
    return [
        _Generator(cuda.get_rng_state_all, cuda.set_rng_state_all,
              lambda seed: cuda.seed_all() if seed is None else cuda.manual_seed_all(seed))
    ]  # fmt: skip


def _wrapped(generator: Any) -> _Generator:
    if isinstance(generator, random.Random):
        return _Generator(generator.getstate, generator.setstate, generator.seed)
    if isinstance(generator, np.random.RandomState):
        return _Generator(generator.get_state, generator.set_state, lambda seed: generator.seed(_words(seed)))
    if isinstance(generator, np.random.Generator):
        bits: Any = generator.bit_generator

        def put(state: Any) -> None:
            bits.state = state

        return _Generator(lambda: bits.state, put, lambda seed: put(type(bits)(seed).state))
    return _Generator(
        lambda: generator.get_state().numpy(),
        lambda state: generator.set_state(sys.modules["torch"].from_numpy(state)),
        lambda seed: generator.seed() if seed is None else generator.manual_seed(seed),
    )


def _words(seed: int | None) -> list[int] | None:
    """Return a seed as the words of 32 bits that NumPy's older generator takes."""
    return None if seed is None else [seed & 0xFFFFFFFF, seed >> 32]
