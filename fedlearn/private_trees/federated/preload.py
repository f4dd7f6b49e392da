"""What workers need that train trees: numba and scikit-learn, which take a second, and no torch."""

from fedlearn.engine.processes import importing

with importing():
    pass
