"""Strategies of private models: how the server combines the trees or sums of the nodes."""
