"""Frozen weights in memory once a machine: all processes that train a model map one file of them, copy-on-write.

A process that has made a module writes its large frozen tensors to a file, unless another process has, and maps it in
their place. Pages that no process writes to lie in memory once. A process that writes to a weight gets a page of its
own, so that no other sees it; before each fit the weights are compared with the file and put back.

The file is named by its content, and compared with the weights when it is mapped. It lies in a folder of temporary
files that only its owner can open. A process locks the files that it has mapped; the next process that maps one
removes all that no process has locked, also after a kill.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import stat
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
import xxhash
from torch import Tensor

SMALLEST = 32 << 20  # bytes; below, a module of each process's own is no burden
ALIGNMENT = 64
PAGES = Path("/proc/self/pagemap")
_locked: dict[Path, int] = {}  # file -> descriptor with a shared lock, as long as this process lives


def mapped(tensors: Sequence[Tensor]) -> dict[int, Tensor]:
    """Let tensors be views of a file that processes share; return the id of each -> a second view, to compare with.

    Returns an empty mapping, and changes nothing, where the tensors are small or no file can be had.

    Examples
    --------
    >>> mapped([torch.zeros(3)])
    {}
    """
    large = [each for each in tensors if each.is_contiguous() and each.numel() and each.device.type == "cpu"]
    if not large or sum(each.nbytes for each in large) < SMALLEST:
        return {}
    with suppress(OSError, RuntimeError):  # of a full disk, of a folder of another user
        found = _mapped(large)
        with suppress(AttributeError):  # the C library keeps what is freed in small pieces, and not every one has this
            ctypes.CDLL(None).malloc_trim(0)
        return found
    return {}


def same_as(mapped_one: Tensor) -> Callable[[Tensor, Tensor], bool]:
    """Return a function like `torch.equal`, of a mapped tensor and another one with the numbers of its file.

    Numbers are compared only where this process may have written some, and where the tensor is given other memory or
    another view of it, as ``tensor.data = ...`` does.
    """
    begun = mapped_one.detach()  # whose memory is then nobody else's

    def is_same(own: Tensor, reference: Tensor) -> bool:
        lies_there = own.data_ptr() == begun.data_ptr() and own.dtype == begun.dtype
        is_whole = lies_there and own.shape == begun.shape and own.stride() == begun.stride()
        return (is_whole and not _may_be_written(begun)) or torch.equal(own, reference)

    return is_same


def _may_be_written(tensor: Tensor) -> bool:
    """Return whether this process may have written to the pages of a mapped tensor.

    A page that was written to is no longer one of the file, as Linux says in /proc/self/pagemap.
    """
    begin, end = tensor.data_ptr() // mmap.PAGESIZE, -(-(tensor.data_ptr() + tensor.nbytes) // mmap.PAGESIZE)
    with suppress(OSError), PAGES.open("rb", buffering=0) as pages:
        flags = np.frombuffer(os.pread(pages.fileno(), 8 * (end - begin), 8 * begin), np.uint64)
        here, swapped, of_file = (flags >> np.uint64(bit) & np.uint64(1) for bit in (63, 62, 61))
        return len(flags) != end - begin or bool((swapped | (here & (1 - of_file))).any())
    return True


def _mapped(tensors: Sequence[Tensor]) -> dict[int, Tensor]:
    starts, size = [], 0
    for each in tensors:
        starts.append(size)
        size += -(-each.nbytes // ALIGNMENT) * ALIGNMENT
    path = _file_of(tensors, size)
    own, reference = (torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8) for _ in range(2))
    both = [
        [flat[start : start + each.nbytes].view(each.dtype).view(each.shape) for flat in (own, reference)]
        for each, start in zip(tensors, starts, strict=True)
    ]
    if not all(_is_same(each, views[0]) for each, views in zip(tensors, both, strict=True)):
        path.unlink(missing_ok=True)  # it was cut off or written to: the next process makes it anew
        return {}
    for each, (view, _) in zip(tensors, both, strict=True):
        each.data = view
    return {id(each): views[1] for each, views in zip(tensors, both, strict=True)}


def _bytes_of(tensor: Tensor) -> Tensor:
    return tensor.detach().reshape(-1).view(torch.uint8)


def _is_same(one: Tensor, other: Tensor) -> bool:
    return torch.equal(_bytes_of(one), _bytes_of(other))


def _file_of(tensors: Sequence[Tensor], size: int) -> Path:
    """Return a file with the bytes of tensors, locked for as long as this process lives; write it where it is new."""
    digest = xxhash.xxh3_128()
    for each in tensors:
        digest.update(f"{each.dtype} {tuple(each.shape)}\n".encode())
        digest.update(_bytes_of(each).numpy().data)
    folder = _folder()
    path = folder / digest.hexdigest()
    while path not in _locked:
        if not path.exists() or path.stat().st_size != size:
            _write(path, tensors)
        with suppress(FileNotFoundError):  # its last process has just ended
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                _locked[path] = descriptor
            else:
                os.close(descriptor)
    _remove_unlocked(folder)
    return path


def _write(path: Path, tensors: Sequence[Tensor]) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH)  # while it is written nobody removes it
            for each in tensors:
                file.write(_bytes_of(each).numpy().data)
                file.write(bytes(-each.nbytes % ALIGNMENT))
            file.flush()
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def _remove_unlocked(folder: Path) -> None:
    """Remove the files of processes that have ended."""
    for path in folder.iterdir():
        with suppress(OSError):  # another process has it
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(descriptor)


def _folder() -> Path:
    """Return the folder of the files; raise OSError where another user could write to it."""
    folder = Path(tempfile.gettempdir()) / f"fedlearn-base-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"{folder} is not ours alone")
    return folder
