"""The text of an object in settings: its name if it can be imported, else its code's fingerprint."""

from __future__ import annotations

import hashlib
import json
import pickle
import subprocess
import sys
import textwrap
from functools import partial

import numpy as np
import pytest

from fedlearn.core.errors import SettingError
from fedlearn.models.networks.cnn import CNN
from fedlearn.plugins import objects
from fedlearn.plugins.registry import load_plugin, load_reference

SCRIPT = """
    from fedlearn.plugins.objects import reference_to
    FACTOR = {factor}
    def helper(x):
        return x * FACTOR
    class Net:
        width = 3
        allowed = frozenset({{"mean", "sum", "median", "norm"}})
        def forward(self, x):
            return helper(x) if x in {{"a", "b", "c", "d"}} else self.width
    class Wider(Net):
        def forward(self, x):
            return super().forward(x) + 1
    print(reference_to(Net), reference_to(Wider), reference_to(lambda: Net()))
"""


def references_in_another_process(folder, name="script.py", *, factor=2, above=""):
    """Return what a script's own classes and function are called."""
    path = folder / name
    path.write_text(above + textwrap.dedent(SCRIPT).format(factor=factor))
    return subprocess.run([sys.executable, path], capture_output=True, text=True, check=True).stdout.split()


def test_what_can_be_imported_is_named():
    assert objects.reference_to(CNN) == "fedlearn.models.networks.cnn:CNN"
    assert objects.reference_to(np.linalg.norm) == "numpy.linalg:norm"


def test_what_cannot_be_imported_is_named_by_its_code():
    class Local:
        pass

    assert objects.is_reference(objects.reference_to(Local))
    assert objects.reference_to(Local).startswith("object:Local-")
    assert objects.reference_to(partial(max, 1)).startswith("object:PARTIAL-")


def test_object_is_itself_again_in_this_process():
    def doubled(x):
        return 2 * x

    assert load_reference(objects.reference_to(doubled))(4) == 8


def test_class_is_the_same_class_each_time():
    def made():
        class Local:
            pass

        return Local

    first, second = made(), made()
    assert objects.reference_to(first) == objects.reference_to(second)
    reference = objects.reference_to(second)  # as the last one to be made, as when a cell is run again
    assert load_reference(reference) is load_reference(reference) is second


def test_instance_is_a_copy_each_time_as_runs_must_not_share_it():
    reference = objects.reference_to({"moments": [1.0]})
    assert load_reference(reference) is not load_reference(reference)


