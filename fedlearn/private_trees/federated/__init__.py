"""Private trees in a federation: models, learners and strategies, each named in `fedlearn.plugins` like a guest's."""
