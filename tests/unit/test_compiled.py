"""Compiling takes no longer to import than it must, and compiles what it did."""

import subprocess
import sys

IMPORTED = """
import sys
import fedlearn.compiled
import fedlearn.models.kernels.loops
print("scipy.linalg" in sys.modules)
import numba, numpy as np
print(numba.njit(lambda a, b: np.dot(a, b))(np.arange(3.0), np.ones(3)))
print("scipy.linalg" in sys.modules)
"""


def test_scipy_is_imported_when_a_matrix_is_multiplied_and_not_before():
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "3.0", "True"]
