"""Experiments whose numbers the project quotes; see README.md."""
