"""Grids of settings over several seeds, with tables and figures."""
