"""Private trees in a federation: models, learners, strategies, each named in `fedlearn.plugins.tables` as a guest's."""
