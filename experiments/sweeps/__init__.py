"""Experiments that run grids of settings over several seeds, with tables and figures."""
