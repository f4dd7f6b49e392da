"""A torch module as a model: its state, training, evaluation, and what in it lies outside its state."""