def test_same_code_has_the_same_name_in_another_session_file_and_line(tmp_path):
    first = references_in_another_process(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    second = references_in_another_process(tmp_path / "elsewhere", "other.py", above="# a line\n# and another\n\n")
    assert first == second
    assert len({*first}) == 3


def test_other_code_that_a_method_calls_makes_another_name(tmp_path):
    assert not {*references_in_another_process(tmp_path, factor=2)} & {
        *references_in_another_process(tmp_path, factor=3)
    }


def test_objects_are_found_in_a_run_folder_by_who_was_not_given_them(tmp_path, monkeypatch):
    reference = objects.reference_to([1, 2, 3])
    (tmp_path / "objects").mkdir()
    (tmp_path / objects.file_of(reference)).write_bytes(objects.content_of(reference))
    monkeypatch.setattr(objects, "_packed", {})
    monkeypatch.setattr(objects, "_folders", [])
    with pytest.raises(SettingError, match="no run folder is known: give the object again, from Python"):
        load_plugin("model.name", reference)
    objects.look_in(tmp_path)
    assert load_reference(reference) == [1, 2, 3]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (lambda content: content[:-1], "is damaged, or was changed by hand"),
        (lambda content: content.replace(b"3.", b"2.", 1), "it was stored by Python 2."),
        (lambda content: objects._with_header(b"nonsense"), "UnpicklingError"),
        (lambda content: objects._with_header(pickle.dumps(SettingError)[:-5]), "it cannot be loaded"),
        (lambda content: b"", "is damaged"),
        (lambda content: objects.content_of(objects.reference_to([4])), r"holds other code, LIST-\w+: put back"),
    ],
)
def test_file_that_cannot_be_loaded_is_one_line(tmp_path, monkeypatch, changed, said):
    reference = objects.reference_to([1, 2, 3])
    (tmp_path / "objects").mkdir()
    (tmp_path / objects.file_of(reference)).write_bytes(changed(objects.content_of(reference)))
    monkeypatch.setattr(objects, "_packed", {})
    monkeypatch.setattr(objects, "_folders", [tmp_path])
    with pytest.raises(SettingError, match=said) as error:
        load_plugin("model.name", reference)
    assert "\n" not in str(error.value)


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Have an object in a run folder, and no longer in this process; return its name and its file."""
    reference = objects.reference_to([1, 2, 3])
    file = tmp_path / objects.file_of(reference)
    file.parent.mkdir()
    file.write_bytes(objects.content_of(reference))
    monkeypatch.setattr(objects, "_packed", {})
    monkeypatch.setattr(objects, "_folders", [tmp_path])
    return reference, file


def test_object_is_the_one_whose_sha256_the_runs_checkpoint_names(stored, tmp_path):
    reference, file = stored
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    (tmp_path / "checkpoint.json").write_text(json.dumps({"files": {objects.file_of(reference): digest}}))
    assert load_reference(reference) == [1, 2, 3]
    file.write_bytes(objects._with_header(pickle.dumps([4]), reference))  # by somebody who writes the line anew, too
    with pytest.raises(SettingError, match=r"LIST.*pickle is other code than the run was begun with: put back"):
        load_plugin("model.name", reference)


@pytest.mark.parametrize("checkpoint", [b"{", b"[]", b'{"files": 3}', b"\xff", b"[" * 100_000])
def test_object_beside_a_checkpoint_that_cannot_be_read_is_not_loaded(checkpoint, stored, tmp_path):
    (tmp_path / "checkpoint.json").write_bytes(checkpoint)
    with pytest.raises(SettingError, match=r"checkpoint.json, which says what code .*, cannot be read") as error:
        load_plugin("model.name", stored[0])
    assert "\n" not in str(error.value)


def test_object_of_an_older_version_is_loaded_without_a_name_or_a_checksum(stored, tmp_path):
    reference, file = stored
    file.write_bytes(objects._with_header(pickle.dumps([1, 2, 3])))
    assert file.read_bytes().split(b"\n")[0].count(b" ") == 1
    (tmp_path / "checkpoint.json").write_text('{"files": {}}')
    assert load_reference(reference) == [1, 2, 3]


def test_module_of_a_kind_of_its_own_is_found_by_its_name():
    text = "import torch\ndef net(spec): return torch.nn.Linear(3, spec.classes)"  # torch.classes is such a module
    made: dict[str, object] = {"__name__": "__main__"}
    exec(text, made)
    assert objects.load(objects.reference_to(made["net"])).__code__ == made["net"].__code__


def test_what_cannot_be_pickled_says_so(tmp_path):
    with (tmp_path / "file").open("w") as file, pytest.raises(ValueError, match="it cannot be pickled"):
        objects.reference_to(file)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
def test_tensors_are_named_by_their_numbers_not_by_their_place_in_memory(dtype):
    import torch

    def holder(first, second):
        return {"first": first, "second": second}

    def numbers(start=0):
        return torch.arange(start, start + 4, dtype=getattr(torch, dtype))

    one, *others = (numbers(), numbers(1), numbers().reshape(2, 2), numbers().to(torch.float64))
    fingerprints = [objects._fingerprint(holder(numbers(), numbers())) for _ in range(2)]
    assert fingerprints[0] == fingerprints[1]
    assert len({objects._fingerprint(each) for each in (one, *others)}) == 4
    assert objects._fingerprint(holder(one, one)) != fingerprints[0]  # tied


def test_module_made_anew_has_the_same_name():
    import torch

    names = set()
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        names.add(objects.reference_to(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))))
    assert len(names) == 2
