from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from fedlearn.data import Examples

IMAGES = np.zeros((2, 4, 4, 3), np.uint8)


@pytest.mark.parametrize(
    ("images", "labels"),
    [
        (IMAGES.astype(np.float16), np.zeros(2, np.int64)),
        (IMAGES[0, 0, 0], np.zeros(3, np.int64)),
        (IMAGES, np.zeros(2, np.int32)),
        (IMAGES, np.zeros(3, np.int64)),
    ],
)
def test_examples_of_the_wrong_kind_are_refused(images, labels):
    with pytest.raises(ValueError, match="must be"):
        Examples(images, labels)


def test_length_is_the_number_of_examples():
    assert len(Examples(IMAGES, np.zeros(2, np.int64))) == 2


def test_importing_the_package_imports_nothing_heavy():
    heavy = "{'flwr', 'flwr_datasets', 'datasets', 'torch', 'torchvision', 'pyarrow', 'PIL', 'sklearn'}"
    modules = "fedlearn.data, fedlearn.data.cifar10, fedlearn.data.digits"
    program = f"import sys, {modules}; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
