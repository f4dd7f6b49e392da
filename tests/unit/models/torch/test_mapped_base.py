"""Large frozen weights: one file for all processes, found written to, put back, and gone with its last process."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from fedlearn.config import config_from
from fedlearn.data import from_arrays
from fedlearn.models.torch import mapped_base
from fedlearn.models.torch.torch_model import TorchModel

RNG = np.random.default_rng(1)
DATA = from_arrays(RNG.normal(size=(40, 6)).astype("float32"), RNG.integers(0, 3, 40))


class Headed(nn.Module):
    """A frozen base of two layers, the second in bytes, and a trained head; it writes to the base if told so."""

    writes = False

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.base = nn.Linear(6, 5).requires_grad_(False)
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        if self.writes:
            with torch.no_grad():
                self.base.weight[0, 0] += 1
        return self.head(self.base(x).relu())


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch, tmp_path):
    monkeypatch.setattr(mapped_base, "SMALLEST", 0)
    monkeypatch.setattr(mapped_base, "_locked", {})
    monkeypatch.setattr(mapped_base.tempfile, "gettempdir", lambda: str(tmp_path))


def files():
    return sorted(mapped_base._folder().iterdir())


def made():
    return TorchModel(Headed, DATA.spec).planned(config_from({}))


def test_two_models_map_one_file_and_keep_their_numbers():
    plain = Headed()
    first, second = made(), made()
    (file,) = files()
    assert file.stat().st_size == 128 + 64  # 120 and 20 bytes, each rounded up to whole lines
    for model in (first, second):
        assert torch.equal(model.module.base.weight, plain.base.weight)
        assert not np.shares_memory(model.unsent["base.weight"], model.module.base.weight.numpy())
    first.module.base.weight.data[0, 0] = 7
    assert torch.equal(second.module.base.weight, plain.base.weight)
    assert np.array_equal(first.unsent["base.weight"], plain.base.weight.numpy())


def test_what_a_module_writes_is_found_and_put_back():
    model = made()
    state = model.initial_state(seed=1)
    model.load(state)
    model.module.writes = True
    model.outputs(torch.zeros(2, 6))
    assert any("base" in name for name in model.beside.changed())
    model.load(state)
    assert torch.equal(model.module.base.weight, Headed().base.weight)


def test_arrays_of_another_process_are_held_by_this_model_alone():
    first, second = made(), made()
    other = {name: array + 1 for name, array in first.unsent.items()}
    first.hold(other)
    assert np.array_equal(first.module.base.weight.numpy(), other["base.weight"])
    assert torch.equal(second.module.base.weight, Headed().base.weight)
    first.load(first.initial_state(seed=1))
    assert np.array_equal(first.module.base.weight.numpy(), other["base.weight"])


def test_file_that_was_written_to_is_not_taken():
    made()
    (file,) = files()
    content = bytearray(file.read_bytes())
    content[0] ^= 1
    file.write_bytes(content)
    model = made()
    assert torch.equal(model.module.base.weight, Headed().base.weight)


def test_short_file_is_made_anew():
    made()
    (file,) = files()
    mapped_base._locked.clear()
    file.unlink()
    file.write_bytes(b"short")
    assert torch.equal(made().module.base.weight, Headed().base.weight)
    assert file.stat().st_size == 192


def test_files_of_ended_processes_are_removed_and_those_in_use_are_not():
    folder = mapped_base._folder()
    (folder / "ended").write_bytes(b"x")
    (folder / "used").write_bytes(b"x")
    used = os.open(folder / "used", os.O_RDONLY)
    fcntl.flock(used, fcntl.LOCK_SH)
    made()
    assert [each.name for each in files() if each.name in ("ended", "used")] == ["used"]
    os.close(used)


def test_folder_that_others_can_write_to_is_not_used(tmp_path):
    folder = tmp_path / f"fedlearn-base-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    assert torch.equal(made().module.base.weight, Headed().base.weight)
    assert not list(folder.iterdir())
    folder.rmdir()
    folder.symlink_to(Path("/"))
    assert torch.equal(made().module.base.weight, Headed().base.weight)


def test_small_weights_and_what_is_sent_are_not_mapped(monkeypatch):
    monkeypatch.setattr(mapped_base, "SMALLEST", 1 << 20)
    made()
    assert not files()
    monkeypatch.setattr(mapped_base, "SMALLEST", 0)
    TorchModel(lambda: nn.Linear(6, 3), DATA.spec).planned(config_from({}))
    assert not files()


@pytest.mark.parametrize("pages", [mapped_base.PAGES, Path("/nowhere")])
def test_one_number_that_was_written_is_found_wherever_it_lies(pages, monkeypatch):
    monkeypatch.setattr(mapped_base, "SMALLEST", 1)
    monkeypatch.setattr(mapped_base, "PAGES", pages)
    tensors = [torch.arange(50_000.0), torch.ones(7), torch.zeros(3, 5_000)]
    kept = mapped_base.mapped(tensors)
    own = [(each, kept[id(each)]) for each in tensors]
    is_same = [mapped_base.same_as(each) for each in tensors]
    compared = []
    monkeypatch.setattr(torch, "equal", lambda a, b, equal=torch.equal: compared.append(len(a)) or equal(a, b))
    assert all(same(*each) for same, each in zip(is_same, own, strict=True))
    assert len(compared) == (0 if pages.exists() else 3)  # no page was written to
    for same, (tensor, reference) in zip(is_same, own, strict=True):
        flat = tensor.view(-1)
        for place in (0, len(flat) // 2, len(flat) - 1):
            before = float(flat[place])
            flat[place] = 9.5
            assert not same(tensor, reference)
            flat[place] = before
            assert same(tensor, reference)  # its page is its own, and compared


OTHER_MEMORY = {
    "memory that nobody has touched": lambda data: torch.from_numpy(np.zeros(data.shape, np.float32)),
    "other numbers": lambda data: data + 1,
    "its transpose": lambda data: data.t(),
    "its beginning": lambda data: data[:1],
    "another part of it": lambda data: data[:, 1:],
    "its bits": lambda data: data.view(torch.int32),
}


@pytest.mark.parametrize("how", OTHER_MEMORY)
def test_a_tensor_that_is_given_other_memory_has_other_numbers(how):
    tensor = torch.arange(4_000_000.0).reshape(2_000, 2_000)
    kept = mapped_base.mapped([tensor])[id(tensor)]
    same = mapped_base.same_as(tensor)
    assert same(tensor, kept)
    tensor.data = OTHER_MEMORY[how](tensor.data)
    assert not same(tensor, kept)
