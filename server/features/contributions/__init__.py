"""Contributions: the changes of clients are stored, and the models of coalitions rebuilt from them."""
