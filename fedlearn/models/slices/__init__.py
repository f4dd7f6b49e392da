"""Slices: the part of a model that a client with a small device has; what it does not have is null."""
