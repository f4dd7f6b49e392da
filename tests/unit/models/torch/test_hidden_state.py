"""Values beside the state are found, wherever they are kept, and reset."""

from __future__ import annotations

import itertools
import random
import threading
from collections import deque
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from fedlearn.models.torch.hidden_state import Beside

COUNT = 0
SEEN: list[int] = []


class Meter:
    def __init__(self):
        self.n = 0


class Slotted:
    __slots__ = ("n",)

    def __init__(self):
        self.n = 0


class Counting(nn.Module):
    calls = 0

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.n, self.meter, self.slotted = 0, Meter(), Slotted()
        self.list, self.dict, self.set, self.deque = [0], {"n": 0}, {0}, deque([0])
        self.array, self.tensor, self.nested = np.zeros(2), torch.zeros(2), ([{"n": [0]}],)
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("buffer", torch.zeros(2), persistent=False)
        self.register_buffer("later", None)
        self.closure, self.partial = closure(), partial(default, meter=Meter())
        self.optimizer = torch.optim.SGD(self.layer.parameters(), 1.0, momentum=0.9)
        self.ring = [self]  # leads back

    def count_globally(self):
        global COUNT
        COUNT += 1
        SEEN.append(COUNT)


def closure():
    n = 0

    def counted():
        nonlocal n
        n += 1
        return n

    return counted


def default(step=0, seen=[], *, meter):  # noqa: B006
    seen.append(step)
    meter.n += 1
    default.calls = len(seen)
    return meter.n, len(seen)


def train(module):
    module.layer(torch.ones(1, 2)).sum().backward()
    module.optimizer.step()


CHANGES = {
    "n": lambda it: setattr(it, "n", 7),
    "new": lambda it: setattr(it, "new", 7),
    "meter.n": lambda it: setattr(it.meter, "n", 7),
    "slotted.n": lambda it: setattr(it.slotted, "n", 7),
    "list": lambda it: it.list.append(7),
    "dict.n": lambda it: it.dict.update(n=7),
    "set": lambda it: it.set.add(7),
    "deque": lambda it: it.deque.append(7),
    "array": lambda it: it.array.__iadd__(7),
    "tensor": lambda it: it.tensor.add_(7),
    "nested.n": lambda it: it.nested[0][0]["n"].append(7),
    "dropout.p": lambda it: setattr(it.dropout, "p", 0.7),
    "buffer": lambda it: it.buffer.add_(7),
    "later": lambda it: setattr(it, "later", torch.ones(1)),
    "closure": lambda it: it.closure(),
    "partial": lambda it: it.partial(),
    "calls": lambda it: setattr(Counting, "calls", 7),
    f"{__name__}.COUNT": lambda it: it.count_globally(),
    "optimizer.state": train,
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_module_keeps_is_named_and_put_back(name):
    module = Counting()
    beside = Beside({"": module}, without=module.state_dict(keep_vars=True).values())
    assert beside.is_foreign
    assert beside.changed() == []
    CHANGES[name](module)
    assert any(each.startswith(name) for each in beside.changed()), beside.changed()
    beside.put_back()
    assert beside.changed() == []


def test_globals_of_a_script_that_its_functions_only_read_are_the_scripts_own(monkeypatch):
    for name in ("meter", "READ"):  # an attribute of the module is called like the first
        monkeypatch.setitem(globals(), name, 1)
    module = Counting()
    module.uses = lambda: (module.meter, READ)  # noqa: F821
    beside = Beside({"": module})
    for name in ("meter", "READ"):
        globals()[name] = 2
    assert beside.changed() == []
    beside.put_back()
    assert (meter, READ) == (2, 2)  # noqa: F821


def test_contents_are_put_back_in_place():
    module = Counting()
    elsewhere, buffer = module.list, module.buffer
    beside = Beside({"": module})
    module.list = [5]
    elsewhere.append(7)
    module.buffer = module.buffer + 1
    beside.put_back()
    assert (module.list, elsewhere) == ([0], [0])
    assert module.list is elsewhere
    assert module.buffer is buffer


def with_effects(base):
    """Return a class of containers each of whose methods fails, as a mapping that imports what it is asked for may."""

    def fail(self, *_):
        raise AssertionError("a method of the user's was called")

    names = ("iter", "len", "getitem", "setitem", "delitem", "eq")
    methods = {**{f"__{name}__": fail for name in names}, "keys": fail, "get": fail, "items": fail, "copy": fail}
    return type("Lazy", (base,), {**methods, "__hash__": None})


@pytest.mark.parametrize(
    ("base", "put"), [(dict, dict.setdefault), (list, list.append), (set, set.add), (deque, deque.append)]
)
def test_containers_whose_methods_have_effects_are_read_by_pythons_own(base, put):
    module = nn.Identity()
    module.kept = with_effects(base)()
    beside = Beside({"": module})
    assert beside.changed() == []
    put(module.kept, "a")
    assert beside.changed()
    beside.put_back()
    assert beside.changed() == [] and not [*base.__iter__(module.kept)]


def test_tensor_of_another_shape_is_put_back():
    module = Counting()
    beside = Beside({"": module})
    module.tensor.data = torch.ones(5)
    beside.put_back()
    assert module.tensor.tolist() == [0, 0]


def test_generators_are_listed_and_the_systems_own_is_none():
    module = nn.Identity()
    module.ours, module.theirs = np.random.default_rng(), random.Random()
    module.systems, module.torchs = random.SystemRandom(), torch.Generator()
    assert Beside({"": module}).generators == [module.ours, module.theirs, module.torchs]


def test_torchs_own_modules_are_not_foreign():
    assert not Beside({"": nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.LSTM(2, 2))}).is_foreign


def test_while_it_is_left_nothing_is_put_back():
    module = Counting()
    beside = Beside({"": module})
    module.n, beside.is_left = 7, True
    beside.put_back()
    assert module.n == 7


def test_the_list_of_threads_is_pythons_own():
    class Waits(nn.Module):
        def forward(self, x):
            return x if threading.current_thread() is threading.main_thread() else -x

        thread = threading.Thread

    beside = Beside({"": Waits()})
    with_one, ends = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: (with_one.set(), ends.wait(10)))
    thread.start()
    with_one.wait(10)
    beside.put_back()
    is_listed = thread in threading.enumerate()
    ends.set()
    thread.join()
    assert is_listed


def test_what_cannot_be_seen_is_left_alone():
    module = nn.Identity()
    module.iterator, module.lock = itertools.count(), threading.Lock()
    beside = Beside({"": module})
    next(module.iterator)
    beside.put_back()
    assert beside.changed() == []
