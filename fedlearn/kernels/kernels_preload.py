"""Load the compiled loops before workers are forked, which then share this process's machine code."""

from contextlib import suppress

from fedlearn.core.errors import SettingError
from fedlearn.kernels import pooled_convolution

with suppress(SettingError):  # the trial step before round 1 raises it again, as one line
    if pooled_convolution.has_vectors():
        pooled_convolution.loops()
