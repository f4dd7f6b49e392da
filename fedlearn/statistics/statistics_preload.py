"""Import what workers need to add up statistics, before they are forked; no torch, no numba."""

from fedlearn.engine.processes import importing

with importing():
    import fedlearn.statistics.counted_columns
    import fedlearn.statistics.cox
    import fedlearn.statistics.describe
    import fedlearn.statistics.glm
    import fedlearn.statistics.noisy_analyses
    import fedlearn.statistics.private_cox
    import fedlearn.statistics.private_glm
    import fedlearn.statistics.survival  # noqa: F401
