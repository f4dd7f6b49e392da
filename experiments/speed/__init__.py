"""How fast: rounds, start-up, memory, a deployment; beside loops written by hand and beside Flower."""
