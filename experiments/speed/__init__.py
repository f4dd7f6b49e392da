"""Experiments on speed: rounds, start-up, memory, a deployment; beside hand-written loops and other frameworks."""
