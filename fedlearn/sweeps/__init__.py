"""Grids of settings over several seeds: a plan, its runs in one warm engine, tables of their results."""
