"""Functions are compiled, wherever there is or is not a place to keep what was compiled."""

import os
import subprocess
import sys

CODE = """
from fedlearn.compiled import compiled

@compiled()
def twice(x):
    return 2 * x

@compiled()
def thrice(x):
    return 3 * x

print(twice(3), thrice(3))
"""


def test_compiled_anew_where_no_folder_can_be_written_to(tmp_path):
    """So it is in a container of another user, whose home and packages are read-only; that is said once."""
    script = tmp_path / "script.py"
    script.write_text(CODE)
    for locators, lines in (("UserProvidedCacheLocator", 0), ("IPythonCacheLocator", 1)):
        environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_CACHE_LOCATOR_CLASSES": locators}
        done = subprocess.run(
            [sys.executable, str(script)], env=os.environ | environment, capture_output=True, text=True, check=True
        )
        assert done.stdout == "6 9\n"
        assert done.stderr.count("NUMBA_CACHE_DIR") == lines
    assert list(tmp_path.rglob("*.nbi"))
