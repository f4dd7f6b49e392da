"""SharedSlots: arrays that two processes see, and that are freed when both have ended."""

from __future__ import annotations

import gc
import mmap
import os
from multiprocessing import Pipe
from pathlib import Path

import numpy as np
import pytest

from fedlearn.engine.embedded.sharing import ALIGNMENT, SharedMemory, SharedSlots, hand_over


def descriptors() -> int:
    return len(list(os.scandir("/proc/self/fd")))


def mapped() -> int:
    return Path("/proc/self/maps").read_text().count("memfd:fedlearn")


def test_a_reader_sees_what_is_written_before_and_after_it_got_the_memory():
    ours, theirs = Pipe()
    slots = SharedSlots(lambda memory: hand_over(memory, ours, os.getpid()))
    slots.write(3, {"w": np.arange(5)})
    memory = theirs.recv().receive(theirs)
    directory = slots.write(3, {"w": np.arange(5) * 2, "b": np.ones((2, 2), np.float32)})
    assert directory.slot == memory.slot == 3
    seen = memory.read(directory)
    np.testing.assert_array_equal(seen["w"], np.arange(5) * 2)
    np.testing.assert_array_equal(seen["b"], np.ones((2, 2)))


def test_every_array_begins_on_a_cache_line():
    memory = SharedMemory(0, mmap.PAGESIZE)
    directory = memory.write({str(size): np.zeros(size, np.uint8) for size in (1, 63, 64, 65, 0, 7)})
    assert [spot.start % ALIGNMENT for spot in directory.arrays] == [0] * 6
    for spot, array in zip(directory.arrays, memory.read(directory).values(), strict=True):
        assert spot.shape == array.shape


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"empty": np.zeros((0, 4))},
        {"number": np.array(3.0)},
        {"page": np.ones(mmap.PAGESIZE, np.uint8), "empty": np.zeros(0)},
        {"strided": np.arange(20).reshape(4, 5).T[::2], "fortran": np.asfortranarray(np.eye(3))},
        {"big-endian": np.arange(4, dtype=">i4"), "complex": np.array([1j])},
    ],
)
def test_any_array_comes_back_as_it_was(arrays):
    made: list[SharedMemory] = []
    directory = SharedSlots(made.append).write(0, arrays)
    back = made[0].read(directory)
    assert list(back) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array)
        assert back[name].dtype == array.dtype


def test_a_shared_memory_is_made_anew_only_when_it_is_too_small():
    made: list[SharedMemory] = []
    slots = SharedSlots(made.append)
    for size in (10, mmap.PAGESIZE // 8, 20, mmap.PAGESIZE, 30, mmap.PAGESIZE):
        slots.write(0, {"w": np.zeros(size)})
    slots.write(1, {"w": np.zeros(1)})
    assert [(memory.slot, memory.size) for memory in made] == [
        (0, mmap.PAGESIZE), (0, 8 * mmap.PAGESIZE), (1, mmap.PAGESIZE)
    ]  # fmt: skip


@pytest.mark.long
def test_shared_memories_that_are_replaced_leave_no_descriptor_and_no_memory():
    ours, theirs = Pipe()
    slots = SharedSlots(lambda memory: hand_over(memory, ours, os.getpid()))
    reader: dict[int, SharedMemory] = {}
    before = None
    for size in range(1, 9):
        slots.write(0, {"w": np.zeros(size * mmap.PAGESIZE)})
        reader[0] = theirs.recv().receive(theirs)
        gc.collect()
        before = before or (descriptors(), mapped())
        assert (descriptors(), mapped()) == before
    view = reader[0].read(slots.write(0, {"w": np.ones(3)}))["w"]
    del reader, slots
    assert view.tolist() == [1, 1, 1]  # the memory lives as long as its last view
    del view
    assert mapped() == before[1] - 2
